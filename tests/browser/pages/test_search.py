"""The search for messages: by time, by its buttons, further back, and as a tail."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.pages.test_messages import push
from tests.support.server import Server

pytestmark = [pytest.mark.nightly, pytest.mark.asyncio(loop_scope="session")]

EARLIER = """
create or replace function queen.now () returns timestamptz language sql volatile as $$
  select clock_timestamp() - interval '1 hour'
$$
"""
NOW = EARLIER.replace(" - interval '1 hour'", "")


@asynccontextmanager
async def an_hour_ago(dsn: str) -> AsyncGenerator[None]:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(EARLIER)
        yield
    finally:
        await connection.execute(NOW)
        await connection.close()


def rows(page: Page) -> Locator:
    return page.get_by_role("table", name="Messages").locator("tbody tr[aria-rowindex]")


def words(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Search messages")


async def test_relative_times_narrow_a_search_and_move_with_the_clock(
    page: Page, empty: Server, own_dsn: str
) -> None:
    async with an_hour_ago(own_dsn):
        await push(empty, "timed", "old")
    await push(empty, "timed", "new")
    await page.clock.install()
    await page.goto(f"{empty.base_url}/messages?queue=timed")
    await expect(rows(page)).to_have_count(2)
    for text, found in {
        "to:-15m": ["old"],
        "from:-2h to:-30m": ["old"],
        "from:-2h": ["new", "old"],
        "from:-15m": ["new"],
    }.items():
        await words(page).fill(text)
        await words(page).press("Enter")
        await expect(rows(page)).to_have_count(len(found))
        for row, payload in zip(await rows(page).all(), found, strict=True):
            await expect(row).to_contain_text(payload)
    await expect(page).to_have_url(re.compile("q=from:-15m"))
    await page.reload()
    await expect(rows(page)).to_have_count(1)
    await page.clock.fast_forward(20 * 60_000)
    await expect(page.locator("[data-empty]")).to_contain_text("No matching messages")
    await words(page).fill("from:soon")
    await words(page).press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text(
        "from:soon is not a valid time. Enter -15m"
    )


async def test_search_fields_have_buttons(page: Page, empty: Server) -> None:
    await push(empty, "pressed", {"n": 1}, partition="eu")
    await push(empty, "pressed", {"n": 2}, partition="us")
    await page.goto(f"{empty.base_url}/messages?queue=pressed")
    help_ = page.get_by_role("search")
    for word in ("partition", "group", "status", "tx", "from", "to", "payload.path"):
        await words(page).fill("")
        await help_.get_by_role("button", name=f"{word}:", exact=True).click()
        await expect(words(page)).to_have_value(
            "payload." if word == "payload.path" else f"{word}:"
        )
    await words(page).fill("")
    await help_.get_by_role("button", name="partition:", exact=True).click()
    await page.keyboard.type("us")
    await page.get_by_role("button", name="Search", exact=True).click()
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("us")
    await page.get_by_label("Status").select_option("failed")
    await expect(words(page)).to_have_value("status:failed partition:us")
    await expect(page.locator("[data-empty]")).to_be_visible()
    await page.get_by_label("Status").select_option("pending")
    await expect(rows(page)).to_have_count(1)
    await page.get_by_label("Status").select_option("any")
    await expect(words(page)).to_have_value("partition:us")


async def test_older_messages_are_searched_on_request(page: Page, empty: Server) -> None:
    await push(empty, "far", {"name": "needle"})
    many = {"items": [{"queue": "far", "payload": 0}] * 6_000}
    assert (await empty.post("/push", many)).status == 201
    await push(empty, "far", {"name": "needle"})
    await page.goto(f"{empty.base_url}/messages?queue=far&q=payload.name:needle")
    await expect(rows(page)).to_have_count(1)
    further = page.get_by_role("button", name="Search older messages")
    await further.click()
    await expect(rows(page)).to_have_count(2)
    await expect(page.locator("[data-scanned]")).to_contain_text("searched all 6,002")
    await expect(further).to_have_count(0)


async def test_a_search_opens_as_a_tail_and_a_tail_as_a_search(page: Page, empty: Server) -> None:
    await push(empty, "both", {"kind": "a"})
    await push(empty, "both", {"kind": "b"})
    await page.goto(f"{empty.base_url}/messages?queue=both&q=payload.kind:a")
    await expect(rows(page)).to_have_count(1)
    await page.get_by_role("link", name="Follow").click()
    lines = page.get_by_role("list", name="Incoming messages").locator("[data-row]")
    await expect(lines).to_have_count(1)
    await expect(lines).to_contain_text('"a"')
    await page.get_by_role("link", name="Search", exact=True).click()
    await expect(rows(page)).to_have_count(1)
    await expect(words(page)).to_have_value("payload.kind:a")


async def test_without_a_queue_the_page_asks_for_one(page: Page, empty: Server) -> None:
    await push(empty, "named", {"n": 7})
    await page.goto(f"{empty.base_url}/messages")
    await expect(page.locator("[data-empty]")).to_contain_text("Choose a queue")
    await page.get_by_role("combobox", name="Queue").fill("named")
    await expect(rows(page)).to_have_count(1)
    assert page.url == f"{empty.base_url}/messages?queue=named"
    await page.goto(f"{empty.base_url}/tail")
    await expect(page.locator("[data-empty]")).to_contain_text("Choose a queue")
    await page.get_by_role("combobox", name="Queue").fill("named")
    await page.get_by_role("list", name="Incoming messages").locator("[data-row]").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Message 0 of Default")


async def test_a_payload_and_an_id_are_copied_completely(page: Page, empty: Server) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    pushed = await push(empty, "whole", {"f": 1.0, "n": 12345678901234567890})
    await page.goto(f"{empty.base_url}/messages/{pushed['id']}")
    for label, text in {
        "Copy payload": '{"f": 1.0, "n": 12345678901234567890}',
        "Copy Transaction": pushed["transactionId"],
    }.items():
        copy = page.get_by_role("button", name=label, exact=True)
        await copy.click()
        await expect(copy).to_contain_text("Copied")
        assert await page.evaluate("navigator.clipboard.readText()") == text
