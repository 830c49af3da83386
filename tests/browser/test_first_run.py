"""The first minutes: an empty server waits for a message, and shows it."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.looks import keep, overflow, violations
from tests.server.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_waiting_turns_into_the_first_message(page: Page, empty: Server) -> None:
    await page.goto(empty.base_url)
    await expect(page.get_by_role("status").first).to_contain_text("Waiting for the first message")
    await expect(page.locator("pre").first).to_contain_text(empty.base_url)
    await keep(page, "first-run-light-1440")
    assert await violations(page) == []
    await page.set_viewport_size({"width": 375, "height": 812})
    await keep(page, "first-run-light-375")
    assert await overflow(page) <= 0
    await expect(page.locator("[data-live]")).to_contain_text("Live")

    item = {"queue": "demo", "payload": {"hello": "world"}}
    assert (await empty.post("/push", {"items": [item]})).status == 201

    await expect(page.locator("[data-first-message]")).to_contain_text('"hello": "world"')
    await keep(page, "first-message-light-375")
    await page.locator("[data-first-message]").get_by_role("link", name="demo").click()
    await expect(page.get_by_role("heading", name="demo")).to_be_visible()
