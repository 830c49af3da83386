"""Workflows: the list of runs, their progress, and actions."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, Route, expect

from tests.browser.conftest import FAST
from tests.server.jobs.workflows import job, settle, take
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

CURSOR = re.compile(r"/workflows\?.*cursor=")
BIG = 12345678901234567890
SCRIPT = "<img src=x onerror='window.broken=true'>"
SIGNAL = {"signal": "go", "timeoutSeconds": 3600}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(own_dsn: str) -> AsyncIterator[Server]:
    """A server with authentication, beside the one of the demo."""
    async with Server(own_dsn, {**FAST, **KEYS}) as server:
        yield server


async def start(server: Server, *steps: dict[str, Any], name: str = "test") -> str:
    reply = await server.post("/workflows", {"name": name, "steps": steps})
    assert reply.status == 201, reply
    return reply.body["id"]


async def state_of(server: Server, id_: str) -> str:
    return (await server.get(f"/workflows/{id_}")).body["state"]


def node(page: Page, name: str) -> Locator:
    return page.locator(f'[data-graph] [data-step="{name}"]')


@pytest.mark.nightly
async def test_runs_are_found_by_state_name_and_tag(page: Page, demo: Server) -> None:
    await page.goto(demo.base_url)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("w")
    rows = page.get_by_role("table", name="Workflows").locator("tr[aria-rowindex]")
    await expect(rows.filter(has_text="demo-trip-1")).to_contain_text("4 of 4")
    await expect(rows.filter(has_text="demo-trip-1")).to_contain_text("customer-7")
    await page.get_by_label("State").select_option("failed")
    await expect(rows).to_have_count(2)
    await page.get_by_placeholder("Workflow name").fill("refund")
    await page.get_by_placeholder("Workflow name").press("Enter")
    await expect(rows).to_have_count(1)
    url = page.url
    await page.reload()
    await expect(rows).to_have_count(1)
    assert page.url == url
    await expect(page.get_by_label("State")).to_have_value("failed")
    await page.get_by_role("button", name="Filter by tag money").click()
    await expect(page).to_have_url(re.compile("tag=money"))
    await page.get_by_placeholder("Tag").fill("none")
    await page.get_by_placeholder("Tag").press("Enter")
    await expect(page.locator("[data-empty]")).to_contain_text("No matching runs")


async def test_many_runs_are_loaded_in_pages(page: Page, demo: Server) -> None:
    for _ in range(120):
        await start(demo, SIGNAL, name="many")
    is_refreshed = asyncio.Event()

    async def delay(route: Route) -> None:
        await is_refreshed.wait()
        await route.continue_()

    await page.route(CURSOR, delay)
    async with page.expect_websocket() as opening:
        await page.goto(f"{demo.base_url}/workflows?name=many")
    await expect(page.locator("tr[aria-rowindex='2']")).to_be_visible()
    async with page.expect_request(CURSOR):
        await page.keyboard.press("End")
    # Activity refreshes lists, but not one that is loading its next page.
    socket = await opening.value
    async with socket.expect_event(
        "framereceived", lambda frame: "message.processed" in str(frame)
    ):
        await demo.post("/push", {"items": [{"queue": "other", "payload": 1}]})
    is_refreshed.set()
    await expect(page.locator("tr[aria-rowindex='102']")).to_be_attached()

    async def is_at_end() -> bool:
        # Again: a key that is pressed before the new rows have their place ends above them.
        await page.keyboard.press("End")
        return await page.locator("tr[aria-rowindex='121']").is_visible()

    await until(is_at_end, seconds=20)


async def test_a_refresh_keeps_the_text_that_is_being_typed(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/workflows")
    await expect(page.locator("tr[aria-rowindex]").first).to_be_visible()
    await page.get_by_placeholder("Workflow name").fill("offe")
    id_ = await start(demo, SIGNAL)
    # It is requested every 15 seconds.
    await expect(page.locator("main")).to_contain_text(id_, timeout=30_000)
    await page.keyboard.type("r")
    await page.keyboard.press("Enter")
    await expect(page.locator("tr[aria-rowindex]")).to_have_count(2)


async def test_the_palette_opens_failed_runs(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/workflows")
    await expect(page.get_by_role("heading", name="Workflows")).to_be_visible()
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("option").first).to_be_visible()
    await page.keyboard.type("failed workflows")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("state=failed"))


async def test_the_graph_and_the_table_show_the_states(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/workflows/demo-import-1")
    await expect(node(page, "load")).to_contain_text("10 of 12 parts, 1 failed")
    await expect(node(page, "load")).to_contain_text("active")
    await expect(node(page, "index")).to_contain_text("pending")
    steps = page.get_by_role("table", name="Steps")
    await expect(steps).to_contain_text("10 of 12 parts, 1 failed")
    await expect(steps).to_contain_text("failure of load")
    await expect(page.locator("path[data-way=failure]")).to_have_attribute(
        "stroke-dasharray", "7 4"
    )
    await page.goto(f"{demo.base_url}/workflows/demo-trip-2")
    for name, state in (
        ("flight", "completed"),
        ("car", "failed"),
        ("pay", "skipped"),
        ("flight:undo", "completed"),
    ):
        await expect(node(page, name).locator("[data-state]")).to_have_text(state)
    await expect(node(page, "flight:undo")).to_contain_text("undoes flight")
    await expect(page.locator("main")).to_contain_text("no car is left")


async def test_a_step_is_opened_and_closed_by_keyboard(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/workflows/demo-trip-2")
    await node(page, "flight").focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowLeft")
    await expect(node(page, "flight")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(node(page, "flight:undo")).to_be_focused()
    await node(page, "car").focus()
    await page.keyboard.press("Enter")
    panel = page.get_by_role("region", name="Step car")
    await expect(panel.get_by_role("heading").first).to_be_focused()
    await expect(panel).to_contain_text("no car is left")
    await expect(panel).to_contain_text("Attempts")
    await expect(page).to_have_url(re.compile("step=car"))
    await page.reload()
    await panel.get_by_role("heading").first.focus()
    await page.keyboard.press("Escape")
    await expect(panel).to_have_count(0)
    await expect(node(page, "car")).to_be_focused()


async def test_a_step_links_to_its_job_and_back(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/workflows/demo-trip-2?step=hotel")
    panel = page.get_by_role("region", name="Step hotel")
    await expect(panel.get_by_role("region", name="Tree of step result")).to_contain_text("done")
    await panel.get_by_role("link", name="Job and message").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("book")
    await page.get_by_role("link", name="Open workflow").click()
    await expect(panel).to_be_visible()


async def test_failed_parts_are_shown_first(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/workflows/demo-import-1?step=load")
    parts = page.locator("[data-part]")
    await expect(parts).to_have_count(1)
    await expect(parts).to_contain_text("row 3 has no date")
    await page.get_by_role("region", name="Parts").get_by_label("State").select_option("any")
    await expect(parts).to_have_count(12)
    await parts.first.get_by_role("link", name="Job of part 0").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("load-row")


async def test_a_run_is_cancelled_with_a_reason_and_deleted(page: Page, demo: Server) -> None:
    id_ = await start(demo, SIGNAL)
    await page.goto(f"{demo.base_url}/workflows/{id_}")
    await page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("not wanted")
    await dialog.get_by_label("to confirm").fill("cancel")
    await dialog.get_by_role("button", name="Cancel run").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    await expect(page.locator("main")).to_contain_text("not wanted")
    assert await state_of(demo, id_) == "cancelled"
    await page.get_by_role("button", name="Delete").click()
    await dialog.get_by_label("to confirm").fill("delete")
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Workflows")
    assert (await demo.get(f"/workflows/{id_}")).status == 404


async def test_a_failed_run_is_retried_from_its_step_and_a_rejection_is_shown(
    page: Page, demo: Server
) -> None:
    id_ = await start(demo, SIGNAL, {"signal": "then", "after": ["go"]})
    told = {"signal": "go", "outcome": "failure", "data": "not now"}
    assert (await demo.post(f"/workflows/{id_}/signal", told)).status == 200
    await page.goto(f"{demo.base_url}/workflows/{id_}?step=go")
    panel = page.get_by_role("region", name="Step go")
    await expect(panel).to_contain_text("not now")
    await panel.get_by_role("button", name="Retry from here").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Retry from go")
    # Another user retried first, so the page is outdated and the server rejects the retry.
    assert (await demo.post(f"/workflows/{id_}/retry")).status == 200
    await dialog.get_by_role("button", name="Retry", exact=True).click()
    await expect(dialog.get_by_role("alert")).to_contain_text("only a failed or cancelled one")
    await page.keyboard.press("Escape")
    assert (await demo.post(f"/workflows/{id_}/signal", told)).status == 200
    await expect(node(page, "go")).to_contain_text("failed")
    await page.get_by_role("button", name="Retry", exact=True).click()
    await dialog.get_by_role("button", name="Retry", exact=True).click()
    await expect(dialog).to_have_count(0)
    await expect(node(page, "go")).to_contain_text("waiting")
    assert await state_of(demo, id_) == "running"


async def test_a_compensated_step_offers_no_retry(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/workflows/demo-trip-2?step=car")
    await expect(page.get_by_role("region", name="Step car")).to_be_visible()
    await expect(page.get_by_role("button", name="Retry")).to_have_count(0)


async def test_a_signal_is_sent_as_typed(page: Page, demo: Server) -> None:
    id_ = await start(demo, SIGNAL)
    await page.goto(f"{demo.base_url}/workflows/{id_}")
    await node(page, "go").click()
    await page.get_by_role("button", name="Send signal").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Data (JSON)").fill('{"by": ')
    await expect(dialog.get_by_role("button", name="Send")).to_be_disabled()
    await dialog.get_by_label("Data (JSON)").fill(f'{{"by": {BIG}}}')
    await dialog.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("completed")
    shown = await demo.get(f"/workflows/{id_}")
    assert shown.body["result"] == {"go": {"by": BIG}}
    await expect(page.get_by_role("region", name="Tree of result").first).to_contain_text(str(BIG))


async def test_script_in_names_and_errors_does_not_run(page: Page, demo: Server) -> None:
    id_ = await start(demo, {"signal": SCRIPT}, {"signal": "b", "after": [SCRIPT]}, name=SCRIPT)
    told = {"signal": SCRIPT, "outcome": "failure", "data": SCRIPT}
    assert (await demo.post(f"/workflows/{id_}/signal", told)).status == 200
    odd = quote(SCRIPT, safe="")
    for path in (
        f"/workflows?name={odd}",
        f"/workflows?tag={odd}&correlationId={odd}",
        f"/workflows/{id_}?step={odd}",
        f"/workflows/{odd}",
    ):
        await page.goto(demo.base_url + path)
        await expect(page.get_by_role("heading").first).to_be_visible()
        await page.wait_for_load_state("networkidle")
        assert await page.evaluate("window.broken") is None
    await page.goto(f"{demo.base_url}/workflows/{id_}")
    await page.locator("[data-graph] button").first.click()
    await expect(page.get_by_role("region", name=f"Step {SCRIPT}")).to_contain_text(SCRIPT)
    assert await page.evaluate("window.broken") is None


async def test_a_missing_run_shows_an_explanation(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/workflows/nobody")
    await expect(page.locator("[data-failure=missing]")).to_contain_text("nobody")


@pytest.mark.parametrize("role", ["read-only", "read-write"])
async def test_actions_are_offered_only_to_permitted_users(
    page: Page, demo: Server, guarded: Server, own_dsn: str, role: str
) -> None:
    id_ = await start(demo, SIGNAL)
    key = await make_key(own_dsn, role=role, name=role)
    await page.goto(f"{guarded.base_url}/workflows/{id_}?step=go")
    await page.get_by_label("API key or token").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("region", name="Step go")).to_be_visible()
    offered = [
        name
        for name in ("Send signal", "Cancel", "Retry", "Delete")
        if await page.locator("main").get_by_role("button", name=name).count()
    ]
    assert offered == (["Send signal", "Cancel"] if role == "read-write" else [])
    reply = await Caller(guarded, key).post(f"/workflows/{id_}/cancel", {})
    assert reply.status == (200 if role == "read-write" else 403)


async def test_a_narrow_window_scrolls_only_the_graph(page: Page, demo: Server) -> None:
    await page.set_viewport_size({"width": 375, "height": 812})
    await page.goto(f"{demo.base_url}/workflows/demo-trip-1")
    await expect(node(page, "pay")).to_be_attached()
    inner, outer = await page.locator("[data-graph]").evaluate(
        "each => [each.scrollWidth, each.clientWidth]"
    )
    assert inner > outer
    await node(page, "pay").focus()
    await expect(node(page, "pay")).to_be_in_viewport()


async def test_parts_beyond_the_first_page_are_loaded_too(page: Page, demo: Server) -> None:
    step = {"name": "load", "queue": "demo.trips", "job": "load", "over": [*range(60)]}
    id_ = await start(demo, step)
    await page.goto(f"{demo.base_url}/workflows/{id_}?step=load")
    parts = page.locator("[data-part]")
    further = page.get_by_role("region", name="Parts").get_by_role("button", name="Load more")
    await expect(parts).to_have_count(50)
    await further.click()
    await expect(parts).to_have_count(60)
    await expect(parts.last).to_contain_text("Part 59")
    await expect(further).to_have_count(0)


@pytest.mark.nightly
async def test_the_filter_of_parts_is_in_the_url_and_belongs_to_one_step(
    page: Page, demo: Server
) -> None:
    await page.goto(f"{demo.base_url}/workflows/demo-import-1?step=load")
    parts = page.locator("[data-part]")
    state = page.get_by_role("region", name="Parts").get_by_label("State")
    await expect(state).to_have_value("failed")
    await state.select_option("completed")
    await expect(parts).to_have_count(9)
    url = f"{demo.base_url}/workflows/demo-import-1?step=load&parts=completed"
    await expect(page).to_have_url(url)
    await page.reload()
    await expect(parts).to_have_count(9)
    await expect(state).to_have_value("completed")
    await node(page, "index").click()
    await expect(page).to_have_url(f"{demo.base_url}/workflows/demo-import-1?step=index")
    await node(page, "load").click()
    await expect(state).to_have_value("failed")
    await state.select_option("any")
    await expect(parts).to_have_count(12)
    await page.get_by_role("button", name="Close step").click()
    await expect(page).to_have_url(f"{demo.base_url}/workflows/demo-import-1")
    await page.goto(f"{demo.base_url}/workflows/demo-import-1?step=load&parts=odd")
    await expect(state).to_have_value("failed")


async def test_steps_are_opened_from_the_error_and_from_the_table(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/workflows/demo-refund-1")
    await page.locator("main").get_by_role("button", name="transfer", exact=True).first.click()
    panel = page.get_by_role("region", name="Step transfer")
    await expect(panel.get_by_role("heading").first).to_be_focused()
    await expect(panel).to_contain_text("the bank does not answer")
    steps = page.get_by_role("table", name="Steps")
    await steps.get_by_role("button", name="check", exact=True).click()
    panel = page.get_by_role("region", name="Step check")
    await expect(panel.get_by_role("heading").first).to_be_focused()
    await panel.get_by_role("link", name="Queue demo.trips").click()
    await expect(page.get_by_role("heading", name="demo.trips")).to_be_visible()


async def test_runs_are_filtered_by_correlation_id(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/workflows?name=trip")
    rows = page.get_by_role("table", name="Workflows").locator("tr[aria-rowindex]")
    await page.get_by_role("button", name="customer-7").first.click()
    await expect(page).to_have_url(re.compile("correlationId=customer-7"))
    await expect(page.get_by_placeholder("Correlation ID")).to_have_value("customer-7")
    await expect(rows).to_have_count(2)
    await page.get_by_placeholder("Correlation ID").fill("customer-8")
    await page.get_by_placeholder("Correlation ID").press("Enter")
    await expect(page.locator("[data-empty]")).to_contain_text("No matching runs")


async def test_a_failure_signal_fails_its_step_and_a_second_one_is_rejected(
    page: Page, demo: Server
) -> None:
    id_ = await start(demo, SIGNAL, {"signal": "later"})
    await page.goto(f"{demo.base_url}/workflows/{id_}?step=go")
    await page.get_by_role("button", name="Send signal").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Outcome").select_option("failure")
    await dialog.get_by_label("Data (JSON)").fill('"not wanted"')
    # Another user was faster.
    assert (await demo.post(f"/workflows/{id_}/signal", {"signal": "go"})).status == 200
    await dialog.get_by_role("button", name="Send").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("No step accepted the signal")
    await page.keyboard.press("Escape")
    await node(page, "later").click()
    await page.get_by_role("button", name="Send signal").click()
    await dialog.get_by_label("Outcome").select_option("failure")
    await dialog.get_by_label("Data (JSON)").fill('"not wanted"')
    await dialog.get_by_role("button", name="Send").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("region", name="Step later")).to_contain_text("not wanted")
    assert await state_of(demo, id_) == "failed"


@pytest.mark.parametrize("is_undone", [True, False])
async def test_a_cancelled_run_is_compensated_or_left_as_it_is(
    page: Page, demo: Server, is_undone: bool
) -> None:
    made = {"queue": "work", "options": {"ordered": False}}
    assert (await demo.post("/configure", made)).status == 200
    undo = {"queue": "work", "job": "give-back"}
    id_ = await start(demo, job("book", compensate=undo), {"signal": "go", "after": ["book"]})
    await settle(demo, await take(demo))
    await page.goto(f"{demo.base_url}/workflows/{id_}")
    await page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Compensate completed steps").set_checked(is_undone)
    await dialog.get_by_label("to confirm").fill("cancel")
    await dialog.get_by_role("button", name="Cancel run").click()
    await expect(dialog).to_have_count(0)
    if is_undone:
        await settle(demo, await take(demo))
    await expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    done = "completed" if is_undone else "skipped"
    await expect(node(page, "book:undo").locator("[data-state]")).to_have_text(done)
