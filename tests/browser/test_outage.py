"""A server that becomes unavailable while the dashboard is open."""

import asyncio
import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.frame.test_looks import PAGES
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_old_metrics_are_marked_as_old_until_the_server_is_back(
    page: Page, demo: Server
) -> None:
    await page.clock.install()
    await page.goto(f"{demo.base_url}/queues")
    await page.clock.run_for(1_000)
    await expect(page.locator("[data-row]").first).to_be_visible()
    demo.kill()
    await page.clock.run_for(40_000)
    await expect(page.get_by_role("alert")).to_contain_text("has not responded for")
    await expect(page.locator("[data-row]").first).to_be_visible()

    await demo.start()
    await page.clock.run_for(20_000)
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_an_error_is_never_shown_as_empty(page: Page, demo: Server) -> None:
    await page.route("**/resources/queues?**", lambda route: route.fulfill(status=500, body="{}"))
    await page.goto(f"{demo.base_url}/queues")
    await expect(page.locator("[data-failure=failed]")).to_be_visible()
    await expect(page.locator("[data-empty]")).to_have_count(0)


async def test_a_timeout_has_its_own_message(page: Page, demo: Server) -> None:
    await page.clock.install()
    await page.add_init_script(
        "AbortSignal.timeout = () => AbortSignal.abort(new DOMException('', 'TimeoutError'))"
    )
    await page.goto(f"{demo.base_url}/queues")
    await expect(page.locator("[data-failure=timeout]")).to_be_visible()


async def refuse(route: Route) -> None:
    """Reject all requests except authentication."""
    if "/auth/" in route.request.url:
        await route.continue_()
    else:
        problem = {"code": "database_unavailable", "detail": "the database is away"}
        await route.fulfill(status=503, json=problem)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in PAGES if name not in ("missing", "tail")])
async def test_a_failed_section_shows_an_error_and_can_be_retried(
    page: Page, demo: Server, name: str
) -> None:
    path, ready = PAGES[name]
    # Paused, so that only the button sends requests again.
    await page.add_init_script("sessionStorage.setItem('queen.paused', 'true')")
    await page.route("**/api/v1/**", refuse)
    await page.goto(demo.base_url + path)
    await expect(page.locator("[data-failure]").first).to_contain_text("the database is away")
    await expect(page.locator("[data-empty]")).to_have_count(0)
    await expect(page.locator(ready)).to_have_count(0)
    await page.unroute("**/api/v1/**")
    again = page.get_by_role("button", name="Try again")
    there = page.locator(ready).first
    # After one section has loaded, others that depend on it may fail.
    await expect(again.first).to_be_visible()
    while await again.count():
        button = await again.first.element_handle()
        await button.click()
        await button.wait_for_element_state("hidden")
        await expect(again.or_(there).first).to_be_visible()
    await expect(there).to_be_visible()
    await expect(page.locator("[data-failure]")).to_have_count(0)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in PAGES if name != "missing"])
async def test_loading_sections_are_not_shown_as_empty(page: Page, demo: Server, name: str) -> None:
    answered = asyncio.Event()

    async def hold(route: Route) -> None:
        if "/auth/" not in route.request.url:
            await answered.wait()
        await route.continue_()

    path, ready = PAGES[name]
    await page.route("**/api/v1/**", hold)
    # The socket is open, and sends no frames.
    await page.route_web_socket("**/ws/dashboard*", lambda _: None)
    try:
        await page.goto(demo.base_url + path)
        await expect(page.locator("[data-loading]:visible").first).to_be_visible()
        if name in ("overview", "analytics"):
            await expect(page.locator("[data-chart]").first).to_be_visible()
        await expect(page.locator("[data-empty]")).to_have_count(0)
        told = await page.locator("main").inner_text()
        assert re.search(r"Nothing was|None is|is not set|^0( |$)", told, re.M) is None, told
    finally:
        answered.set()
    await expect(page.locator(ready).first).to_be_visible()
    await expect(page.locator("[data-loading]")).to_have_count(0)


async def test_a_loading_tab_of_a_queue_is_not_shown_as_empty(page: Page, demo: Server) -> None:
    answered = asyncio.Event()

    async def hold(route: Route) -> None:
        await answered.wait()
        await route.continue_()

    queue = f"{demo.base_url}/queues/demo.exports"
    await page.route("**/analytics/series?**", hold)
    await page.route("**/demo.exports/partitions?**", hold)
    try:
        await page.goto(queue)
        await expect(page.locator("[data-chart] [data-loading]").first).to_be_visible()
        await expect(page.get_by_text("No data in this time range")).to_have_count(0)
        await page.goto(f"{queue}?tab=partitions")
        await expect(page.locator("[data-loading]:visible").first).to_be_visible()
        await expect(page.get_by_text("0 loaded")).to_have_count(0)
    finally:
        answered.set()
    await expect(page.locator("[data-row]").first).to_be_visible()


async def test_a_server_that_cannot_authenticate_is_asked_again(page: Page, demo: Server) -> None:
    await page.route("**/auth/me", lambda route: route.abort())
    await page.goto(f"{demo.base_url}/queues")
    await expect(page.locator("[data-failure=unreachable]")).to_be_visible()
    await page.unroute("**/auth/me")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("[data-row]").first).to_be_visible()


async def test_a_failed_tail_shows_an_error_and_is_retried(page: Page, demo: Server) -> None:
    path, ready = PAGES["tail"]

    # The tail retries by itself, so the requests before the click must fail too.
    async def refuse_before_the_click(route: Route) -> None:
        if await page.evaluate("window.isClicked === true"):
            await route.continue_()
        else:
            await refuse(route)

    await page.add_init_script("addEventListener('click', () => { window.isClicked = true }, true)")
    await page.route("**/api/v1/messages?**", refuse_before_the_click)
    await page.goto(demo.base_url + path)
    await expect(page.locator("[data-failure]")).to_contain_text("the database is away")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator(ready).first).to_be_visible()
