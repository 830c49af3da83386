"""Traces, analytics, pipelines, and the system: its processes, upkeep, database and audit log."""

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.shop import BIG
from tests.server.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_trace_leads_through_its_messages(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/traces")
    await page.get_by_placeholder("Names that begin with").fill("checkout")
    await page.get_by_role("link", name="checkout/7").click()
    await expect(page.get_by_role("heading", name="checkout/7")).to_be_visible()
    await expect(page.locator("[data-event]")).to_have_count(6)
    await expect(page.locator("[data-event]").nth(0)).to_contain_text(str(BIG))
    await expect(page.locator("[data-event]").nth(1)).to_contain_text("no stock")
    await page.reload()
    await expect(page.locator("[data-event]")).to_have_count(6)
    await page.locator("[data-row]").first.click()
    await expect(page.get_by_role("list", name="Timeline")).to_contain_text("in checkout/7, stock")
    await expect(page.get_by_role("list", name="Timeline")).to_contain_text(str(BIG))


async def test_figures_are_told_against_the_time_before(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/analytics?range=6h")
    tile = page.locator("[data-tile=In]")
    await expect(tile).to_contain_text("against")
    await expect(page.locator("[data-chart=Wait] canvas")).to_be_visible()
    rows = page.get_by_role("table", name="Queues in this time").locator("[data-row]")
    await expect(rows.filter(has_text="demo.orders")).to_be_visible()
    await page.get_by_label("Namespace").select_option("shop")
    await expect(rows).to_have_text(["demo.orders"])
    assert "namespace=shop" in page.url
    await page.reload()
    await expect(page.get_by_label("Namespace")).to_have_value("shop")
    await expect(rows).to_have_text(["demo.orders"])


async def test_any_range_is_shown(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/analytics")
    await page.get_by_role("button", name="Between two times").click()
    await page.get_by_label("From").fill("-20h")
    await page.get_by_label("To", exact=True).fill("-30h")
    await expect(page.get_by_role("button", name="Show", exact=True)).to_be_disabled()
    await page.get_by_label("To", exact=True).fill("-2h")
    await page.get_by_role("button", name="Show", exact=True).click()
    await expect(page.locator("[data-zoom]")).to_be_visible()
    assert "from=" in page.url


async def test_pipelines_say_how_far_they_are(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/pipelines")
    archive = page.locator("[data-pipeline=archive-orders]")
    await expect(archive).to_contain_text("120 messages")
    await expect(archive.get_by_role("link", name="Spark's page")).to_have_attribute(
        "href", "http://spark.example:4040"
    )
    failed = page.locator("[data-pipeline=rollup]")
    await expect(failed).to_contain_text("no space left")
    # What it says of itself is no address of the web, and so no link.
    await expect(failed.get_by_role("link", name="Spark's page")).to_have_count(0)


async def test_pipelines_beyond_the_first_page_are_read_too(page: Page, demo: Server) -> None:
    async def few(route: Route) -> None:
        url = route.request.url
        await route.continue_(url=f"{url}{'&' if '?' in url else '?'}limit=1")

    await page.route("**/api/v1/pipelines*", few)
    await page.goto(f"{demo.base_url}/pipelines")
    await expect(page.locator("[data-pipeline]")).to_have_count(1)
    await page.get_by_role("button", name="Read further").click()
    await expect(page.locator("[data-pipeline]")).to_have_count(2)


async def test_the_system_is_seen_from_process_to_setting(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/system")
    await expect(page.get_by_role("table", name="Processes")).to_contain_text("alive")
    await expect(page.locator("main")).to_contain_text("connected")
    await page.get_by_role("link", name="upkeep").click()
    await expect(
        page.get_by_role("table", name="Upkeep").locator("[data-row]").first
    ).to_be_visible()
    await page.get_by_role("link", name="database").click()
    await expect(page.get_by_role("table", name="Tables")).to_contain_text("segments")
    await expect(page.get_by_role("list", name="Migrations")).to_contain_text("0001")
    await page.get_by_role("link", name="settings").click()
    await page.get_by_placeholder("Search by name").fill("sample")
    settings = page.get_by_role("table", name="Settings").locator("[data-row]")
    await expect(settings.filter(has_text="QUEEN_SAMPLE_SECONDS")).to_contain_text("environment")
    await page.reload()
    await expect(settings.filter(has_text="QUEEN_SAMPLE_SECONDS")).to_be_visible()


async def test_what_was_done_is_in_the_audit_log(page: Page, demo: Server) -> None:
    await demo.post("/push", {"items": [{"queue": "watched", "payload": 1}]})
    await demo.post("/resources/queues/watched/pause", {})
    await page.goto(f"{demo.base_url}/system?tab=audit&queue=watched")
    rows = page.get_by_role("table", name="Audit log").locator("[data-row]")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("watched")


async def test_maintenance_begins_by_a_word_and_ends(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/system")
    pops = page.locator("[data-maintenance=pop]")
    await pops.get_by_role("button", name="Begin pop maintenance").click()
    begin = page.get_by_role("dialog").get_by_role("button", name="Begin")
    await expect(begin).to_be_disabled()
    await page.get_by_label("to confirm").fill("maintenance")
    await begin.click()
    await expect(pops).to_contain_text("stopped")
    assert (await demo.get("/system/maintenance/pop")).body["enabled"] is True
    await pops.get_by_role("button", name="End pop maintenance").click()
    await page.get_by_role("dialog").get_by_role("button", name="End").click()
    await expect(pops).to_contain_text("normal")


async def test_the_audit_log_is_narrowed_by_what_is_typed(page: Page, demo: Server) -> None:
    for queue in ("first", "second"):
        await demo.post("/push", {"items": [{"queue": queue, "payload": 1}]})
        await demo.post(f"/resources/queues/{queue}/pause", {})
    await page.goto(f"{demo.base_url}/system?tab=audit")
    rows = page.get_by_role("table", name="Audit log").locator("[data-row]")
    await page.get_by_label("Queue").fill("second")
    await page.get_by_label("Queue").press("Enter")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("second")
    await page.get_by_label("Who").fill("nobody")
    await page.get_by_label("Who").press("Enter")
    await expect(page.locator("[data-empty]")).to_contain_text("No record matches")
    assert "actor=nobody" in page.url
