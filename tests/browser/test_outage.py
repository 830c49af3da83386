"""A server that goes away while somebody looks."""

import pytest
from playwright.async_api import Page, expect

from tests.server.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_old_figures_are_said_to_be_old_until_the_server_is_back(
    page: Page, demo: Server
) -> None:
    await page.clock.install()
    await page.goto(f"{demo.base_url}/queues")
    await page.clock.run_for(1_000)
    await expect(page.locator("[data-row]").first).to_be_visible()
    demo.kill()
    await page.clock.run_for(40_000)
    await expect(page.get_by_role("alert")).to_contain_text("has not answered for")
    await expect(page.locator("[data-row]").first).to_be_visible()

    await demo.start()
    await page.clock.run_for(20_000)
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_an_error_is_never_shown_as_empty(page: Page, demo: Server) -> None:
    await page.route("**/resources/queues?**", lambda route: route.fulfill(status=500, body="{}"))
    await page.goto(f"{demo.base_url}/queues")
    await expect(page.locator("[data-failure=failed]")).to_be_visible()
    await expect(page.locator("[data-empty]")).to_have_count(0)


async def test_a_timeout_is_told_apart(page: Page, demo: Server) -> None:
    await page.clock.install()
    await page.add_init_script(
        "AbortSignal.timeout = () => AbortSignal.abort(new DOMException('', 'TimeoutError'))"
    )
    await page.goto(f"{demo.base_url}/queues")
    await expect(page.locator("[data-failure=timeout]")).to_be_visible()
