"""The list of queues: sorted, searched, paged."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, Request, expect

from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

MANY = 260


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def many(empty: Server) -> AsyncIterator[Server]:
    """A server with more queues than fit on a page."""
    items = [{"queue": f"queue-{n:04}", "payload": n} for n in range(MANY)]
    items += [{"queue": "queue-0007", "payload": n} for n in range(5)]
    assert (await empty.post("/push", {"items": items})).status == 201
    yield empty


async def test_rows_load_on_scroll_and_only_visible_ones_are_drawn(
    page: Page, many: Server
) -> None:
    await page.goto(f"{many.base_url}/queues")
    await expect(page.get_by_role("link", name="queue-0000")).to_be_visible()
    for _ in range(40):
        if await page.get_by_role("link", name=f"queue-{MANY - 1:04}").count():
            break
        await page.mouse.wheel(0, 2_000)
        await page.wait_for_timeout(150)
    await expect(page.get_by_role("link", name=f"queue-{MANY - 1:04}")).to_be_attached()
    assert await page.locator("[data-row]").count() < 100


@pytest.mark.nightly
async def test_a_refresh_does_not_grow_with_scrolling(page: Page, many: Server) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    async with page.expect_websocket() as socket:
        await page.goto(f"{many.base_url}/queues")
    told = page.locator("main [aria-live]").first
    for loaded in ("100 and more", "200 and more", f"{MANY}"):
        await expect(told).to_have_text(loaded)
        await page.keyboard.press("End")
    await page.wait_for_load_state("networkidle")
    page.on("request", note)
    # Longer than the refresh interval of live metrics while messages move.
    for _ in range(8):
        item = {"queue": "queue-0007", "payload": 1}
        async with (await socket.value).expect_event(
            "framereceived", lambda frame: "message.processed" in str(frame)
        ):
            assert (await many.post("/push", {"items": [item]})).status == 201
    assert [url for url in asked if "cursor=" in url] == []


async def test_sort_and_search_are_in_the_url_and_survive_a_reload(
    page: Page, many: Server
) -> None:
    await page.goto(f"{many.base_url}/queues")
    await page.get_by_role("button", name="Pending").click()
    await expect(page).to_have_url(f"{many.base_url}/queues?sort=-pending")
    await expect(page.locator("[data-row]").first).to_have_text("queue-0007", timeout=20_000)
    await page.get_by_placeholder("Search by name").fill("QUEUE-001")
    await expect(page.locator("[data-row]")).to_have_count(10)
    url = page.url
    assert "search=QUEUE-001" in url
    await page.reload()
    await expect(page.locator("[data-row]")).to_have_count(10)
    assert page.url == url
    await expect(page.get_by_placeholder("Search by name")).to_have_value("QUEUE-001")


async def test_a_search_without_matches_differs_from_an_empty_server(
    page: Page, many: Server
) -> None:
    await page.goto(f"{many.base_url}/queues?search=nothing-is-called-so")
    await expect(page.locator("[data-empty]")).to_contain_text("No matching queues")
    await page.get_by_role("button", name="Remove filter").click()
    await expect(page.locator("[data-row]").first).to_be_visible()


async def test_an_invalid_sort_means_by_name(page: Page, many: Server) -> None:
    await page.goto(f"{many.base_url}/queues?sort=<script>alert(1)</script>")
    await expect(page.locator("[data-row]").first).to_have_text("queue-0000")


async def scrolled(page: Page) -> float:
    return await page.evaluate("window.scrollY")


async def test_a_refresh_keeps_the_scroll_position(page: Page, many: Server) -> None:
    await page.goto(f"{many.base_url}/queues")
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    await page.get_by_role("link", name="queue-0000").wait_for()
    await page.evaluate("window.scrollTo(0, 2_000)")
    row = page.get_by_role("link", name="queue-0050")
    await row.focus()
    place, box = await scrolled(page), await row.bounding_box()
    async with page.expect_response("**/resources/queues?**") as asked:
        item = {"queue": "queue-0050", "payload": 1}
        assert (await many.post("/push", {"items": [item]})).status == 201
    await (await asked.value).finished()
    cell = page.get_by_role("row").filter(has=row).get_by_role("cell").nth(2)
    await expect(cell).to_have_text("2", timeout=20_000)
    assert (await scrolled(page), await row.bounding_box()) == (place, box)
    await expect(row).to_be_focused()


async def test_a_change_of_the_url_does_not_scroll_the_page(page: Page, many: Server) -> None:
    await page.set_viewport_size({"width": 1440, "height": 300})
    await page.goto(f"{many.base_url}/queues/queue-0007?tab=configuration")
    await page.locator("#option-leaseTime").wait_for()
    await page.evaluate("window.scrollTo(0, 120)")
    await page.get_by_role("link", name="partitions").click()
    await expect(page).to_have_url(f"{many.base_url}/queues/queue-0007?tab=partitions")
    await expect(page.locator("[data-row]")).to_be_visible()
    assert await scrolled(page) > 0
    await page.get_by_role("link", name="Queues", exact=True).first.click()
    await expect(page.get_by_role("link", name="queue-0000")).to_be_visible()
    assert await scrolled(page) == 0


@pytest.mark.nightly
async def test_back_restores_the_scroll_position(page: Page, many: Server) -> None:
    await page.goto(f"{many.base_url}/queues")
    await page.get_by_role("link", name="queue-0000").wait_for()
    await page.evaluate("window.scrollTo(0, 2_000)")
    row = page.get_by_role("link", name="queue-0050")
    await expect(row).to_be_in_viewport()
    place = await scrolled(page)
    await row.click()
    await expect(page.get_by_role("heading", name="queue-0050")).to_be_visible()
    assert await scrolled(page) == 0
    await page.go_back()
    await expect(row).to_be_in_viewport()
    assert await scrolled(page) == place


async def test_queues_are_filtered_by_namespace_and_task(page: Page, many: Server) -> None:
    for queue, task in (("shop.bills", "bill"), ("shop.parcels", "send")):
        body = {"queue": queue, "namespace": "shop", "task": task}
        assert (await many.post("/configure", body)).status == 200
    await page.goto(f"{many.base_url}/queues?search=shop")
    rows = page.locator("[data-row]")
    await page.get_by_role("button", name="shop", exact=True).first.click()
    await expect(page).to_have_url(f"{many.base_url}/queues?search=shop&namespace=shop")
    await page.get_by_placeholder("Search by name").fill("")
    await expect(page).to_have_url(f"{many.base_url}/queues?namespace=shop")
    await expect(rows).to_have_text(["shop.bills", "shop.parcels"])
    await page.get_by_role("button", name="send", exact=True).click()
    await expect(rows).to_have_text(["shop.parcels"])
    await page.reload()
    await expect(rows).to_have_text(["shop.parcels"])
    await page.get_by_role("button", name="task send").click()
    await expect(rows).to_have_count(2)
    await page.get_by_role("button", name="namespace shop").click()
    await expect(rows.first).to_have_text("queue-0000")


async def test_the_sort_by_name_can_be_reversed(page: Page, many: Server) -> None:
    await page.goto(f"{many.base_url}/queues?search=queue-")
    name = page.get_by_role("button", name="Queue", exact=True)
    await name.click()
    await expect(page.locator("[data-row]").first).to_have_text(f"queue-{MANY - 1:04}")
    await name.click()
    await expect(page.locator("[data-row]").first).to_have_text("queue-0000")
