"""The reason why a queue does not progress is at most three clicks from the overview."""

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.support.server import Server

pytestmark = [pytest.mark.nightly, pytest.mark.asyncio(loop_scope="session")]

CASES = {
    "demo.emails": ("paused", "Paused", "Consumers receive no messages until you resume"),
    "demo.reports": ("no-consumer", "No consumer", "No consumer has ever read"),
    "demo.payments": ("retrying", "Retrying", "wait"),
    "demo.sms": ("rate-limit", "Rate limit", "at most 1 message per 10m"),
    "demo.exports": ("held", "No progress", "leased, but no message is being consumed"),
}


LATER = """
create or replace function queen.now () returns timestamptz language sql volatile as $$
  select clock_timestamp() + interval '200 seconds'
$$
"""
"""Moves the clock, because rates cover the last minutes and earlier pops would still count."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stuck(demo: Server, own_dsn: str) -> Server:
    """The demo some minutes later, without consumers."""
    connection = await asyncpg.connect(own_dsn)
    try:
        await connection.execute(LATER)
    finally:
        await connection.close()
    return demo


@pytest.mark.parametrize("queue", CASES)
async def test_the_reason_is_found(page: Page, stuck: Server, queue: str) -> None:
    kind, label, why = CASES[queue]
    await page.goto(stuck.base_url)
    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=queue, exact=True))
    await expect(row).to_contain_text(label)
    await expect(row.get_by_text("No consumer", exact=True)).to_have_count(
        int(kind == "no-consumer")
    )
    await row.get_by_role("link", name=queue, exact=True).click()
    trouble = page.locator(f"[data-trouble={kind}]")
    await expect(trouble).to_contain_text(why)
    await trouble.get_by_role("link").click()
    if kind == "retrying":
        await expect(page.get_by_role("table", name="Deliveries")).to_contain_text(
            "the currency is missing"
        )
    if kind == "held":
        await expect(page.get_by_role("button", name="Release eu")).to_be_visible()
