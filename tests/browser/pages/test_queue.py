"""One queue: charts, configuration, partitions, deliveries and actions."""

import json
import re

import pytest
from playwright.async_api import Page, expect

from tests.support.server import Server, until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def fill(server: Server, queue: str, count: int = 3, *, partition: str = "Default") -> None:
    items = [{"queue": queue, "partition": partition, "payload": n} for n in range(count)]
    assert (await server.post("/push", {"items": items})).status == 201


@pytest.mark.nightly
async def test_dragging_over_a_chart_zooms_and_back_zooms_out(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/queues/demo.orders?range=6h")
    plot = page.locator("[data-chart=Pending] .u-over")
    await expect(plot).to_be_visible()
    await page.wait_for_load_state("networkidle")
    await plot.hover(position={"x": 100, "y": 60})
    await page.mouse.down()
    box = await plot.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + 300, box["y"] + 60, steps=5)
    await page.mouse.up()
    await expect(page.locator("[data-zoom]")).to_be_visible()
    await expect(page).to_have_url(re.compile("from="))
    zoomed = page.url
    await page.reload()
    await expect(page.locator("[data-zoom]")).to_be_visible()
    assert page.url == zoomed
    await page.go_back()
    await expect(page.locator("[data-zoom]")).to_have_count(0)


async def test_the_cursor_is_shared_by_all_charts(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/queues/demo.orders?range=6h")
    await expect(page.locator("[data-chart=Wait] .u-over")).to_be_visible()
    await page.wait_for_load_state("networkidle")
    await page.locator("[data-chart=Pending] .u-over").hover(position={"x": 200, "y": 50})
    moved = await page.locator("[data-chart=Wait] .u-cursor-x").evaluate(
        "each => each.style.transform"
    )
    assert "translate" in moved


async def test_a_queue_of_a_manifest_names_its_manager(page: Page, demo: Server) -> None:
    for queue, manager in (("managed", "shop"), ("free", None)):
        body = {"queue": queue, "options": {"managedBy": manager}}
        assert (await demo.post("/configure", body)).status == 200
    note = page.get_by_text("Managed by shop.")

    await page.goto(f"{demo.base_url}/queues/managed?tab=configuration")
    await expect(note).to_be_visible()
    await page.goto(f"{demo.base_url}/queues/free?tab=configuration")
    await expect(page.locator("#option-leaseTime")).to_be_visible()
    await expect(note).to_have_count(0)


async def test_a_configuration_is_saved_after_its_diff_was_shown(page: Page, demo: Server) -> None:
    await fill(demo, "configured")
    await page.goto(f"{demo.base_url}/queues/configured?tab=configuration")
    await page.locator("#option-leaseTime").fill("60")
    await page.locator("#option-rateLimit").check()
    await page.get_by_role("button", name="Review and save").click()
    diff = page.get_by_role("table", name="Changes")
    await expect(diff).to_contain_text("leaseTime")
    await expect(diff).to_contain_text("300")
    await expect(diff).to_contain_text("60")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    options = (await demo.get("/resources/queues/configured")).body["options"]
    assert options["leaseTime"] == 60
    assert options["rateLimit"] == {"max": 100, "durationMillis": 1000, "per": "queue"}


async def test_an_option_keeps_its_typed_text(page: Page, demo: Server) -> None:
    await fill(demo, "typed")
    await page.goto(f"{demo.base_url}/queues/typed?tab=configuration")
    backoff = page.locator("#option-retryBackoff")
    await backoff.fill("")
    await backoff.press_sequentially("1.05")
    await expect(backoff).to_have_value("1.05")
    schema = page.locator("#option-schema")
    await schema.fill("{}")
    await schema.press("ArrowLeft")
    await schema.press_sequentially('"maxProperties":12')
    await expect(schema).to_have_value('{"maxProperties":12}')
    await page.locator("#option-leaseTime").press_sequentially("e")
    await expect(page.get_by_role("alert")).to_contain_text("Enter a number")
    await expect(page.get_by_role("button", name="Review and save")).to_be_disabled()
    await page.locator("#option-leaseTime").fill("60")
    await page.get_by_role("button", name="Review and save").click()
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    options = (await demo.get("/resources/queues/typed")).body["options"]
    assert (options["retryBackoff"], options["leaseTime"]) == (1.05, 60)
    assert options["schema"] == {"maxProperties": 12}


async def test_changes_by_another_user_are_not_overwritten(page: Page, demo: Server) -> None:
    await fill(demo, "contested")
    await page.goto(f"{demo.base_url}/queues/contested?tab=configuration")
    await page.locator("#option-retryLimit").fill("9")
    await demo.post("/configure", {"queue": "contested", "options": {"leaseTime": 77}})
    await page.get_by_role("button", name="Review and save").click()
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("version")
    assert (await demo.get("/resources/queues/contested")).body["options"]["retryLimit"] == 3


async def test_a_queue_is_paused_and_resumed(page: Page, demo: Server) -> None:
    await fill(demo, "paused")
    await page.goto(f"{demo.base_url}/queues/paused")
    await page.get_by_role("button", name="Pause", exact=True).click()
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(page.locator("[data-trouble=paused]")).to_be_visible()
    assert (await demo.get("/resources/queues/paused")).body["paused"] is True
    await page.get_by_role("button", name="Resume", exact=True).click()
    await page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    await expect(page.locator("[data-trouble=paused]")).to_have_count(0)


async def test_a_dialog_performs_the_action_that_opened_it(page: Page, demo: Server) -> None:
    await fill(demo, "twice")
    await page.goto(f"{demo.base_url}/queues/twice")
    await page.get_by_role("button", name="Pause", exact=True).click()
    assert (await demo.post("/resources/queues/twice/pause", {})).status == 200
    # The page behind the dialog shows the new state.
    await expect(page.locator("[data-trouble=paused]")).to_be_attached(timeout=20_000)
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert (await demo.get("/resources/queues/twice")).body["paused"] is True


async def test_a_purge_requires_the_name_and_shows_its_progress(page: Page, demo: Server) -> None:
    await fill(demo, "purged", 20)
    await page.goto(f"{demo.base_url}/queues/purged")
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Purge").click()
    purge = page.get_by_role("dialog").get_by_role("button", name="Purge", exact=True)
    dry = page.get_by_role("dialog").locator("[data-dry-run]")
    await expect(dry).to_have_text("Messages to delete: 0.")
    await page.get_by_role("radio", name="All", exact=True).check()
    await expect(dry).to_have_text("Messages to delete: 20.")
    await expect(purge).to_be_disabled()
    await page.get_by_label("to confirm").fill("purge")
    await expect(purge).to_be_disabled()
    await page.get_by_label("to confirm").fill("purged")
    await purge.click()
    await expect(page.locator("[data-operation=done]")).to_be_visible()
    await expect(page.locator("[data-tile=Pending] [data-value]")).to_have_text("0")


async def test_a_deleted_queue_disappears(page: Page, demo: Server) -> None:
    await fill(demo, "deleted")
    await page.goto(f"{demo.base_url}/queues/deleted")
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_label("to confirm").fill("deleted")
    await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    await expect(page.locator("[data-operation]")).to_contain_text("deleted")
    await page.goto(f"{demo.base_url}/queues/deleted")
    await expect(page.locator("[data-failure=missing]")).to_be_visible()


async def test_a_message_is_pushed_as_typed(page: Page, demo: Server) -> None:
    await fill(demo, "pushed", 1)
    await page.goto(f"{demo.base_url}/queues/pushed")
    await page.get_by_role("button", name="Push", exact=True).click()
    await page.get_by_label("Payload").fill("{oops")
    push = page.get_by_role("dialog").get_by_role("button", name="Push", exact=True)
    await expect(push).to_be_disabled()
    await page.get_by_label("Partition").fill("p/1")
    await page.get_by_label("Payload").fill('{"big": 12345678901234567890}')
    await push.click()
    await expect(page.locator("[data-pushed]")).to_contain_text("offset 0")
    async with demo.session.get(
        f"{demo.base_url}/api/v1/messages?queue=pushed&partition=p%2F1"
    ) as answer:
        assert '"big": 12345678901234567890' in await answer.text()


async def test_partitions_are_found_by_prefix_and_state_among_many(
    page: Page, demo: Server
) -> None:
    items = [{"queue": "wide", "partition": f"p-{n:05}", "payload": n} for n in range(5_000)]
    assert (await demo.post("/push", {"items": items})).status == 201
    await page.goto(f"{demo.base_url}/queues/wide?tab=partitions")
    await expect(page.locator("[data-row]").first).to_contain_text("p-00000")
    assert await page.locator("[data-row]").count() < 100
    await page.get_by_placeholder("Name starts with").fill("p-0499")
    await expect(page.locator("[data-row]")).to_have_count(10)
    await expect(page).to_have_url(re.compile("prefix=p-0499"))
    await page.get_by_label("State").select_option("idle")
    await expect(page.locator("[data-empty]")).to_contain_text("No matching partitions")


async def test_a_leased_delivery_is_released_by_force(page: Page, demo: Server) -> None:
    await fill(demo, "released", partition="eu")
    held = await demo.get("/pop/queue/released", consumerGroup="slow")
    await page.goto(f"{demo.base_url}/queues/released?tab=deliveries")
    await expect(page.locator("[data-row]")).to_contain_text("leased")
    await page.get_by_role("button", name="Release eu").click()
    await page.get_by_role("dialog").get_by_role("button", name="Release").click()
    await expect(page.locator("[data-row]")).to_contain_text("retrying")
    late = await demo.post(f"/lease/{held.body['messages'][0]['leaseId']}/extend", {})
    assert late.code == "lease_lost"


async def test_metrics_update_while_the_page_is_open(page: Page, demo: Server) -> None:
    await fill(demo, "moving", 1)
    await page.goto(f"{demo.base_url}/queues/moving")
    await expect(page.locator("[data-tile=Pending] [data-value]")).to_have_text("1")
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    await fill(demo, "moving", 4)
    await expect(page.locator("[data-tile=Pending] [data-value]")).to_have_text("5", timeout=20_000)


async def test_a_queue_whose_partitions_were_removed_shows_it(page: Page, demo: Server) -> None:
    await demo.post("/configure", {"queue": "bare"})

    async def is_there() -> bool:
        return (await demo.get("/resources/queues/bare")).status == 200

    await until(is_there)
    for tab in ("partitions", "groups", "deliveries"):
        await page.goto(f"{demo.base_url}/queues/bare?tab={tab}")
        await expect(page.locator("[data-empty]")).to_be_visible()


async def test_a_purge_by_age_keeps_younger_messages(page: Page, demo: Server) -> None:
    await fill(demo, "young", 4)
    await page.goto(f"{demo.base_url}/queues/young")
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Purge").click()
    await page.get_by_role("radio", name="All", exact=True).check()
    dry = page.get_by_role("dialog").locator("[data-dry-run]")
    await expect(dry).to_have_text("Messages to delete: 4.")
    await page.get_by_label("Only messages older than (hours)").fill("1")
    await expect(dry).to_have_text("Messages to delete: 0.")
    await page.get_by_label("to confirm").fill("young")
    await page.get_by_role("dialog").get_by_role("button", name="Purge", exact=True).click()
    await expect(page.locator("[data-operation=done]")).to_be_visible()
    assert (await demo.get("/resources/queues/young")).body["pending"] == 4


async def test_a_zoom_is_ended_and_a_preset_is_chosen(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/queues/demo.orders?range=6h")
    times = page.get_by_role("group", name="Time range")
    await times.get_by_role("button", name="24h").click()
    await expect(times.get_by_role("button", name="24h")).to_have_attribute("aria-pressed", "true")
    await expect(page).to_have_url(re.compile("range=24h"))
    await page.get_by_role("button", name="Custom range").click()
    await page.get_by_label("From").fill("-20h")
    await page.get_by_label("To", exact=True).fill("-2h")
    await page.get_by_role("button", name="Show", exact=True).click()
    await page.get_by_role("button", name="Clear zoom").click()
    await expect(page.locator("[data-zoom]")).to_have_count(0)
    assert "from=" not in page.url


async def test_changes_can_be_undone_before_they_are_saved(page: Page, demo: Server) -> None:
    await fill(demo, "undone")
    await page.goto(f"{demo.base_url}/queues/undone?tab=configuration")
    lease = page.locator("#option-leaseTime")
    await lease.fill("60")
    await page.locator("#option-encryptionEnabled").check()
    await expect(page.get_by_text("2 options changed")).to_be_visible()
    await page.get_by_role("button", name="Discard changes").click()
    await expect(lease).to_have_value("300")
    await expect(page.locator("#option-encryptionEnabled")).not_to_be_checked()
    await expect(page.get_by_role("button", name="Review and save")).to_have_count(0)


async def test_a_queue_links_to_its_messages_its_tail_and_its_groups(
    page: Page, demo: Server
) -> None:
    url = f"{demo.base_url}/queues/demo.exports"
    for link, path in {
        "Messages": "/messages?queue=demo.exports",
        "Follow": "/tail?queue=demo.exports",
    }.items():
        await page.goto(url)
        await page.locator("main").get_by_role("link", name=link, exact=True).click()
        await expect(page).to_have_url(demo.base_url + path)
        await expect(page.locator("[data-row]").first).to_be_visible()
    await page.goto(f"{url}?tab=groups")
    await page.get_by_role("link", name="exporter").click()
    await expect(page).to_have_url(f"{demo.base_url}/groups/exporter/queues/demo.exports")
    await expect(page.get_by_role("heading", name="exporter")).to_be_visible()


async def test_deliveries_can_be_filtered_by_group(page: Page, demo: Server) -> None:
    await fill(demo, "shared")
    for group in ("first", "second"):
        await demo.get("/pop/queue/shared", consumerGroup=group)
    await page.goto(f"{demo.base_url}/queues/shared?tab=deliveries")
    rows = page.get_by_role("table", name="Deliveries").locator("[data-row]")
    await expect(rows).to_have_count(2)
    await page.get_by_label("Group").select_option("second")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("second")
    await expect(page).to_have_url(re.compile("group=second"))
    await page.reload()
    await expect(rows).to_have_count(1)
    await expect(page.get_by_label("Group")).to_have_value("second")


async def test_a_finished_operation_can_be_dismissed(page: Page, demo: Server) -> None:
    await fill(demo, "dismissed")
    await page.goto(f"{demo.base_url}/queues/dismissed")
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_label("to confirm").fill("dismissed")
    await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    card = page.get_by_role("region", name="Operations").locator("[data-operation=done]")
    await card.get_by_role("button", name="Dismiss").click()
    await expect(page.locator("[data-operation]")).to_have_count(0)


async def test_a_rejected_push_shows_an_error_and_can_be_corrected(
    page: Page, demo: Server
) -> None:
    schema = {"type": "object", "required": ["n"]}
    made = {"queue": "strict", "options": {"schema": schema}}
    assert (await demo.post("/configure", made)).status == 200
    await page.goto(f"{demo.base_url}/queues/strict")
    await page.get_by_role("button", name="Push", exact=True).click()
    dialog = page.get_by_role("dialog")
    push = dialog.get_by_role("button", name="Push", exact=True)
    await dialog.get_by_label("Payload").fill("{}")
    await push.click()
    await expect(dialog.get_by_role("alert")).to_be_visible()
    await dialog.get_by_label("Payload").fill('{"n": 1}')
    await push.click()
    await expect(dialog.locator("[data-pushed]")).to_contain_text("offset 0")
    await expect(dialog.get_by_role("alert")).to_have_count(0)
    await dialog.get_by_role("button", name="Close", exact=True).last.click()
    await expect(dialog).to_have_count(0)
    found = await demo.get("/messages", queue="strict")
    assert [each["data"] for each in found.body["messages"]] == [{"n": 1}]


async def test_a_schema_keeps_every_digit(page: Page, demo: Server) -> None:
    schema = {"properties": {"id": {"maximum": 2**63 + 1, "minimum": 1}}}
    made = {"queue": "exact", "options": {"schema": schema}}
    assert (await demo.post("/configure", made)).status == 200
    await page.goto(f"{demo.base_url}/queues/exact?tab=configuration")
    field = page.locator("#option-schema")
    await expect(field).to_have_value(json.dumps(schema, indent=2))
    # In JavaScript, 2^53 and the next integer are equal.
    for maximum in (2**53, 2**53 + 1):
        before = schema["properties"]["id"]["maximum"]
        schema["properties"]["id"]["maximum"] = maximum
        await field.fill(json.dumps(schema))
        await page.get_by_role("button", name="Review and save").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.locator("ins")).to_contain_text(f'"maximum": {maximum}')
        await expect(dialog.locator("del")).to_contain_text(f'"maximum": {before}')
        await dialog.get_by_role("button", name="Save", exact=True).click()
        await expect(dialog).to_have_count(0)
        await expect(page.get_by_role("button", name="Review and save")).to_have_count(0)
        await expect(field).to_have_value(json.dumps(schema, indent=2))
        found = await demo.get("/resources/queues/exact")
        assert found.body["options"]["schema"] == schema
    await field.fill("false")
    await page.get_by_role("button", name="Review and save").click()
    await page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_role("button", name="Review and save")).to_have_count(0)
    await page.reload()
    await expect(field).to_have_value("false")
