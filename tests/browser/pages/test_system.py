"""Traces, analytics, pipelines, and the system: its processes, tasks, database and audit log."""

import asyncio
import json
import re
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.shop import BIG
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = 205
"""Events of a trace. A page has 200."""


@pytest.mark.nightly
async def test_a_trace_links_to_its_messages(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/traces")
    await page.get_by_placeholder("Name starts with").fill("checkout")
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


async def test_a_pending_filter_does_not_interrupt_navigation(page: Page, demo: Server) -> None:
    loaded = asyncio.Event()

    async def hold(route: Route) -> None:
        await loaded.wait()
        await route.continue_()

    await page.clock.install()
    await page.route("**/TracePage-*.js", hold)
    await page.goto(f"{demo.base_url}/traces")
    link = page.get_by_role("link", name="checkout/7")
    await expect(link).to_be_visible()
    await page.get_by_placeholder("Name starts with").fill("checkout")
    async with page.expect_request("**/TracePage-*.js"):
        await link.click()
    await page.clock.run_for(1_000)
    loaded.set()
    await expect(page.get_by_role("heading", name="checkout/7")).to_be_visible()


@pytest.mark.nightly
async def test_metrics_are_compared_with_the_previous_period(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/analytics?range=6h")
    tile = page.locator("[data-tile=In]")
    await expect(tile).to_contain_text("% from")
    await expect(page.locator("[data-chart=Wait] canvas")).to_be_visible()
    rows = page.get_by_role("table", name="Queues in this time range").locator("[data-row]")
    await expect(rows.filter(has_text="demo.orders")).to_be_visible()
    await page.get_by_label("Namespace").select_option("shop")
    await expect(rows).to_have_text(["demo.orders"])
    await expect(page).to_have_url(re.compile("namespace=shop"))
    await page.reload()
    await expect(page.get_by_label("Namespace")).to_have_value("shop")
    await expect(rows).to_have_text(["demo.orders"])


async def test_any_range_is_shown(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/analytics")
    await page.get_by_role("button", name="Custom range").click()
    await page.get_by_label("From").fill("-20h")
    await page.get_by_label("To", exact=True).fill("-30h")
    await expect(page.get_by_role("button", name="Show", exact=True)).to_be_disabled()
    await page.get_by_label("To", exact=True).fill("-2h")
    await page.get_by_role("button", name="Show", exact=True).click()
    await expect(page.locator("[data-zoom]")).to_be_visible()
    await expect(page).to_have_url(re.compile("from="))


async def test_pipelines_show_their_progress(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/pipelines")
    archive = page.locator("[data-pipeline=archive-orders]")
    await expect(archive).to_contain_text("120 messages")
    await expect(archive.get_by_role("link", name="Spark UI")).to_have_attribute(
        "href", "http://spark.example:4040"
    )
    await expect(archive).to_contain_text("wait for pid 4711 of database x since 00:41:10 UTC")
    hold = page.get_by_role("table", name="Holds").locator("[data-row]")
    await expect(hold).to_contain_text("archive:orders")
    failed = page.locator("[data-pipeline=rollup]")
    await expect(failed).to_contain_text("no space left")
    # Its reported address is not a web address, so there is no link.
    await expect(failed.get_by_role("link", name="Spark UI")).to_have_count(0)


async def test_a_pipeline_has_charts_of_its_history_and_its_error(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/pipelines")
    await page.get_by_role("link", name="archive-orders").click()
    await expect(page.get_by_role("heading", name="archive-orders")).to_be_visible()
    charts = page.get_by_role("region", name="History")
    for title in ("Rate", "Lag", "Batch time", "Behind", "Late rows"):
        await expect(charts.locator(f"[data-chart='{title}'] canvas")).to_be_visible()

    await page.get_by_role("link", name="Pipelines", exact=True).first.click()
    failed = page.locator("[data-pipeline=rollup]")
    await failed.get_by_role("link", name="Show the error after batch 41").click()
    await expect(page.get_by_role("region", name="Error")).to_contain_text("no space left")
    await expect(page).to_have_url(re.compile("#error$"))


async def test_pipelines_beyond_the_first_page_are_loaded_too(page: Page, demo: Server) -> None:
    async def few(route: Route) -> None:
        url = route.request.url
        await route.continue_(url=f"{url}{'&' if '?' in url else '?'}limit=1")

    await page.route("**/api/v1/pipelines*", few)
    await page.goto(f"{demo.base_url}/pipelines")
    await expect(page.locator("[data-pipeline]")).to_have_count(1)
    await page.get_by_role("button", name="Load more").click()
    await expect(page.locator("[data-pipeline]")).to_have_count(2)


async def test_the_system_page_shows_processes_and_settings(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/system")
    await expect(page.get_by_role("table", name="Processes")).to_contain_text("alive")
    await expect(page.locator("main")).to_contain_text("connected")
    await page.get_by_role("link", name="Background tasks").click()
    await expect(
        page.get_by_role("table", name="Background tasks").locator("[data-row]").first
    ).to_be_visible()
    await page.get_by_role("link", name="PostgreSQL").click()
    await expect(page.get_by_role("table", name="Tables")).to_contain_text("segments")
    await expect(page.get_by_role("list", name="Migrations")).to_contain_text("0001")
    await page.get_by_role("link", name="settings").click()
    await page.get_by_placeholder("Search by name").fill("sample")
    settings = page.get_by_role("table", name="Settings").locator("[data-row]")
    await expect(settings.filter(has_text="QUEEN_SAMPLE_SECONDS")).to_contain_text("environment")
    await page.reload()
    await expect(settings.filter(has_text="QUEEN_SAMPLE_SECONDS")).to_be_visible()


async def test_actions_are_in_the_audit_log(page: Page, demo: Server) -> None:
    await demo.post("/push", {"items": [{"queue": "watched", "payload": 1}]})
    await demo.post("/resources/queues/watched/pause", {})
    await page.goto(f"{demo.base_url}/system?tab=audit&queue=watched")
    rows = page.get_by_role("table", name="Audit log").locator("[data-row]")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("watched")


async def test_maintenance_starts_after_a_confirmation_and_ends(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/system")
    pops = page.locator("[data-maintenance=pop]")
    await pops.get_by_role("button", name="Start pop maintenance").click()
    begin = page.get_by_role("dialog").get_by_role("button", name="Start")
    await expect(begin).to_be_disabled()
    await page.get_by_label("to confirm").fill("maintenance")
    await begin.click()
    await expect(pops).to_contain_text("stopped")
    assert (await demo.get("/system/maintenance/pop")).body["enabled"] is True
    await pops.get_by_role("button", name="End pop maintenance").click()
    await page.get_by_role("dialog").get_by_role("button", name="End").click()
    await expect(pops).to_contain_text("normal")


async def test_the_audit_log_is_filtered_by_text(page: Page, demo: Server) -> None:
    for queue in ("first", "second"):
        await demo.post("/push", {"items": [{"queue": queue, "payload": 1}]})
        await demo.post(f"/resources/queues/{queue}/pause", {})
    await page.goto(f"{demo.base_url}/system?tab=audit")
    rows = page.get_by_role("table", name="Audit log").locator("[data-row]")
    await page.get_by_label("Queue").fill("second")
    await page.get_by_label("Queue").press("Enter")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("second")
    await page.get_by_label("Actor").fill("nobody")
    await page.get_by_label("Actor").press("Enter")
    await expect(page.locator("[data-empty]")).to_contain_text("No matching records")
    await expect(page).to_have_url(re.compile("actor=nobody"))


async def test_a_long_trace_loads_more_events(page: Page, demo: Server) -> None:
    item = {"queue": "traced", "payload": 1}
    (pushed,) = (await demo.post("/push", {"items": [item]})).body["messages"]
    for number in range(LONG):
        trace = {
            "transactionId": pushed["transactionId"],
            "partitionId": pushed["partitionId"],
            "traceName": "long",
            "data": {"step": number},
        }
        assert (await demo.post("/traces", trace)).status == 201
    await page.goto(f"{demo.base_url}/traces/long")
    events = page.locator("[data-event]")
    further = page.get_by_role("button", name="Load more")
    await expect(events).to_have_count(200)
    await further.click()
    await expect(events).to_have_count(LONG)
    await expect(further).to_have_count(0)
    shown = await events.locator("code").all_inner_texts()
    assert [json.loads(each)["step"] for each in shown] == [*range(LONG)]
    await expect(page.locator("main")).to_contain_text(f"{LONG} events of 1 message")


async def test_a_rejected_maintenance_shows_an_error_and_can_be_retried(
    page: Page, demo: Server
) -> None:
    async def push() -> int:
        return (await demo.post("/push", {"items": [{"queue": "kept", "payload": 1}]})).status

    problem = {"code": "database_unavailable", "detail": "the database is away"}
    pushes = page.locator("[data-maintenance=push]")
    dialog = page.get_by_role("dialog")
    await page.goto(f"{demo.base_url}/system")
    await pushes.get_by_role("button", name="Start push maintenance").click()
    await dialog.get_by_label("to confirm").fill("maintenance")
    await page.route(
        "**/system/maintenance",
        lambda route: (
            route.fulfill(status=503, json=problem)
            if route.request.method == "POST"
            else route.continue_()
        ),
    )
    await dialog.get_by_role("button", name="Start").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("the database is away")
    assert await push() == 201
    await page.unroute("**/system/maintenance")
    await dialog.get_by_role("button", name="Try again").click()
    await expect(dialog).to_have_count(0)
    await expect(pushes).to_contain_text("stopped")
    assert await push() == 503
    await page.reload()
    await expect(pushes).to_contain_text("stopped")
    await pushes.get_by_role("button", name="End push maintenance").click()
    await dialog.get_by_role("button", name="End", exact=True).click()
    await expect(dialog).to_have_count(0)
    await expect(pushes).to_contain_text("normal")
    assert await push() == 201


async def test_an_unconfirmed_maintenance_does_not_start(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/system")
    await page.get_by_role("button", name="Start pop maintenance").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("to confirm").fill("maintenance")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(dialog).to_have_count(0)
    await expect(page.locator("[data-maintenance=pop]")).to_contain_text("normal")
    assert (await demo.get("/system/maintenance/pop")).body["enabled"] is False


@pytest.mark.nightly
async def test_a_comparison_can_be_shared_by_its_url(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/analytics")
    await page.get_by_role("button", name="Custom range").click()
    await page.get_by_label("From").fill("-6h")
    await page.get_by_label("To", exact=True).fill("-4h")
    await page.get_by_role("button", name="Show", exact=True).click()
    await page.get_by_role("combobox", name="Queue").fill("demo.orders")
    await page.get_by_role("combobox", name="Queue").press("Enter")
    await expect(page).to_have_url(re.compile("queue=demo.orders"))
    start, end = (
        datetime.fromisoformat(parse_qs(urlsplit(page.url).query)[name][0])
        for name in ("from", "to")
    )
    pushed: list[int] = []
    for since in (start, start - (end - start)):
        until = since + (end - start)
        between = {"from": since.isoformat(), "to": until.isoformat()}
        found = await demo.get("/analytics", queue="demo.orders", **between)
        pushed.append(found.body["totals"]["pushed"])
    assert 0 < pushed[0] != pushed[1] > 0
    change = round((pushed[0] - pushed[1]) / pushed[1] * 100)
    sign = "+" if change > 0 else ""
    tile = page.locator("[data-tile=In]")
    await expect(tile).to_contain_text(f"{pushed[0]:,}{sign}{change}% from {pushed[1]:,}")
    shown = await tile.inner_text()

    other = await page.context.new_page()
    await other.goto(page.url)
    await expect(other.locator("[data-tile=In]")).to_contain_text("% from")
    assert await other.locator("[data-tile=In]").inner_text() == shown
    await expect(other.locator("[data-zoom]")).to_be_visible()


async def test_analytics_are_filtered_by_task_and_link_to_a_queue(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/analytics?range=6h")
    rows = page.get_by_role("table", name="Queues in this time range").locator("[data-row]")
    await expect(rows.filter(has_text="demo.refunds")).to_be_visible()
    await page.get_by_label("Task").select_option("bill")
    await expect(rows).to_have_text(["demo.orders"])
    await expect(page).to_have_url(re.compile("task=bill"))
    await rows.click()
    # The link keeps the time range.
    await expect(page).to_have_url(f"{demo.base_url}/queues/demo.orders?range=6h")
    await expect(page.get_by_role("button", name="6h")).to_have_attribute("aria-pressed", "true")
