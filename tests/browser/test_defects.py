"""Known defects of other dashboards, each with a test."""

import json
import re
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

ODD = ["a/b.c", "50%25 off", "ünï/./côdé?x=1#y", "<img src=x onerror=alert(1)>", "a b+c&d"]
SCRIPT = "<script>window.broken = true</script><img src=x onerror='window.broken = true'>"


async def push(server: Server, queue: str, payload: object = 1, **fields: object) -> None:
    item = {"queue": queue, "payload": payload, **fields}
    assert (await server.post("/push", {"items": [item]})).status == 201


@pytest.mark.nightly
@pytest.mark.parametrize("name", ODD)
async def test_any_name_has_its_own_page(page: Page, empty: Server, name: str) -> None:
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
    told = {**{name: message[name] for name in names}, "status": "dlq", "error": SCRIPT}
    assert (await empty.post("/ack", told)).status == 200
    trace = {
        "transactionId": message["transactionId"],
        "partitionId": message["partitionId"],
        "data": {"text": SCRIPT},
        "eventType": SCRIPT[:60],
        "traceName": SCRIPT[:200],
    }
    assert (await empty.post("/traces", trace)).status == 201
    here, group = quote(queue, safe=""), quote(SCRIPT, safe="")
    for path in (
        "/",
        f"/messages?queue={here}&q={group}",
        f"/messages?queue={here}",
        f"/messages/{message['id']}",
        f"/compare?a={message['id']}&b={message['id']}",
        f"/tail?queue={here}",
        f"/dead-letters?queue={here}",
        "/groups",
        f"/groups/{group}/queues/{here}",
        "/traces",
        f"/traces/{quote(SCRIPT[:200], safe='')}",
        f"/analytics?queue={here}&namespace={group}",
        f"/jobs?queue={here}&name={group}",
        f"/system?tab=audit&actor={group}",
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


@pytest.mark.nightly
async def test_a_delayed_message_never_shows_a_negative_wait(page: Page, empty: Server) -> None:
    await push(empty, "later", delaySeconds=3_600)
    await empty.post("/configure", {"queue": "delayed", "options": {"delayedProcessing": 3_600}})
    await push(empty, "delayed")
    for queue in ("later", "delayed"):
        await page.goto(f"{empty.base_url}/queues/{queue}?tab=partitions")
        await expect(page.locator("[data-row]")).to_be_visible()
        assert re.search(r"-\d", await page.locator("main").inner_text()) is None


@pytest.mark.nightly
async def test_a_range_in_the_url_is_bounded_or_rejected_with_a_message(
    page: Page, empty: Server
) -> None:
    await push(empty, "ranged")
    wide = "from=1990-01-01T00:00:00Z&to=2020-01-01T00:00:00Z"
    await page.goto(f"{empty.base_url}/queues/ranged?{wide}")
    await expect(page.locator("[data-failure=failed]")).to_contain_text("ask for less")
    await page.goto(f"{empty.base_url}/queues/ranged?range=99999d&from=x&to=y")
    await expect(page.locator("[data-chart]").first).to_be_visible()


@pytest.mark.nightly
async def test_filters_of_a_tab_survive_a_reload(page: Page, empty: Server) -> None:
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


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("path", "again"),
    [("/traces?prefix=nothing", "Traces"), ("/queues/shown?tab=partitions&prefix=x", "partitions")],
)
async def test_a_filter_that_was_removed_from_the_url_is_not_shown(
    page: Page, empty: Server, path: str, again: str
) -> None:
    await push(empty, "shown")
    await page.goto(empty.base_url + path)
    await expect(page.locator("[data-empty]")).to_be_visible()
    await page.get_by_role("link", name=again, exact=True).click()
    await expect(page.locator("input[data-search]")).to_have_value("")
    assert "prefix=" not in page.url


async def test_a_cron_expression_that_needs_much_memory_is_rejected(
    page: Page, empty: Server
) -> None:
    await page.goto(empty.base_url)
    for cron in ("0-99999999999 * * * *", "*/0 * * * *", ",".join(["0-59"] * 5_000) + " * * * *"):
        body = {"name": "n", "queue": "q", "cron": cron, "payload": 1}
        reply = await empty.post("/schedules", body)
        assert (reply.status, reply.code) == (400, "invalid_option"), cron[:30]


async def test_viewing_messages_leases_none(page: Page, empty: Server) -> None:
    await push(empty, "watched")
    for tab in ("charts", "partitions", "groups", "deliveries"):
        await page.goto(f"{empty.base_url}/queues/watched?tab={tab}")
        await page.wait_for_load_state("networkidle")
    for page_of in ("messages", "tail", "dead-letters", "analytics"):
        await page.goto(f"{empty.base_url}/{page_of}?queue=watched")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
    queue = (await empty.get("/resources/queues/watched")).body
    assert (queue["held"], queue["consumerGroups"], queue["pending"]) == (0, 0, 1)


async def told(server: Server, dashboards: int, frames: int = 6) -> float:
    """The number of statements while `dashboards` dashboards received `frames` frames."""
    url = f"{server.base_url}/ws/dashboard"
    sockets = [await server.session.ws_connect(url) for _ in range(dashboards)]
    try:
        for socket in sockets:
            await socket.send_json({"subscribe": ["system.stats"]})
            await socket.receive_json()
        before = await statements(server)
        for _ in range(frames):
            for socket in sockets:
                await socket.receive_json()
        return await statements(server) - before
    finally:
        for socket in sockets:
            await socket.close()


async def statements(server: Server) -> float:
    async with server.session.get(f"{server.base_url}/metrics") as answer:
        text = await answer.text()
    found = re.findall(r"^queen_db_call_seconds_count\{[^}]*\} (\S+)", text, re.MULTILINE)
    return sum(map(float, found))


@pytest.mark.nightly
async def test_more_dashboards_send_no_more_statements(empty: Server) -> None:
    one, many = await told(empty, 1), await told(empty, 20)
    assert many <= one * 1.5 + 10
