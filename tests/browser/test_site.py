"""The documentation site in Chromium: size, search, light and dark, and on a phone."""

import mimetypes
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser, Page, Request, Route, expect

from tests.browser.looks import SCREENSHOTS, overflow
from tests.support.site import built_site
from tools.write_pages import navigation

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE = 390
FIRST_PAGE_BYTES = 300_000
LOOKS = (
    "",
    "start/messages/",
    "start/examples/",
    "guides/messages/order-per-key/",
    "guides/jobs/rate-limits/",
    "operate/high-availability/",
    "security/secure/",
    "migrate/celery/",
    "reference/settings/",
    "reference/python/queue/",
    "internals/architecture/",
    "decisions/",
)
_SIZES = """() => Object.fromEntries(
  ["navigation", "resource"]
    .flatMap((type) => performance.getEntriesByType(type))
    .map((each) => [each.name, each.transferSize])
)"""
"""The bytes of each file, with its headers, as they were sent."""
ALL = [page.path.removesuffix(".md").removesuffix("index") for page in navigation()]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site() -> AsyncIterator[str]:
    """The address of a server that compresses files, as hosts of static sites do."""
    root = built_site()

    async def send(request: web.Request) -> web.Response:
        path = root / request.match_info["path"]
        if path.is_dir():
            path /= "index.html"
        if not path.is_file():
            raise web.HTTPNotFound
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        response = web.Response(body=path.read_bytes(), content_type=kind)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", send)
    runner = web.AppRunner(app)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="session")
async def phone(browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context(
        viewport={"width": PHONE, "height": 844}, color_scheme="dark", reduced_motion="reduce"
    )
    yield await context.new_page()
    await context.close()


async def test_the_first_page_is_small_and_loads_from_its_host_only(page: Page, site: str) -> None:
    others: list[str] = []

    async def reject(route: Route, request: Request) -> None:
        others.append(request.url)
        await route.abort()

    await page.route(lambda url: not url.startswith(site), reject)
    await page.goto(site, wait_until="networkidle")

    sizes: dict[str, int] = await page.evaluate(_SIZES)
    print(f"{sum(sizes.values()):,} bytes in {len(sizes)} files: {sizes}")
    assert others == []
    assert len(sizes) >= 4
    assert min(sizes.values()) > 0
    assert sum(sizes.values()) <= FIRST_PAGE_BYTES
    assert not any("search" in url for url in sizes)


async def test_a_search_finds_a_page(page: Page, site: str) -> None:
    await page.goto(site)
    await page.get_by_role("button", name="Search").click()

    await page.locator("dialog[open] input").fill("half-close long poll")
    result = page.locator("dialog a", has_text="Half-close on stop").first
    await expect(result).to_be_visible()
    await _keep(page, "search")
    await result.click()

    await expect(page.locator("h1")).to_contain_text("Half-close on stop")


async def test_a_search_works_with_the_keyboard(page: Page, site: str) -> None:
    await page.goto(f"{site}start/messages/")
    await page.keyboard.press("Control+k")

    await expect(page.locator("dialog[open] input")).to_be_focused()
    await page.keyboard.type("rate limit timestamps")
    result = page.locator("dialog a", has_text="Rate limit timestamps").first
    await expect(result).to_be_visible()
    await page.keyboard.press("Enter")

    await expect(page.locator("h1")).to_contain_text("Rate limit timestamps")


async def test_the_reader_chooses_the_mode_and_the_pictures_follow(page: Page, site: str) -> None:
    await page.goto(f"{site}internals/architecture/")
    picture = page.locator("article img").first
    await expect(picture).to_have_css("color-scheme", "light")

    await page.get_by_title("Switch to light mode").click()
    await page.get_by_title("Switch to dark mode").click()

    await expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    await expect(picture).to_have_css("color-scheme", "dark")


async def test_code_can_be_copied(page: Page, site: str) -> None:
    await page.goto(site)
    await expect(
        page.locator("article .md-code__button, article .md-clipboard").first
    ).to_be_attached()


@pytest.mark.parametrize("path", LOOKS)
async def test_a_page_fits_on_a_phone(phone: Page, site: str, path: str) -> None:
    reply = await phone.goto(site + path, wait_until="networkidle")
    assert reply is not None
    assert reply.ok
    await _keep(phone, f"{path.strip('/').replace('/', '-') or 'home'}-phone")
    assert await overflow(phone) <= 0
    assert await _shifted(phone) == []


async def test_the_menu_of_a_phone_opens_and_leads_to_a_page(phone: Page, site: str) -> None:
    await phone.goto(site, wait_until="networkidle")
    link = phone.locator(".md-sidebar--primary a", has_text="Production checklist")
    await expect(link).not_to_be_in_viewport()

    await phone.locator("header label[for=__drawer]").click()
    await phone.locator(".md-sidebar--primary label.md-nav__link", has_text="Operate").click()
    await expect(link).to_be_in_viewport()
    await _keep(phone, "menu-phone")
    await link.click()

    await expect(phone.locator("h1")).to_contain_text("Production checklist")
    assert await overflow(phone) <= 0


@pytest.mark.nightly
async def test_a_search_works_on_a_phone(phone: Page, site: str) -> None:
    await phone.goto(site)
    await phone.locator("header label", has_text="Search").click()
    await phone.locator("dialog[open] input").fill("LeaseLost")

    result = phone.locator("dialog a", has_text="LeaseLost").first
    await expect(result).to_be_visible()
    await _keep(phone, "search-phone")
    await result.click()

    await expect(phone).to_have_url(f"{site}reference/errors/?h=LeaseLost#leaselost")
    await expect(phone.locator("#leaselost")).to_be_in_viewport()


@pytest.mark.nightly
async def test_every_page_fits_on_a_phone_and_in_a_window(
    phone: Page, page: Page, site: str
) -> None:
    for path in ALL:
        await phone.goto(site + path)
        assert await overflow(phone) <= 0, path
        assert await _shifted(phone) == [], path
        await page.goto(site + path)
        assert await overflow(page) <= 0, path


async def _keep(page: Page, name: str) -> None:
    """Save a screenshot of the first screen, because some pages are long."""
    SCREENSHOTS.mkdir(exist_ok=True)
    await page.screenshot(path=SCREENSHOTS / f"site-{name}.png")


async def _shifted(page: Page) -> list[str]:
    """Texts and pictures that end beyond the right edge, outside of elements that scroll."""
    return await page.evaluate(
        """() => [...document.querySelectorAll("article :is(h1, h2, h3, p, li, img)")]
            .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
            .filter((each) => !each.closest("table, pre, .md-typeset__scrollwrap, .tabbed-labels"))
            .map((each) => each.outerHTML.slice(0, 120))"""
    )
