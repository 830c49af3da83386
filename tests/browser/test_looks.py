"""Every page in both themes, wide and narrow: axe finds nothing, and nothing sticks out."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import NARROW, WIDE
from tests.browser.looks import keep, overflow, violations
from tests.server.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGES = {
    "overview": ("/?range=6h", "[data-row]"),
    "queues": ("/queues", "[data-row]"),
    "queue": ("/queues/demo.orders?range=6h", "[data-chart] canvas"),
    "partitions": ("/queues/demo.exports?tab=partitions", "[data-row]"),
    "groups": ("/queues/demo.exports?tab=groups", "[data-row]"),
    "deliveries": ("/queues/demo.payments?tab=deliveries", "[data-row]"),
    "configuration": ("/queues/demo.sms?tab=configuration", "#option-leaseTime"),
    "missing": ("/nowhere", "[data-empty]"),
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
async def test_a_page_is_for_everybody(page: Page, demo: Server, name: str, theme: str) -> None:
    path, ready = PAGES[name]
    await page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    for width in (WIDE, NARROW):
        await page.set_viewport_size({"width": width, "height": 900 if width == WIDE else 812})
        await page.goto(demo.base_url + path)
        await expect(page.locator(ready).first).to_be_visible()
        await page.wait_for_load_state("networkidle")
        await keep(page, f"{name}-{theme}-{width}")
        assert await violations(page) == []
        assert await overflow(page) <= 0


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_dialogs_and_the_palette_are_for_everybody(
    page: Page, demo: Server, theme: str
) -> None:
    await page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    await page.goto(f"{demo.base_url}/queues/demo.orders")
    await page.get_by_role("button", name="Push", exact=True).click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await keep(page, f"push-{theme}-{WIDE}")
    assert await violations(page) == []
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("option").first).to_be_visible()
    await keep(page, f"palette-{theme}-{WIDE}")
    assert await violations(page) == []
