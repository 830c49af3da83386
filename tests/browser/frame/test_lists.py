"""Lists of the dashboard always show that there is more, and keep the sort order in the URL."""

import asyncio
import re

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from tests.browser.pages.test_dead_letters import bury
from tests.support.server import Server

pytestmark = [pytest.mark.nightly, pytest.mark.asyncio(loop_scope="session")]

MANY = 105
"""More than a page."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def many(empty: Server) -> Server:
    """Many queues with a failed job, and one with many groups, each further ahead than the last."""
    names = [f"q{n:03}" for n in range(MANY)]
    for name in names:
        await empty.post("/configure", {"queue": name, "options": {"ordered": False}})
    items = [{"queue": name, "payload": 1} for name in names]
    assert (await empty.post("/push", {"items": items})).status == 201
    popped = [(await empty.post("/pop", {"queue": name})).body["messages"][0] for name in names]
    told = [
        {
            **{name: each[name] for name in ("transactionId", "partitionId", "leaseId")},
            "status": "dlq",
        }
        for each in popped
    ]
    assert (await empty.post("/ack/batch", {"acknowledgments": told})).body["success"]
    items = [{"queue": "read by many", "payload": n} for n in range(MANY)]
    assert (await empty.post("/push", {"items": items})).status == 201
    for n in range(MANY):
        body = {"queue": "read by many", "consumerGroup": f"g{n:03}", "batch": n + 1}
        assert (await empty.post("/pop", {**body, "autoAck": True})).status == 200
    return empty


async def further(page: Page, table: Locator) -> None:
    """Check that the list shows that there is more, and load the rest."""
    await expect(table).to_have_attribute("aria-rowcount", "-1")
    # A click would scroll to the button first, and scrolling also loads the rest.
    await page.get_by_role("button", name="Load more").dispatch_event("click")
    await expect(table).to_have_attribute("aria-rowcount", str(MANY + 1))
    await expect(page.get_by_role("button", name="Load more")).to_have_count(0)
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")


async def test_all_queues_with_dead_letters_are_listed(page: Page, many: Server) -> None:
    await page.goto(f"{many.base_url}/dead-letters")
    await further(page, page.get_by_role("table", name="Queues with dead letters"))


async def test_all_queues_with_jobs_are_listed(page: Page, many: Server) -> None:
    await page.goto(f"{many.base_url}/jobs")
    table = page.get_by_role("table", name="Queues with jobs")
    await further(page, table)
    await table.get_by_role("button", name="q104").click()
    await expect(page.get_by_role("heading", name="Jobs in q104")).to_be_visible()


async def test_all_groups_of_a_queue_are_listed_and_sorted(page: Page, many: Server) -> None:
    await page.goto(f"{many.base_url}/queues/read%20by%20many?tab=groups")
    table = page.get_by_role("table", name="Consumer groups")
    await expect(table.locator("[data-row]").first).to_have_text("g000")
    await further(page, table)

    await page.goto(f"{many.base_url}/queues/read%20by%20many?tab=groups&sort=-name")
    await expect(table.locator("[data-row]").first).to_have_text(f"g{MANY - 1}")
    await table.get_by_role("button", name="Lag", exact=True).click()
    await expect(page).to_have_url(re.compile("sort=-lag"))
    head = table.get_by_role("columnheader", name="Lag")
    await expect(head).to_have_attribute("aria-sort", "descending")
    async with asyncio.timeout(120):
        # As of the last sample.
        while (await table.locator("[data-row]").first.text_content() or "").strip() != "g000":
            await page.reload()
            await expect(table.locator("[data-row]").first).to_be_visible()
    await table.locator("[data-row]").first.click()
    await expect(page.locator("[data-tile=Lag] [data-value]")).to_have_text(str(MANY - 1))


async def test_dead_letters_and_errors_are_sorted_by_time(page: Page, empty: Server) -> None:
    await bury(empty, "by time", 1, "an old one")
    await bury(empty, "by time", 2, "a new one")
    await page.goto(f"{empty.base_url}/dead-letters?queue=by%20time")
    letters = page.get_by_role("table", name="Dead letters")
    first = letters.locator("tr[aria-rowindex]").first
    await expect(first).to_contain_text("a new one")
    await letters.get_by_role("button", name="Failed").click()
    await expect(first).to_contain_text("an old one")
    await page.reload()
    await expect(first).to_contain_text("an old one")
    await letters.get_by_role("button", name="Failed").click()
    await expect(first).to_contain_text("a new one")

    await bury(empty, "by time", 1, "an old one")
    await page.reload()
    errors = page.get_by_role("table", name="Errors")
    kind = errors.locator("tr[aria-rowindex]").first
    await errors.get_by_role("button", name="First").click()
    await expect(kind).to_contain_text("a new one")
    await errors.get_by_role("button", name="Last").click()
    await expect(kind).to_contain_text("an old one")
    await expect(page).to_have_url(re.compile("errors=-lastAt"))
