"""Consumer groups: their lag and position, and seeks."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "bill/ing.v%1"


async def read_one(server: Server, queue: str) -> None:
    items = [{"queue": queue, "partition": f"p{n % 2}", "payload": n} for n in range(6)]
    assert (await server.post("/push", {"items": items})).status == 201
    body = {"queue": queue, "consumerGroup": GROUP, "autoAck": True, "batch": 1}
    assert (await server.post("/pop", body)).status == 200


async def payloads(server: Server, queue: str) -> list[int]:
    body = {"queue": queue, "consumerGroup": GROUP, "autoAck": True, "batch": 9, "partitions": 9}
    reply = await server.post("/pop", body)
    return [each["data"] for each in reply.body["messages"]] if reply.status == 200 else []


async def test_lag_is_shown_by_partition(page: Page, empty: Server) -> None:
    await read_one(empty, "lagging")
    await page.goto(f"{empty.base_url}/groups?queue=lagging")
    await page.get_by_role("link", name=GROUP).click()
    await expect(page.get_by_role("heading", name=GROUP)).to_be_visible()
    await expect(page.locator("[data-tile=Lag] [data-value]")).to_have_text("5")
    rows = page.get_by_role("table", name="Partitions").locator("[data-row]")
    await expect(rows).to_have_count(2)
    await page.reload()
    await expect(rows).to_have_count(2)
    await page.get_by_label("Lag").select_option("100")
    await expect(page.locator("[data-empty]")).to_be_visible()
    await expect(page).to_have_url(re.compile("minLag=100"))


async def test_a_group_seeks_to_the_start_after_its_queue_is_typed(
    page: Page, empty: Server
) -> None:
    await read_one(empty, "sought")
    await payloads(empty, "sought")
    await page.goto(f"{empty.base_url}/groups?queue=sought")
    await page.get_by_role("link", name=GROUP).click()
    await page.get_by_role("button", name="Seek", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("from the oldest stored message").check()
    seek = dialog.get_by_role("button", name="Seek")
    await expect(seek).to_be_disabled()
    await dialog.get_by_label("to confirm").fill("sought")
    await seek.click()
    await expect(page.locator("[data-tile=Lag] [data-value]")).to_have_text("6")
    assert sorted(await payloads(empty, "sought")) == [0, 1, 2, 3, 4, 5]


async def test_a_group_seeks_to_a_time(page: Page, empty: Server) -> None:
    await read_one(empty, "timed")
    late = {"queue": "timed", "partition": "p0", "payload": 99}
    assert (await empty.post("/push", {"items": [late]})).status == 201
    await payloads(empty, "timed")
    newest = (await empty.get("/messages", queue="timed", limit=1)).body["messages"][0]
    await page.goto(f"{empty.base_url}/groups?queue=timed")
    await page.get_by_role("link", name=GROUP).click()
    await page.get_by_role("button", name="Seek", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("from a time").check()
    await dialog.get_by_label("to confirm").fill("timed")
    await dialog.get_by_placeholder("-15m or").fill("never")
    await expect(dialog.get_by_role("button", name="Seek")).to_be_disabled()
    await dialog.get_by_placeholder("-15m or").fill(newest["createdAt"])
    await dialog.get_by_role("button", name="Seek").click()
    await expect(page.locator("[data-tile=Lag] [data-value]")).to_have_text("1")
    assert await payloads(empty, "timed") == [99]


async def test_one_partition_seeks_to_an_offset(page: Page, empty: Server) -> None:
    await read_one(empty, "offset")
    await payloads(empty, "offset")
    await page.goto(f"{empty.base_url}/groups?queue=offset")
    await page.get_by_role("link", name=GROUP).click()
    await page.get_by_role("button", name="Seek in p0").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("from an offset").check()
    await dialog.get_by_role("spinbutton", name="Offset").fill("1")
    await dialog.get_by_role("button", name="Seek").click()
    await expect(dialog).to_have_count(0)
    assert await payloads(empty, "offset") == [2, 4]


async def test_a_deleted_group_disappears(page: Page, empty: Server) -> None:
    await read_one(empty, "left")
    await page.goto(f"{empty.base_url}/groups?queue=left")
    await page.get_by_role("link", name=GROUP).click()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_label("to confirm").fill(GROUP)
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.locator("[data-empty]")).to_contain_text("No matching groups")
    found = await empty.get("/consumer-groups", queue="left")
    assert found.body["consumerGroups"] == []


async def test_a_group_seeks_to_the_end(page: Page, empty: Server) -> None:
    await read_one(empty, "skipped")
    await page.goto(f"{empty.base_url}/groups?queue=skipped")
    await page.get_by_role("link", name=GROUP).click()
    await page.get_by_role("button", name="Seek", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("with new messages only").check()
    await dialog.get_by_label("to confirm").fill("skipped")
    await dialog.get_by_role("button", name="Seek").click()
    await expect(page.locator("[data-tile=Lag] [data-value]")).to_have_text("0")
    assert await payloads(empty, "skipped") == []


async def test_lagging_groups_are_found(page: Page, empty: Server) -> None:
    await read_one(empty, "behind")
    await read_one(empty, "caught up")
    await payloads(empty, "caught up")
    await page.goto(f"{empty.base_url}/groups?queue=caught%20up")
    rows = page.get_by_role("table", name="Consumer groups").locator("[data-row]")
    await expect(rows).to_have_count(1)
    await page.get_by_label("Behind").select_option("1 hour or more")
    await expect(page.locator("[data-empty]")).to_contain_text("No matching groups")
    await expect(page).to_have_url(re.compile("behind=3600"))
    await page.get_by_label("Behind").select_option("any")
    await expect(rows).to_have_count(1)
    await page.get_by_role("link", name="caught up").click()
    await expect(page.get_by_role("heading", name="caught up")).to_be_visible()
