"""Defects of other dashboards, each once."""

import json
import re
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from tests.server.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="module")

ODD = ["a/b.c", "50%25 off", "ünï/./côdé?x=1#y", "<img src=x onerror=alert(1)>", "a b+c&d"]
SCRIPT = "<script>window.broken = true</script><img src=x onerror='window.broken = true'>"


async def push(server: Server, queue: str, payload: object = 1, **fields: object) -> None:
    item = {"queue": queue, "payload": payload, **fields}
    assert (await server.post("/push", {"items": [item]})).status == 201


@pytest.mark.parametrize("name", ODD)
async def test_any_name_has_a_page_of_its_own(page: Page, empty: Server, name: str) -> None:
    await push(empty, name, partition=name)
    await page.goto(f"{empty.base_url}/queues?search={quote(name, safe='')}")
    await page.get_by_role("link", name=name, exact=True).click()
    await expect(page.get_by_role("heading", name=name)).to_be_visible()
    await expect(page.locator("[data-tile=Pending] [data-value]")).to_have_text("1")
    await page.get_by_role("link", name="partitions").click()
    await expect(page.locator("[data-row]")).to_contain_text(name)
    await page.reload()
    await expect(page.get_by_role("heading", name=name)).to_be_visible()
    await expect(page.locator("[data-row]")).to_contain_text(name)


async def test_script_in_names_errors_and_filters_never_runs(page: Page, empty: Server) -> None:
    queue = SCRIPT[:200]
    await push(empty, queue, {"text": SCRIPT}, partition=SCRIPT, headers={"h": SCRIPT})
    popped = await empty.request("POST", "/pop", {"queue": queue, "consumerGroup": SCRIPT})
    (message,) = popped.body["messages"]
    names = ("transactionId", "partitionId", "leaseId", "consumerGroup")
    told = {**{name: message[name] for name in names}, "status": "failed", "error": SCRIPT}
    assert (await empty.post("/ack", told)).status == 200
    for path in (
        "/",
        f"/queues?search={quote(SCRIPT, safe='')}",
        *(
            f"/queues/{quote(queue, safe='')}?tab={tab}"
            for tab in ("charts", "partitions", "groups", "deliveries", "configuration")
        ),
    ):
        await page.goto(empty.base_url + path)
        await expect(page.get_by_role("heading").first).to_be_visible()
        await page.wait_for_load_state("networkidle")
        assert await page.evaluate("window.broken") is None


async def test_a_message_for_later_never_has_waited_a_negative_time(
    page: Page, empty: Server
) -> None:
    await push(empty, "later", delaySeconds=3_600)
    await empty.post("/configure", {"queue": "delayed", "options": {"delayedProcessing": 3_600}})
    await push(empty, "delayed")
    for queue in ("later", "delayed"):
        await page.goto(f"{empty.base_url}/queues/{queue}?tab=partitions")
        await expect(page.locator("[data-row]")).to_be_visible()
        assert re.search(r"-\d", await page.locator("main").inner_text()) is None


async def test_a_range_of_the_url_is_bounded_or_refused_and_told(page: Page, empty: Server) -> None:
    await push(empty, "ranged")
    wide = "from=1990-01-01T00:00:00Z&to=2020-01-01T00:00:00Z"
    await page.goto(f"{empty.base_url}/queues/ranged?{wide}")
    await expect(page.locator("[data-failure=failed]")).to_contain_text("ask for less")
    await page.goto(f"{empty.base_url}/queues/ranged?range=99999d&from=x&to=y")
    await expect(page.locator("[data-chart]").first).to_be_visible()


async def test_filters_of_a_tab_outlive_a_reload(page: Page, empty: Server) -> None:
    for partition in ("eu-1", "us-1"):
        await push(empty, "filtered", partition=partition)
    await page.goto(f"{empty.base_url}/queues/filtered?tab=partitions&prefix=eu&state=ready")
    await expect(page.locator("[data-row]")).to_have_count(1)
    await page.reload()
    await expect(page.locator("[data-row]")).to_have_count(1)
    await expect(page.get_by_label("State")).to_have_value("ready")
    assert json.dumps("eu") in await page.evaluate(
        "JSON.stringify([...document.querySelectorAll('input')].map(each => each.value))"
    )


async def test_looking_takes_no_delivery(page: Page, empty: Server) -> None:
    await push(empty, "watched")
    for tab in ("charts", "partitions", "groups", "deliveries"):
        await page.goto(f"{empty.base_url}/queues/watched?tab={tab}")
        await page.wait_for_load_state("networkidle")
    queue = (await empty.get("/resources/queues/watched")).body
    assert (queue["held"], queue["consumerGroups"], queue["pending"]) == (0, 0, 1)
