"""The overview: each metric links to its list."""

import json
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect

from tests.support.server import Server, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

TILES = {
    "In": "/queues",
    "Out": "/queues",
    "Pending": "/queues?sort=-pending",
    "Oldest": "/queues?sort=-oldestAgeSeconds",
    "Failures": "/queues?sort=-oldestAgeSeconds",
    "Dead letters": "/dead-letters",
    "Database": "/system?tab=database",
    "Failover buffer": "/system",
}


async def test_every_metric_links_to_its_list(page: Page, demo: Server) -> None:
    await page.goto(demo.base_url)
    await expect(page.locator("[data-tile]")).to_have_count(len(TILES))
    for label, path in TILES.items():
        await page.locator(f'[data-tile="{label}"]').click()
        await expect(page).to_have_url(demo.base_url + path)
        await expect(page.locator("[data-row]").first).to_be_visible()
        await page.go_back()
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.get_by_role("link", name="All queues").click()
    await expect(page).to_have_url(f"{demo.base_url}/queues")


async def test_while_messages_move_only_the_overview_is_requested_again(
    page: Page, demo: Server
) -> None:
    sent: list[str | bytes] = []

    def note(frame: str | bytes) -> None:
        sent.append(frame)

    page.on("websocket", lambda socket: socket.on("framesent", note))
    await page.goto(demo.base_url)
    await expect(page.locator("[data-chart] canvas").first).to_be_visible()
    await expect(page.locator("[data-row]").first).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))

    async def is_asked_again() -> bool:
        await demo.post("/push", {"items": [{"queue": "demo.moves", "payload": 1}]})
        return asked.count("/api/v1/resources/overview") == 2

    await until(is_asked_again, seconds=60)
    assert set(asked) <= {"/api/v1/resources/overview", "/api/v1/analytics/series"}
    assert [json.loads(each)["seconds"] for each in sent] == [5]


async def test_a_paused_queue_needs_attention(page: Page, demo: Server) -> None:
    await demo.post("/configure", {"queue": "demo.still"})
    await demo.post("/resources/queues/demo.still/pause")
    await page.goto(demo.base_url)
    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="demo.still"))
    await expect(row).to_contain_text("Paused")


async def test_attention_items_link_to_their_problem(page: Page, demo: Server) -> None:
    await page.goto(demo.base_url)
    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="demo.refunds"))
    await row.get_by_role("link").filter(has_text="dead letter").click()
    await expect(page).to_have_url(f"{demo.base_url}/dead-letters?queue=demo.refunds")


async def test_an_unknown_page_links_back(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/nowhere")
    await page.get_by_role("link", name="Go to overview").click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
