"""`queen dev --demo` on the dashboard: busy, with history, and one queue that needs attention."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.looks import keep
from tests.support.dev import started, stopped

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.nightly]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def url() -> AsyncIterator[str]:
    process, url = await started("--ephemeral", "--demo")
    yield url
    assert await stopped(process) == 0


async def test_exactly_one_queue_needs_attention(page: Page, url: str) -> None:
    await page.goto(url)
    await expect(page.locator("[data-environment]")).to_have_text("demo")
    await expect(page.locator("[data-chart] canvas")).to_have_count(2)
    rows = page.locator("section[aria-labelledby=attention] li")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("demo.payments")
    await expect(rows).to_contain_text("Messages could not be processed.")
    await keep(page, "demo-light-1440")


@pytest.mark.parametrize("range_", ["15m", "1h", "6h", "24h"])
async def test_no_chart_of_the_overview_or_a_queue_is_empty(
    page: Page, url: str, range_: str
) -> None:
    for path in (f"/?range={range_}", f"/queues/demo.orders?tab=charts&range={range_}"):
        await page.goto(url + path)
        await expect(page.locator("[data-chart] canvas").first).to_be_visible()
        await expect(page.locator("[data-chart]").filter(has_text="No data")).to_have_count(0)
