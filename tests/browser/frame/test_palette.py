"""Every action of the palette and every page shortcut works."""

import re
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.frame.test_frame import theme
from tests.support.server import Server

pytestmark = [pytest.mark.nightly, pytest.mark.asyncio(loop_scope="session")]

PAGES = {
    "o": ("Overview", "/", "Overview"),
    "q": ("Queues", "/queues", "Queues"),
    "m": ("Messages", "/messages", "Messages"),
    "d": ("Dead letters", "/dead-letters", "Dead letters"),
    "g": ("Groups", "/groups", "Consumer groups"),
    "j": ("Jobs", "/jobs", "Jobs"),
    "w": ("Workflows", "/workflows", "Workflows"),
    "t": ("Traces", "/traces", "Traces"),
    "a": ("Analytics", "/analytics", "Analytics"),
    "p": ("Pipelines", "/pipelines", "Pipelines"),
    "s": ("System", "/system", "System"),
}
"""By the key after `g`: menu label, path, heading."""
LEADS = {
    **{f"Go to {label.lower()}": (path, title) for label, path, title in PAGES.values()},
    "Open live tail": ("/tail", "Live tail"),
    "Groups more than a minute behind": ("/groups?behind=60", "Consumer groups"),
    "Queues with the most pending messages": ("/queues?sort=-pending", "Queues"),
    "Queues with the oldest messages": ("/queues?sort=-oldestAgeSeconds", "Queues"),
    "Queues with dead letters": ("/queues?sort=-deadLetters", "Queues"),
    "Failed workflows": ("/workflows?state=failed", "Workflows"),
}
SORTS = {"-pending": "Pending", "-oldestAgeSeconds": "Oldest", "-deadLetters": "Dead letters"}


def actions(page: Page) -> Locator:
    return page.get_by_role("group", name="Actions").get_by_role("option")


async def choose(page: Page, label: str) -> None:
    """Choose an action by its label, only with the keyboard."""
    await page.keyboard.press("Control+k")
    await page.get_by_placeholder("Search queues and actions").fill(label)
    await expect(page.get_by_role("option")).to_have_text([label])
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog", name="Search queues")).to_have_count(0)


async def pauses(page: Page) -> None:
    live = page.locator("[data-live]")
    await expect(live).to_contain_text("Live")
    await choose(page, "Pause live updates")
    await expect(live).to_contain_text("Paused")
    await choose(page, "Resume live updates")
    await expect(live).to_contain_text("Live")


async def themes(page: Page) -> None:
    await choose(page, "Use dark theme")
    await expect(page.locator("html[data-theme=dark]")).to_be_attached()
    await choose(page, "Use system theme")
    await expect(page.locator("html[data-theme=light]")).to_be_attached()
    await page.emulate_media(color_scheme="dark")
    await expect(page.locator("html[data-theme=dark]")).to_be_attached()
    await choose(page, "Use light theme")
    await expect(page.locator("html[data-theme=light]")).to_be_attached()
    assert await theme(page) == "light"


async def times(page: Page) -> None:
    seen = page.get_by_role("table", name="Deliveries").locator("td[title]").nth(1)
    await choose(page, "Show times in UTC")
    await expect(seen).to_have_attribute("title", re.compile(r"\d\dZ$"))
    await choose(page, "Show local time")
    await expect(seen).to_have_attribute("title", re.compile(r"\d\d$"))


async def rows(page: Page) -> None:
    row = page.locator("tr[data-row]").first
    await choose(page, "Compact rows")
    await expect(row).to_have_css("height", "30px")
    await choose(page, "Comfortable rows")
    await expect(row).to_have_css("height", "40px")


async def shows_keys(page: Page) -> None:
    await choose(page, "Show keyboard shortcuts")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text(
        "Search this list"
    )


DOES: dict[tuple[str, ...], Callable[[Page], Awaitable[None]]] = {
    ("Pause live updates",): pauses,
    ("Use light theme", "Use dark theme", "Use system theme"): themes,
    ("Show times in UTC",): times,
    ("Compact rows",): rows,
    ("Show keyboard shortcuts",): shows_keys,
}


@pytest.mark.parametrize("label", LEADS)
async def test_an_action_opens_its_page(page: Page, demo: Server, label: str) -> None:
    path, title = LEADS[label]
    await page.goto(f"{demo.base_url}/nowhere")
    await expect(page.locator("[data-empty]")).to_be_visible()
    await choose(page, label)
    await expect(page).to_have_url(demo.base_url + path)
    await expect(page.get_by_role("heading", level=1)).to_have_text(title)
    if "sort=" in path:
        column = page.get_by_role("columnheader", name=SORTS[path.partition("=")[2]])
        await expect(column).to_have_attribute("aria-sort", "descending")
    elif "?" in path:
        field = "Behind" if "behind" in path else "State"
        await expect(page.get_by_label(field)).to_have_value(path.partition("=")[2])


@pytest.mark.parametrize("labels", DOES, ids=lambda labels: labels[0])
async def test_an_action_changes_its_setting(
    page: Page, demo: Server, labels: tuple[str, ...]
) -> None:
    await page.goto(f"{demo.base_url}/queues/demo.payments?tab=deliveries")
    await expect(page.locator("[data-row]").first).to_be_visible()
    await DOES[labels](page)


async def test_every_action_has_a_test(page: Page, demo: Server) -> None:
    await page.goto(demo.base_url)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.get_by_role("button", name="Search queues and actions").click()
    await expect(actions(page).first).to_be_visible()
    tried = {*LEADS, *(each for labels in DOES for each in labels)}
    assert set(await actions(page).all_inner_texts()) == tried
    await page.keyboard.type("nothing is called so")
    await expect(page.get_by_role("dialog")).to_contain_text("No matches")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_enter_works_after_the_pointer_has_left_the_list(page: Page, demo: Server) -> None:
    await page.goto(demo.base_url)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.keyboard.press("Control+k")
    async with page.expect_response("**/resources/queues?search=dark*theme*") as asked:
        await page.get_by_placeholder("Search queues and actions").fill("dark theme")
    await (await asked.value).finished()
    await actions(page).hover()
    await page.mouse.move(5, 5)
    await page.keyboard.press("Enter")
    await expect(page.locator("html[data-theme=dark]")).to_be_attached()


async def test_every_page_has_a_shortcut_and_a_menu_entry(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/nowhere")
    menu = page.get_by_role("navigation", name="Pages")
    await expect(menu.get_by_role("link")).to_have_text([label for label, _, _ in PAGES.values()])
    for key, (label, path, title) in PAGES.items():
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await expect(page.get_by_role("heading", level=1)).to_have_text(title)
        await expect(page).to_have_url(demo.base_url + path)
        await expect(menu.locator("[aria-current=page]")).to_have_text(label)
    for label, path, title in PAGES.values():
        await menu.get_by_role("link", name=label, exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(title)
        await expect(page).to_have_url(demo.base_url + path)
    await page.get_by_role("button", name="Shortcuts").click()
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    for key in PAGES:
        await expect(keys).to_contain_text(f"g {key}")
