"""First run: an empty server waits for a message, and shows it."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.looks import keep, overflow, violations
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_waiting_page_shows_the_first_message(page: Page, empty: Server) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(empty.base_url)
    await expect(page.get_by_role("status").first).to_contain_text("Waiting for the first message")
    await expect(page.locator("pre").first).to_contain_text(empty.base_url)
    await keep(page, "first-run-light-1440")
    assert await violations(page) == []
    copy = page.get_by_role("button", name="Copy: push.py")
    await copy.click()
    await expect(copy).to_contain_text("Copied")
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied == await page.locator("pre").first.inner_text()
    other = await page.context.new_page()
    await other.goto(empty.base_url)
    await expect(other.locator("[data-live]")).to_contain_text("Live")
    await page.bring_to_front()
    await page.set_viewport_size({"width": 375, "height": 812})
    await keep(page, "first-run-light-375")
    assert await overflow(page) <= 0
    await expect(page.locator("[data-live]")).to_contain_text("Live")

    item = {"queue": "demo", "payload": {"hello": "world"}}
    assert (await empty.post("/push", {"items": [item]})).status == 201

    await expect(page.locator("[data-first-message]")).to_contain_text('"hello": "world"')
    await keep(page, "first-message-light-375")
    await page.locator("[data-first-message]").get_by_role("link", name="offset 0").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Message 0 of Default")
    await page.get_by_role("link", name="demo", exact=True).click()
    await expect(page.get_by_role("heading", name="demo")).to_be_visible()
    await expect(other.locator("[data-first-message]")).to_be_visible()
    await other.get_by_role("button", name="Go to overview").click()
    await expect(other.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(other.locator("[data-tile=Pending] [data-value]")).to_have_text("1")
