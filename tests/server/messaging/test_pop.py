"""Pop over HTTP: source, batch size, group and order."""

import asyncio
from datetime import datetime, timedelta
from urllib.parse import quote

import asyncpg
import pytest

from tests.support.calls import a_queue, configure, data, pop, pop_one, posted, push, settle, spoken
from tests.support.clock import Clock
from tests.support.server import Server

FIELDS = {
    "id",
    "transactionId",
    "queue",
    "partition",
    "data",
    "retryCount",
    "priority",
    "createdAt",
    "options",
    "partitionId",
    "leaseId",
    "leaseExpiresAt",
    "consumerGroup",
    "attempt",
    "offset",
    "headers",
    "traceId",
}


async def test_a_message_has_all_documented_fields(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, leaseTime=1.5, retryLimit=7)
    (pushed,) = await push(shared, queue, {"n": 1}, transactionId='t"1\u2028', partition="c42")

    message = await pop_one(shared, queue)

    assert set(message) == FIELDS
    assert {name: message[name] for name in ("id", "partitionId", "offset")} == {
        name: pushed[name] for name in ("id", "partitionId", "offset")
    }
    assert (message["queue"], message["partition"], message["data"]) == (queue, "c42", {"n": 1})
    assert message["transactionId"] == 't"1\u2028'
    assert (message["retryCount"], message["attempt"], message["priority"]) == (0, 1, 0)
    assert message["options"] == {"leaseTime": 1.5, "retryLimit": 7}
    assert (message["consumerGroup"], message["headers"], message["traceId"]) == (None, {}, None)
    created, until_ = map(datetime.fromisoformat, (message["createdAt"], message["leaseExpiresAt"]))
    assert message["createdAt"].endswith("Z")
    assert timedelta(0) < until_ - created < timedelta(seconds=60)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("where", ["queue", "partition", "namespace", "task", "both"])
async def test_every_form_of_a_pop_source_works(shared: Server, method: str, where: str) -> None:
    queue = f"{a_queue()}/b.c d"
    scope = {"namespace": f"n-{queue}", "task": f"t-{queue}"}
    assert (await shared.post("/configure", {"queue": queue, **scope})).status == 200
    await push(shared, queue, "mine", partition="p/1")
    path = {
        "queue": f"/pop/queue/{quote(queue, safe='')}",
        "partition": f"/pop/queue/{quote(queue, safe='')}/partition/p%2F1",
    }.get(where, "/pop")
    parameters = {} if path != "/pop" else scope if where == "both" else {where: scope[where]}

    if method == "GET":
        reply = await shared.request("GET", path, parameters={**parameters, "batch": 5})
    else:
        reply = await shared.post(path, {**parameters, "batch": 5})

    assert data(reply.body["messages"]) == ["mine"]


async def test_the_body_names_the_source_if_a_proxy_removes_slashes(shared: Server) -> None:
    queue = f"{a_queue()}/x"
    await push(shared, queue, 1, partition="a")
    await push(shared, queue, 2, partition="b")

    reply = await shared.post("/pop", {"queue": queue, "partition": "b"})

    assert data(reply.body["messages"]) == [2]


async def test_an_empty_pop_returns_no_body(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue)

    head, body = await spoken(shared, posted(f"/pop/queue/{queue}", b"{}"))

    assert head.startswith(b"HTTP/1.1 204 ")
    assert b"content-length" not in head.lower()
    assert b"cache-control: no-store" in head.lower()
    assert body == b""


async def test_a_batch_has_one_partition_unless_more_are_requested(shared: Server) -> None:
    queue = a_queue()
    for number in range(6):
        await push(shared, queue, number, partition=f"p{number % 2}")

    first = await pop(shared, queue, batch=4)
    assert len({each["leaseId"] for each in first}) == 1
    assert len(first) == 3

    queue = a_queue()
    for number in range(6):
        await push(shared, queue, number, partition=f"p{number % 2}")
    both = await pop(shared, queue, batch=4, partitions=2)
    assert len(both) == 4
    assert len({each["leaseId"] for each in both}) == 2
    names = [each["partition"] for each in both]
    # Messages of a partition are contiguous and in order.
    assert names == sorted(names) or names == sorted(names, reverse=True)
    for name in set(names):
        of_one = [each["offset"] for each in both if each["partition"] == name]
        assert of_one == sorted(of_one)


async def test_a_batch_is_limited_to_the_maximum(dsn: str) -> None:
    limits = {"QUEEN_MAX_BATCH": "2", "QUEEN_MAX_POP_PARTITIONS": "1", "MAX_TIMEOUT": "50"}
    async with Server(dsn, limits) as server:
        await push(server, "q", *range(5), partition="a")
        await push(server, "q", *range(5), partition="b")

        assert len(await pop(server, "q", batch=10**9, partitions=10**9)) == 2
        await configure(server, "empty")
        async with asyncio.timeout(5):
            assert await pop(server, "empty", wait=True, timeout=10**9) == []


async def test_a_response_is_limited_in_bytes_to_at_least_one_message(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_POP_BYTES": "1000"}) as server:
        await push(server, "q", *["x" * 400 for _ in range(5)])
        await push(server, "large", "y" * 5000, 1)

        assert len(await pop(server, "q", batch=5)) <= 2
        assert len(await pop(server, "large", batch=5)) == 1


async def test_a_group_may_be_named_null(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)

    reply = await shared.get(f"/pop/queue/{queue}", consumerGroup="null")

    assert reply.body["messages"][0]["consumerGroup"] == "null"


async def test_each_group_receives_every_message(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)

    for group in ("a", "b", None, "__QUEUE_MODE__"):
        messages = await pop(shared, queue, batch=10, consumerGroup=group)
        # Queue mode has two names for one group.
        assert data(messages) == ([] if group == "__QUEUE_MODE__" else [1, 2])
        assert {each["consumerGroup"] for each in messages} <= {group}


@pytest.mark.parametrize("group", [None, "__QUEUE_MODE__"])
async def test_queue_mode_shows_no_group(shared: Server, group: str | None) -> None:
    queue = a_queue()
    await push(shared, queue, 1)

    assert (await pop_one(shared, queue, consumerGroup=group))["consumerGroup"] is None


async def test_auto_ack_settles_before_the_response(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 1)

        message = await pop_one(server, "q", autoAck=True)

        assert (message["leaseId"], message["leaseExpiresAt"]) == (None, None)
        server.kill()
        await server.start()
        await clock.advance(seconds=10_000)
        assert await pop(server, "q") == []


@pytest.mark.parametrize(
    ("start", "seen"),
    [
        ({}, ["old", "new"]),
        ({"subscriptionMode": "all"}, ["old", "new"]),
        ({"subscriptionMode": "earliest"}, ["old", "new"]),
        ({"subscriptionMode": "new"}, ["new"]),
        ({"subscriptionMode": "latest"}, ["new"]),
        ({"subscriptionMode": "new-only"}, ["new"]),
        ({"subscriptionFrom": "now"}, ["new"]),
        ({"subscriptionFrom": "2020-01-01T00:00:00Z"}, ["old", "new"]),
        ({"subscriptionFrom": "2020-01-01T01:00:00+01:00"}, ["old", "new"]),
    ],
)
async def test_a_new_group_starts_at_the_requested_position(
    shared: Server, start: dict[str, str], seen: list[str]
) -> None:
    queue = a_queue()
    await push(shared, queue, "old")

    first = await pop(shared, queue, consumerGroup="g", autoAck=True, **start)
    await push(shared, queue, "new")
    then = await pop(shared, queue, consumerGroup="g", autoAck=True, **start)

    assert data(first + then) == seen


async def test_a_different_start_than_the_groups_first_one_is_a_conflict(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    await pop(shared, queue, consumerGroup="g", subscriptionMode="all")

    reply = await shared.post(
        f"/pop/queue/{queue}", {"consumerGroup": "g", "subscriptionMode": "new"}
    )

    assert (reply.status, reply.code) == (409, "subscription_conflict")


async def test_a_pops_lease_time_applies_to_its_delivery(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 1)
        await pop_one(server, "q", leaseSeconds=10)

        await clock.advance(seconds=11)
        # After the lease and its backoff.
        again = await pop_one(server, "q", wait=True, timeout=10_000)

        assert (again["attempt"], again["retryCount"]) == (2, 1)
        await clock.advance(seconds=11)
        assert await pop(server, "q") == []


async def test_an_unknown_queue_is_not_found_and_not_created(shared: Server) -> None:
    queue = a_queue()
    for method in ("GET", "POST"):
        reply = await shared.request(method, f"/pop/queue/{queue}")
        assert (reply.status, reply.code) == (404, "queue_not_found")


async def test_an_unknown_partition_is_empty(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)

    reply = await shared.get(f"/pop/queue/{queue}/partition/other")

    assert reply.status == 204


async def test_a_pop_of_a_paused_queue_reports_it(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    await configure(shared, queue, paused=True)

    reply = await shared.post(f"/pop/queue/{queue}", {})

    assert (reply.status, reply.headers["Queen-Reason"]) == (204, "paused")
    await configure(shared, queue, paused=False)
    assert data(await pop(shared, queue)) == [1]


async def test_the_queue_with_the_higher_priority_is_first(shared: Server) -> None:
    scope = a_queue()
    for priority in (0, 5, -5):
        options = {"priority": priority}
        body = {"queue": f"{scope}{priority}", "namespace": scope, "options": options}
        assert (await shared.post("/configure", body)).status == 200
        await push(shared, f"{scope}{priority}", priority)

    taken: list[object] = []
    for _ in range(3):
        reply = await shared.post("/pop", {"namespace": scope})
        taken += data(reply.body["messages"])

    assert taken == [5, 0, -5]


async def test_a_message_shows_the_priority_of_its_partition(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, partition="urgent")
    body = {"queue": queue, "partition": "urgent", "options": {"priority": 10}}
    assert (await shared.post("/configure", body)).status == 200

    message = await pop_one(shared, queue)

    assert message["priority"] == 10
    shown = await shared.get(f"/messages/{message['id']}")
    assert shown.body["priority"] == 10


async def test_the_partition_that_waits_longest_is_first(shared: Server) -> None:
    queue = a_queue()
    for name in ("b", "a", "c"):
        await push(shared, queue, name, partition=name)

    taken = [await pop_one(shared, queue) for _ in range(3)]

    assert data(taken) == ["b", "a", "c"]


async def test_an_ordered_partition_has_one_leased_delivery(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    first = await pop_one(shared, queue)

    assert await pop(shared, queue) == []
    await settle(shared, first)

    assert data(await pop(shared, queue)) == [2]


async def test_claimed_messages_are_returned_without_the_options_of_their_queue(
    dsn: str,
) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 1)
        connection = await asyncpg.connect(dsn)
        await connection.execute("update queen.queues set schema = '{\"type\": 5}'")
        await connection.close()
        server.kill()
        await server.start()

        reply = await server.get("/pop/queue/q", autoAck="true")

        assert reply.status == 200, reply.body
        assert data(reply.body["messages"]) == [1]
