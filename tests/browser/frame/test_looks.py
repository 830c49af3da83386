"""
Every page in both themes, wide and narrow: axe has no findings, and the page does not overflow.
"""

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import NARROW, WIDE
from tests.browser.looks import keep, look, violations
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGES = {
    "overview": ("/?range=6h", "[data-row]"),
    "queues": ("/queues", "[data-row]"),
    "queue": ("/queues/demo.orders?range=6h", "[data-chart] canvas"),
    "partitions": ("/queues/demo.exports?tab=partitions", "[data-row]"),
    "groups": ("/queues/demo.exports?tab=groups", "[data-row]"),
    "deliveries": ("/queues/demo.payments?tab=deliveries", "[data-row]"),
    "configuration": ("/queues/demo.sms?tab=configuration", "#option-leaseTime"),
    "messages": ("/messages?queue=demo.refunds", "[data-row]"),
    "tail": ("/tail?queue=demo.refunds", "[data-row]"),
    "dead-letters": ("/dead-letters?queue=demo.refunds", "tr[aria-rowindex]"),
    "consumer-groups": ("/groups", "[data-row]"),
    "group": ("/groups/exporter/queues/demo.exports", "[data-row]"),
    "jobs": ("/jobs?queue=media", "tr[aria-rowindex]"),
    "schedules": ("/jobs?tab=schedules", "[data-row]"),
    "workers": ("/jobs?tab=workers", "[data-empty]"),
    "workflows": ("/workflows", "[data-row]"),
    "workflow": ("/workflows/demo-trip-2", "[data-step]"),
    "workflow-step": ("/workflows/demo-import-1?step=load", "[data-part]"),
    "workflow-signal": ("/workflows/demo-offer-1?step=approve", "[data-panel]"),
    "traces": ("/traces", "[data-row]"),
    "trace": ("/traces/checkout%2F7", "[data-event]"),
    "analytics": ("/analytics?range=6h", "[data-chart] canvas"),
    "pipelines": ("/pipelines", "[data-pipeline]"),
    "pipeline": ("/pipelines/archive-orders", "[data-chart] canvas"),
    "system": ("/system", "[data-row]"),
    "upkeep": ("/system?tab=upkeep", "[data-row]"),
    "database": ("/system?tab=database", "[data-row]"),
    "one-database": ("/system?tab=databases", "[data-empty]"),
    "settings": ("/system?tab=settings", "[data-row]"),
    "access": ("/system?tab=access", "[data-row]"),
    "audit": ("/system?tab=audit", "[data-row]"),
    "missing": ("/nowhere", "[data-empty]"),
}

GATED = ("overview", "queues", "queue", "messages", "dead-letters", "jobs", "workflow", "system")
"""The pages that every run checks. A nightly run checks all of them."""


@pytest.mark.parametrize("width", [WIDE, pytest.param(NARROW, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in GATED else pytest.mark.nightly) for each in PAGES],
)
async def test_a_page_is_accessible(page: Page, demo: Server, name: str, width: int) -> None:
    path, ready = PAGES[name]
    await page.set_viewport_size({"width": width, "height": 900 if width == WIDE else 812})
    await page.goto(demo.base_url + path)
    await expect(page.locator(ready).first).to_be_visible()
    await page.wait_for_load_state("networkidle")
    await look(page, name)


@pytest.mark.parametrize("width", [WIDE, pytest.param(NARROW, marks=pytest.mark.nightly)])
async def test_the_page_of_a_message_is_accessible(page: Page, demo: Server, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 900})
    listed = await demo.get("/dlq", queue="demo.refunds", limit=1)
    await page.goto(f"{demo.base_url}/messages/{listed.body['messages'][0]['messageId']}")
    await expect(page.get_by_role("list", name="Timeline")).to_contain_text("after 1 attempt")
    await look(page, "message")
    await page.get_by_role("button", name="Move").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await look(page, "move")


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_dialogs_and_the_palette_are_accessible(page: Page, demo: Server, theme: str) -> None:
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
