"""Search messages by filter or one by one, without consuming them."""

from typing import Any

import pytest

from tests.support.clock import Clock
from tests.support.server import Server
from tests.support.verbs import bury, pages, pop, push, settle


async def find(server: Server, **parameters: str | int) -> list[Any]:
    """The payloads that a search returns for the queue `orders`."""
    reply = await server.get("/messages", queue="orders", **parameters)
    assert reply.status == 200, reply
    return [each["data"] for each in reply.body["messages"]]


async def test_messages_are_listed_newest_first_in_pages(server: Server) -> None:
    for n in range(3):
        await push(server, "orders", f"{n}a", f"{n}b", partition=f"p{n}")

    found = await pages(server, "/messages", "messages", queue="orders", limit=4)

    values = [[each["data"] for each in page] for page in found]
    assert values[0] == ["2b", "2a", "1b", "1a"]
    assert [value for page in values for value in page][4:] == ["0b", "0a"]


async def test_a_message_shows_all_its_fields(server: Server) -> None:
    (pushed,) = await push(
        server, "orders", {"big": 2**70}, transactionId="t", headers={"k": "v"}, traceId="x"
    )

    body = (await server.get("/messages", queue="orders")).body

    (message,) = body["messages"]
    assert (body["scanned"], body["complete"], body["nextCursor"]) == (1, True, None)
    assert message["id"] == pushed["id"]
    assert (message["transactionId"], message["data"]) == ("t", {"big": 2**70})
    assert (message["headers"], message["traceId"]) == ({"k": "v"}, "x")
    assert (message["partition"], message["offset"], message["status"]) == ("Default", 0, "pending")


async def test_browsing_leases_no_messages(server: Server) -> None:
    await push(server, "orders", 1)

    assert await find(server) == [1]
    assert await find(server) == [1]
    assert len(await pop(server, "orders")) == 1


async def test_messages_are_filtered_by_their_status_in_a_group(
    server: Server, clock: Clock
) -> None:
    await server.post("/configure", {"queue": "orders", "options": {"retryDelay": 600_000}})
    for name in ("completed", "failed", "processing", "dead_letter", "pending"):
        await push(server, "orders", name, partition=name)
    for name in ("completed", "failed", "processing", "dead_letter"):
        (message,) = await pop(server, f"orders/partition/{name}", consumerGroup="g")
        status = {"dead_letter": "dlq"}.get(name, name)
        if status != "processing":
            await settle(server, message, status)
    await push(server, "orders", "scheduled", delaySeconds=60)

    for name in ("completed", "failed", "processing", "dead_letter", "pending", "scheduled"):
        assert await find(server, status=name, consumerGroup="g") == [name]
        assert await find(server, status=name) == [name]
    await clock.advance(seconds=301)
    assert await find(server, status="failed", consumerGroup="g") == ["processing", "failed"]


async def test_messages_behind_a_failed_one_are_pending(server: Server) -> None:
    await push(server, "orders", 1, 2, 3)
    first, _, _ = await pop(server, "orders", batch=3)
    await settle(server, first, "failed")

    assert await find(server, status="failed") == [1]
    assert await find(server, status="pending") == [3, 2]


async def test_without_a_group_the_most_active_status_is_shown(server: Server) -> None:
    await push(server, "orders", 1)
    (message,) = await pop(server, "orders", consumerGroup="g")
    await settle(server, message)
    assert await find(server, status="completed") == [1]

    await pop(server, "orders", consumerGroup="h")

    assert await find(server, status="completed") == []
    assert await find(server, status="processing") == [1]
    assert await find(server, status="completed", consumerGroup="g") == [1]


async def test_messages_are_filtered_by_partition_time_transaction_id_and_content(
    server: Server, clock: Clock
) -> None:
    await push(server, "orders", {"city": "Köln"}, partition="a", transactionId="t1")
    await clock.advance(seconds=100)
    await push(server, "orders", {"city": "Paris"}, partition="b", transactionId="t2")

    köln, paris = {"city": "Köln"}, {"city": "Paris"}
    at = {"from": "2030-01-01T00:00:50Z"}
    assert await find(server, partition="a") == [köln]
    assert await find(server, partition="nothing") == []
    assert await find(server, **at) == [paris]
    assert await find(server, partition="b", **at) == [paris]
    assert await find(server, to="2030-01-01T00:00:50Z") == [köln]
    assert await find(server, transactionId="t1") == [köln]
    assert await find(server, contains="Köln") == [köln]
    assert await find(server, contains="city") == [paris, köln]
    assert await find(server, contains="%") == []


async def test_messages_are_filtered_by_payload_path(server: Server) -> None:
    big = {"customer": {"id": 12345678901234567890}, "lines": [{"sku": "a"}, {"sku": "ö"}]}
    text = {"customer": {"id": "42"}, "paid": True}
    await push(server, "orders", big)
    await push(server, "orders", text)
    await push(server, "orders", [1, {"paid": 1}])
    await push(server, "orders", {"paid": "later"}, delaySeconds=60)

    assert await find(server, where="customer.id=12345678901234567890") == [big]
    assert await find(server, where="customer.id=12345678901234567891") == []
    assert await find(server, where="customer.id=42") == [text]
    assert await find(server, where='customer.id="42"') == [text]
    assert await find(server, where="lines.1.sku=ö") == [big]
    assert await find(server, where="lines.7.sku=ö") == []
    assert await find(server, where="paid=true") == [text]
    assert await find(server, where="paid=1") == []
    assert await find(server, where="1.paid=1") == [[1, {"paid": 1}]]
    assert await find(server, where="paid=later", status="scheduled") == [{"paid": "later"}]
    assert await find(server, where="customer.id=42", contains="paid") == [text]


async def test_messages_of_a_partition_are_listed_by_priority(server: Server) -> None:
    await server.post("/configure", {"queue": "orders", "options": {"ordered": False}})
    for priority in (0, 9, 5, 9):
        await push(server, "orders", priority, priority=priority)

    found = await pages(
        server, "/messages", "messages", queue="orders", partition="Default", limit=1
    )

    assert [each["priority"] for page in found for each in page] == [9, 9, 5, 0]


async def test_scheduled_messages_are_listed_in_order_of_their_time(
    server: Server, clock: Clock
) -> None:
    for seconds in (300, 100, 200):
        times = {"delaySeconds": seconds, "ttlSeconds": 60 if seconds == 100 else None}
        await push(server, "orders", seconds, partition=f"p{seconds}", **times)
    search = {"queue": "orders", "status": "scheduled"}

    found = await pages(server, "/messages", "messages", **search, limit=2)

    flat = [each for page in found for each in page]
    assert [each["data"] for each in flat] == [100, 200, 300]
    assert (flat[0]["id"], flat[0]["offset"], flat[0]["createdAt"]) == (None, None, None)
    assert flat[0]["availableAt"].startswith("2030-01-01T00:01:40")
    assert flat[0]["expiresAt"].startswith("2030-01-01T00:02:40")
    assert flat[1]["expiresAt"] is None
    assert await find(server, status="scheduled", partition="p200") == [200]
    assert await find(server, status="scheduled", to="2030-01-01T00:03:00Z") == [100]
    assert await find(server, status="scheduled", contains="300") == [300]
    assert await find(server) == []


async def test_a_search_reads_at_most_five_thousand_messages(server: Server) -> None:
    item = {"queue": "orders", "payload": 0}
    await push(server, "orders", "needle")
    assert (await server.post("/push", {"items": [item] * 5_000})).status == 201

    wanted = {"queue": "orders", "contains": "needle"}
    found: list[Any] = []
    looked_at: list[int] = []
    is_complete = False
    while not is_complete:
        page = (await server.get("/messages", **wanted)).body
        wanted["cursor"], is_complete = page["nextCursor"], page["complete"]
        found += page["messages"]
        looked_at.append(page["scanned"])

    # One page of 5,000, or several on a slow machine, and the rest.
    assert sum(looked_at) == 5_001
    assert len(looked_at) > 1
    assert max(looked_at) <= 5_000
    assert [each["data"] for each in found] == ["needle"]


async def test_a_page_ends_before_its_response_is_too_large(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_POP_BYTES": "1000"}) as server:
        await push(server, "orders", *["x" * 600] * 5)

        found = await pages(server, "/messages", "messages", queue="orders")

        assert [len(page) for page in found] == [2, 2, 1]


async def test_a_message_is_found_by_id_and_transaction_id(server: Server) -> None:
    (named,) = await push(server, "orders", 1, transactionId="a/b")
    (plain,) = await push(server, "orders", 2)

    by_id = await server.get(f"/messages/{named['id']}")
    by_name = await server.get(f"/messages/{named['partitionId']}/a%2Fb")
    by_own_id = await server.get(f"/messages/{plain['partitionId']}/{plain['id']}")

    assert by_id.body == by_name.body
    assert (by_id.body["data"], by_own_id.body["data"]) == (1, 2)


@pytest.mark.parametrize("name", ["retry", "dlq", "names"])
async def test_a_transaction_id_may_be_a_word_of_the_path(server: Server, name: str) -> None:
    (pushed,) = await push(server, "orders", 1, transactionId=name)
    path = f"/messages/{pushed['partitionId']}/{name}"

    assert (await server.get(path)).body["id"] == pushed["id"]
    assert (await server.post(f"{path}/retry")).code == "group_not_found"
    assert (await server.delete(path)).body["redacted"] is True


async def test_without_deduplication_the_newest_match_of_a_transaction_id_is_found(
    server: Server,
) -> None:
    await server.post("/configure", {"queue": "orders", "options": {"dedupWindowSeconds": 0}})
    first, second = await push(server, "orders", 1, 2, transactionId="same")

    body = (await server.get(f"/messages/{first['partitionId']}/same")).body

    assert body["id"] == second["id"]


async def test_a_message_shows_its_status_in_each_group(server: Server) -> None:
    (pushed,) = await push(server, "orders", 1)
    (message,) = await pop(server, "orders", consumerGroup="done")
    await settle(server, message)
    (message,) = await pop(server, "orders", consumerGroup="waits")
    await settle(server, message, "failed", error="why")
    await pop(server, "orders", consumerGroup="holds")
    letter = await bury(server, "orders", "late", consumerGroup="dead")
    trace = {"transactionId": pushed["id"], "partitionId": pushed["partitionId"], "data": 1}
    await server.post("/traces", trace)

    body = (await server.get(f"/messages/{pushed['id']}")).body

    groups = {each["consumerGroup"]: each for each in body["groups"]}
    assert {name: (each["status"], each["attempts"]) for name, each in groups.items()} == {
        "done": ("completed", 0),
        "waits": ("failed", 1),
        "holds": ("processing", 1),
        "dead": ("dead_letter", 1),
    }
    assert (groups["waits"]["error"], groups["dead"]["error"]) == ("why", "late")
    assert groups["waits"]["nextAttemptAt"] is not None
    assert groups["holds"]["leaseExpiresAt"] is not None
    assert groups["dead"]["deadLetterId"] == letter["id"]
    assert [each["data"] for each in body["traces"]] == [1]


async def test_a_scheduled_message_is_found_by_its_transaction_id(server: Server) -> None:
    (mine,) = await push(server, "orders", 1, delaySeconds=60, transactionId="t")
    (minted,) = await push(server, "orders", 2, delaySeconds=60)

    for pushed, data in ((mine, 1), (minted, 2)):
        path = f"/messages/{pushed['partitionId']}/{pushed['transactionId']}"
        body = (await server.get(path)).body
        assert (body["data"], body["status"], body["groups"]) == (data, "scheduled", [])


async def test_a_dead_letter_survives_its_segment(server: Server) -> None:
    (pushed,) = await push(server, "orders", 1, transactionId="t")
    await bury(server, "orders")
    await push(server, "orders", 2)
    await server.post("/resources/queues/orders/purge", {"scope": "all"})

    async def status() -> str:
        return (await server.get(f"/messages/{pushed['id']}")).body["status"]

    assert await status() == "dead_letter"


@pytest.mark.parametrize(
    "path",
    [
        "/messages/nonsense",
        "/messages/00000000-0fff-8000-8000-000000000000",
        "/messages/00000000-0001-8000-8000-0000000000ff",
        "/messages/0.4711/t",
        "/messages/0.1/t",
        "/messages/odd/t",
    ],
)
async def test_a_missing_message_is_not_found(server: Server, path: str) -> None:
    await push(server, "orders", 1)
    await pop(server, "orders")

    for method, suffix in (("GET", ""), ("POST", "/retry"), ("POST", "/dlq"), ("DELETE", "")):
        reply = await server.request(method, f"{path}{suffix}")
        assert (reply.status, reply.code) == (404, "message_not_found"), (method, suffix)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"queue": ""},
        {"queue": "orders", "status": "odd"},
        {"queue": "orders", "from": "yesterday"},
        {"queue": "orders", "to": "2030-01-01T00:00:00"},
        {"queue": "orders", "cursor": "WzFd"},
        {"queue": "orders", "grep": "x"},
        {"queue": "orders", "contains": "\x00"},
        {"queue": "orders", "where": "no-value"},
        {"queue": "orders", "where": "=1"},
        {"queue": "orders", "where": "a..b=1"},
        {"queue": "orders", "where": ".".join("a" * 17) + "=1"},
    ],
)
async def test_a_malformed_search_is_rejected(server: Server, parameters: dict[str, str]) -> None:
    await push(server, "orders", 1)

    assert (await server.get("/messages", **parameters)).code == "bad_request"


async def test_a_search_needs_an_existing_queue_and_group(server: Server) -> None:
    await push(server, "orders", 1)

    assert (await server.get("/messages", queue="nothing")).code == "queue_not_found"
    gone = await server.get("/messages", queue="orders", consumerGroup="g")
    assert gone.code == "group_not_found"
