"""The frame around all pages: theme, shortcuts, live metrics, environment, size."""

import gzip

import pytest
from playwright.async_api import BrowserContext, Page, Request, Response, WebSocketRoute, expect

from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

MOST_KILOBYTES = 250


async def theme(page: Page) -> str | None:
    return await page.locator("html").get_attribute("data-theme")


async def test_the_first_page_is_small_and_loads_no_external_resource(
    page: Page, demo: Server
) -> None:
    scripts: dict[str, int] = {}
    hosts: set[str] = set()

    async def weigh(response: Response) -> None:
        hosts.add(response.url.split("/")[2])
        if response.url.endswith(".js"):
            scripts[response.url] = len(gzip.compress(await response.body()))

    page.on("response", weigh)
    await page.goto(demo.base_url)
    await expect(page.locator("[data-chart] canvas").first).to_be_visible()

    assert scripts
    assert sum(scripts.values()) <= MOST_KILOBYTES * 1000, scripts
    assert hosts == {demo.base_url.removeprefix("http://")}


async def test_the_theme_follows_the_system_until_the_user_chooses(
    page: Page, demo: Server
) -> None:
    await page.goto(demo.base_url)
    assert await theme(page) == "light"
    await page.emulate_media(color_scheme="dark")
    await expect(page.locator("html[data-theme=dark]")).to_be_attached()
    await page.get_by_role("button", name="Account and appearance").click()
    await page.get_by_role("menuitemradio", name="Light").click()
    assert await theme(page) == "light"
    await page.reload()
    await expect(page.locator("html[data-theme=light]")).to_be_attached()


async def test_the_environment_is_shown_and_production_is_red(page: Page, demo: Server) -> None:
    await page.goto(demo.base_url)
    badge = page.locator("[data-environment]")
    await expect(badge).to_have_text("production")
    await expect(badge).to_have_css("color", "rgb(179, 38, 30)")


@pytest.mark.nightly
async def test_shortcuts_lead_from_page_to_page(page: Page, demo: Server) -> None:
    await page.goto(demo.base_url)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("q")
    # The overview has rows too.
    await expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    await expect(page.locator("[data-row]").first).to_be_visible()
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    await expect(page.locator("[data-row]").first).to_be_focused()
    await page.keyboard.press("/")
    await page.keyboard.type("sms")
    await expect(page.locator("[data-row]")).to_have_count(1)
    await page.keyboard.press("Tab")
    await page.locator("[data-row]").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="demo.sms")).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.nightly
async def test_the_menu_of_a_narrow_window_works_with_the_keyboard(
    page: Page, demo: Server
) -> None:
    await page.set_viewport_size({"width": 375, "height": 812})
    await page.goto(demo.base_url)
    opener = page.get_by_role("button", name="Open menu")
    await opener.press("Enter")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Overview")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(opener).to_be_focused()
    await expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    await opener.press("Enter")
    await page.get_by_role("link", name="Queues", exact=True).press("Enter")
    await expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()


@pytest.mark.nightly
async def test_the_menu_of_a_narrow_window_opens_a_page_and_closes(
    page: Page, demo: Server
) -> None:
    await page.set_viewport_size({"width": 375, "height": 812})
    await page.goto(demo.base_url)
    menu = page.get_by_role("navigation", name="Pages")
    opener = page.get_by_role("button", name="Open menu")
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(menu).to_be_hidden()
    await opener.click()
    await menu.get_by_role("link", name="Groups").click()
    await expect(page.get_by_role("heading", name="Consumer groups")).to_be_visible()
    await expect(menu).to_be_hidden()
    await opener.click()
    await expect(menu).to_be_visible()
    # The link to the current page closes the menu too.
    await menu.get_by_role("link", name="Groups").click()
    await expect(menu).to_be_hidden()
    await opener.click()
    await page.get_by_role("button", name="Close menu").click()
    await expect(menu).to_be_hidden()
    await expect(opener).to_be_focused()


async def test_the_first_link_skips_the_menu(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/queues")
    await expect(page.locator("[data-row]").first).to_be_visible()
    skip = page.get_by_role("link", name="Skip to content")
    await expect(skip).not_to_be_in_viewport(ratio=1)
    await page.keyboard.press("Tab")
    await expect(skip).to_be_focused()
    await expect(skip).to_be_in_viewport(ratio=1)
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
    await expect(page).to_have_url(f"{demo.base_url}/queues")
    await page.keyboard.press("Tab")
    await expect(page.get_by_placeholder("Search by name")).to_be_focused()


async def test_one_key_pauses_and_resumes(page: Page, demo: Server) -> None:
    await page.goto(demo.base_url)
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    await page.keyboard.press("p")
    await expect(page.locator("[data-live]")).to_contain_text("Paused")
    await page.keyboard.press("p")
    await expect(page.locator("[data-live]")).to_contain_text("Live")


@pytest.mark.nightly
async def test_single_key_shortcuts_can_be_turned_off(page: Page, demo: Server) -> None:
    await page.goto(demo.base_url)
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    await page.get_by_role("button", name="Account and appearance").click()
    await expect(page.get_by_role("menu")).to_be_visible()
    await page.keyboard.press("p")
    await page.keyboard.press("Escape")
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    await page.keyboard.press("?")
    await page.get_by_label("Enable single-key shortcuts").uncheck()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.reload()
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    for key in ("g", "q", "p", "?"):
        await page.keyboard.press(key)
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog", name="Search queues")).to_be_visible()
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    await expect(page).to_have_url(f"{demo.base_url}/")


@pytest.mark.nightly
async def test_metrics_are_refreshed_at_the_chosen_interval(page: Page, demo: Server) -> None:
    async def refuse(socket: WebSocketRoute) -> None:
        await socket.close(code=1011)

    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    await page.clock.install()
    await page.route_web_socket("**/ws/dashboard*", refuse)
    await page.goto(f"{demo.base_url}/queues")
    await expect(page.locator("[data-row]").first).to_be_visible()
    await page.get_by_role("button", name="Account and appearance").click()
    await page.get_by_role("menuitemradio", name="Refresh every minute").click()
    await page.reload()
    await expect(page.locator("[data-row]").first).to_be_visible()
    await page.wait_for_load_state("networkidle")
    page.on("request", note)
    await page.clock.run_for(50_000)
    assert [url for url in asked if "/resources/queues" in url] == []
    await expect(page.get_by_role("alert")).to_have_count(0)
    async with page.expect_request("**/resources/queues?**"):
        await page.clock.run_for(15_000)


async def test_the_palette_finds_queues_and_actions(page: Page, demo: Server) -> None:
    await page.goto(demo.base_url)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("payments")
    await expect(page.get_by_role("option", name="demo.payments")).to_be_visible()
    await page.get_by_role("option", name="demo.payments").click()
    await expect(page.get_by_role("heading", name="demo.payments")).to_be_visible()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("dark theme")
    await page.keyboard.press("Enter")
    await expect(page.locator("html[data-theme=dark]")).to_be_attached()


@pytest.mark.nightly
async def test_a_pause_survives_focus_changes_navigation_and_a_reload(
    page: Page, demo: Server
) -> None:
    await page.goto(f"{demo.base_url}/queues")
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    await page.locator("[data-live]").click()
    await expect(page.locator("[data-live]")).to_contain_text("Paused")
    await page.wait_for_load_state("networkidle")
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    await page.evaluate("window.dispatchEvent(new Event('focus'))")
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    # As long as the polling interval.
    await page.wait_for_timeout(6_000)
    assert asked == []
    await page.reload()
    await expect(page.locator("[data-live]")).to_contain_text("Paused")
    await expect(page.locator("[data-row]").first).to_be_visible()


async def test_a_hidden_tab_sends_no_requests_and_a_shown_one_refreshes_immediately(
    page: Page, demo: Server
) -> None:
    await page.add_init_script(
        "window.seen = 'visible';"
        "Object.defineProperty(document, 'visibilityState', {get: () => window.seen});"
    )
    await page.goto(f"{demo.base_url}/queues")
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    await page.evaluate(
        "window.seen = 'hidden'; document.dispatchEvent(new Event('visibilitychange'))"
    )
    await page.wait_for_load_state("networkidle")
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    await page.wait_for_timeout(6_000)
    assert asked == []
    async with page.expect_request("**/resources/queues?**"):
        await page.evaluate(
            "window.seen = 'visible'; document.dispatchEvent(new Event('visibilitychange'))"
        )


@pytest.mark.nightly
async def test_polling_replaces_the_socket(page: Page, demo: Server) -> None:
    async def refuse(socket: WebSocketRoute) -> None:
        await socket.close(code=1011)

    await page.route_web_socket("**/ws/dashboard*", refuse)
    await page.goto(f"{demo.base_url}/queues")
    await expect(page.locator("[data-row]").first).to_be_visible()
    await expect(page.locator("[data-live]")).to_contain_text("Polling")
    async with page.expect_request("**/resources/queues?**", timeout=10_000):
        pass


@pytest.mark.nightly
async def test_dense_rows_and_utc_times_are_preferences(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/queues")
    row = page.get_by_role("table", name="Queues").locator("tr[aria-rowindex]").first
    await expect(row).to_be_visible()
    box = await row.bounding_box()
    assert box is not None
    await page.get_by_role("button", name="Account and appearance").click()
    await page.get_by_role("menuitemcheckbox", name="Compact rows").click()
    await page.reload()
    await expect(row).to_be_visible()
    dense = await row.bounding_box()
    assert dense is not None
    assert (round(box["height"]), round(dense["height"])) == (40, 30)
    await page.get_by_role("button", name="Account and appearance").click()
    utc = page.get_by_role("menuitemcheckbox", name="Show times in UTC")
    before = await utc.get_attribute("aria-checked")
    await utc.click()
    await page.reload()
    await page.get_by_role("button", name="Account and appearance").click()
    await expect(utc).to_have_attribute("aria-checked", "false" if before == "true" else "true")


@pytest.mark.nightly
async def test_a_chunk_that_fails_to_load_shows_an_error_and_is_retried(
    context: BrowserContext, demo: Server
) -> None:
    page = await context.new_page()
    await page.goto(f"{demo.base_url}/queues/demo.orders")
    pause = page.get_by_role("button", name="Pause", exact=True)
    menu = page.get_by_role("button", name="Account and appearance")
    await expect(pause).to_be_visible()
    await page.wait_for_load_state("networkidle")
    await page.route("**/assets/**", lambda route: route.abort())
    await pause.click()
    await expect(page.locator("[data-torn]")).to_contain_text("could not be loaded")
    await menu.click()
    await page.unroute("**/assets/**")

    await pause.click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Pause queue")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await menu.press("ArrowDown")
    await expect(page.get_by_role("menu")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(menu).to_be_focused()
