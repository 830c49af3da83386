"""Push over HTTP: storage, responses and rejections."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.support.calls import (
    a_queue,
    configure,
    data,
    held_partitions,
    items,
    pop,
    pop_one,
    posted,
    push,
    spoken,
    until_blocked,
)
from tests.support.clock import Clock
from tests.support.server import Server

ITEM_FIELDS = {"id", "transactionId", "status", "partitionId", "offset"}


async def test_a_push_returns_the_offset_of_each_item(shared: Server) -> None:
    queue = a_queue()

    reply = await shared.post("/push", {"items": items(queue, 1, 2)})

    assert reply.status == 201
    first, second = reply.body["messages"]
    assert set(first) >= ITEM_FIELDS
    assert (first["status"], first["offset"], second["offset"]) == ("queued", 0, 1)
    assert first["transactionId"] == first["id"] != second["id"]
    assert first["partitionId"] == second["partitionId"]


async def test_results_are_in_the_order_of_the_items(shared: Server) -> None:
    queue = a_queue()
    mixed = [
        {"queue": queue, "partition": f"p{number % 3}", "payload": number, "transactionId": f"t{n}"}
        for number, n in enumerate(range(30))
    ]

    reply = await shared.post("/push", {"items": mixed})

    answered = [message["transactionId"] for message in reply.body["messages"]]
    assert answered == [item["transactionId"] for item in mixed]


@pytest.mark.parametrize(
    "payload",
    [
        b"null",
        b"true",
        b"0",
        b'""',
        b"[]",
        b'{"b":1,"a":2,"b":3}',
        b"123456789012345678901234567890.10",
        b'{ "spaces" : [ 1 , 2 ] }',
        '"\\u0000 \\ud83d\\ude00 ä 😀"'.encode(),
        b"1e131071",
    ],
)
async def test_a_payload_is_returned_byte_for_byte(shared: Server, payload: bytes) -> None:
    queue = a_queue()
    body = b'{"items":[{"queue":"%b","payload":%b}]}' % (queue.encode(), payload)
    head, _ = await spoken(shared, posted("/push", body))
    assert head.startswith(b"HTTP/1.1 201")

    _, popped = await spoken(shared, posted(f"/pop/queue/{queue}", b"{}"))

    assert b'"data":%b,' % payload in popped


async def test_the_default_partition_is_named_default(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)

    assert (await pop_one(shared, queue))["partition"] == "Default"


async def test_the_first_push_creates_queue_and_partition(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, partition="ä/b c")

    assert (await pop_one(shared, queue))["partition"] == "ä/b c"


async def test_without_auto_create_a_push_to_a_missing_queue_is_rejected(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_AUTO_CREATE": "false"}) as server:
        await configure(server, "there")
        both = items("there", 1) + items("absent", 2)

        reply = await server.post("/push", {"items": both})
        alone = await server.post("/push", {"items": items("absent", 3)})

        assert reply.status == 201
        assert [each["status"] for each in reply.body["messages"]] == ["queued", "failed"]
        assert reply.body["messages"][1]["code"] == "queue_not_found"
        assert (alone.status, alone.code, alone.body["applied"]) == (404, "queue_not_found", False)


async def test_a_transaction_id_is_stored_once_and_refers_to_the_first_message(
    shared: Server,
) -> None:
    queue = a_queue()
    (first,) = await push(shared, queue, 1, transactionId="t1")

    (second,) = await push(shared, queue, 2, transactionId="t1")

    assert second["status"] == "duplicate"
    assert (second["id"], second["offset"]) == (first["id"], first["offset"])
    assert data(await pop(shared, queue, batch=10)) == [1]


async def test_a_transaction_id_is_unique_per_partition(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, transactionId="t1", partition="a")

    (other,) = await push(shared, queue, 2, transactionId="t1", partition="b")

    assert other["status"] == "queued"


async def test_headers_and_trace_id_are_delivered_with_the_message(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, headers={"a": "ä", "": ""}, traceId="trace-1")

    message = await pop_one(shared, queue)

    assert (message["headers"], message["traceId"]) == ({"a": "ä", "": ""}, "trace-1")


async def test_a_trace_id_is_taken_from_traceparent_by_default(shared: Server) -> None:
    queue = a_queue()
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    both = [*items(queue, 1), *items(queue, 2, traceId="own")]
    for parent in (f"00-{trace}-00f067aa0ba902b7-01", "00-nonsense", f"00-{'z' * 32}-0-01"):
        reply = await shared.request(
            "POST", "/push", {"items": both}, headers={"traceparent": parent}
        )
        assert reply.status == 201

    messages = await pop(shared, queue, batch=10)

    assert [each["traceId"] for each in messages] == [trace, "own", None, "own", None, "own"]


@pytest.mark.parametrize("how", ["delaySeconds", "availableAt"])
async def test_a_delayed_message_has_no_offset_until_it_is_due(
    dsn: str, clock: Clock, how: str
) -> None:
    async with Server(dsn) as server:
        due = (await clock.now() + timedelta(seconds=60)).isoformat()
        held = {"delaySeconds": 60} if how == "delaySeconds" else {"availableAt": due}

        (message,) = await push(server, "q", "later", **held)
        await push(server, "q", "now")

        assert (message["status"], message["id"], message["offset"]) == ("queued", None, None)
        assert message["transactionId"]
        assert data(await pop(server, "q", batch=10, autoAck=True)) == ["now"]
        await clock.advance(seconds=61)
        popped = await pop_one(server, "q", wait=True, timeout=10_000)
        assert popped["data"] == "later"
        assert popped["transactionId"] == message["transactionId"]


async def test_an_expired_message_is_skipped(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", ttl=1000)
        await push(server, "q", "short", ttlSeconds=10)
        await push(server, "q", "long")

        await clock.advance(seconds=11)

        assert data(await pop(server, "q", batch=10)) == ["long"]


async def test_in_an_unordered_queue_the_higher_priority_is_first(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, ordered=False)
    for priority in (0, 9, 5):
        await push(shared, queue, priority, priority=priority)

    taken = [await pop_one(shared, queue) for _ in range(3)]

    assert data(taken) == [9, 5, 0]
    assert [each["priority"] for each in taken] == [9, 5, 0]


@pytest.mark.parametrize(
    ("fields", "code", "status"),
    [
        ({"priority": 3}, "invalid_item", 422),
        ({"priority": 10}, "invalid_item", 422),
        ({"delaySeconds": -1}, "invalid_item", 422),
        ({"delaySeconds": 31_536_001}, "invalid_item", 422),
        ({"delaySeconds": 1, "availableAt": "2030-01-01T00:00:00Z"}, "invalid_item", 422),
        ({"ttlSeconds": 0}, "invalid_item", 422),
        ({"transactionId": "t" * 256}, "invalid_item", 422),
        ({"headers": {str(n): "" for n in range(65)}}, "invalid_item", 422),
        ({"headers": {"a": "b" * 8192}}, "invalid_item", 422),
        ({"payload": json.loads("[" * 65 + "]" * 65)}, "invalid_item", 422),
        ({"payload": "x" * 2**20}, "payload_too_large", 413),
    ],
)
async def test_a_rejected_item_does_not_affect_the_others(
    shared: Server, fields: dict[str, object], code: str, status: int
) -> None:
    queue = a_queue()
    bad = {"queue": queue, "payload": 0, **fields}

    reply = await shared.post("/push", {"items": [*items(queue, 1), bad, *items(queue, 2)]})
    alone = await shared.post("/push", {"items": [bad]})

    assert reply.status == 201
    statuses = [each["status"] for each in reply.body["messages"]]
    assert statuses == ["queued", "failed", "queued"]
    refused = reply.body["messages"][1]
    assert (refused["code"], refused["id"], bool(refused["error"])) == (code, None, True)
    assert (alone.status, alone.code, alone.body["applied"]) == (status, code, False)
    assert [each["code"] for each in alone.body["messages"]] == [code]
    assert data(await pop(shared, queue, batch=10)) == [1, 2]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"items": []}, None),
        ({}, "/items"),
        ({"items": [{"queue": "q"}]}, "/items/0/payload"),
        ({"items": [{"payload": 1}]}, "/items/0/queue"),
        ({"items": [{"queue": 1, "payload": 1}]}, "/items/0/queue"),
        ({"items": [{"queue": "q", "payload": 1, "partitoin": "p"}]}, "/items/0/partitoin"),
        ({"items": [{"queue": "q", "payload": 1}], "producer": "p"}, "/producer"),
        ({"items": [{"queue": "q", "payload": 1}], "producerId": "p"}, None),
        ({"items": [{"queue": "q", "payload": 1}], "sequence": 1}, None),
        ({"items": [{"queue": "q", "payload": 1, "headers": {"a": 1}}]}, "/items/0/headers"),
        ({"items": [{"queue": "q", "payload": 1, "priority": "high"}]}, "/items/0/priority"),
        ([], None),
        ("text", None),
    ],
)
async def test_a_malformed_push_stores_nothing(
    shared: Server,
    body: Any,  # noqa: ANN401 - JSON of any shape
    pointer: str | None,
) -> None:
    if pointer is not None and pointer.startswith("/items/"):
        body["items"].append(items("never", 1)[0])

    reply = await shared.post("/push", body)

    assert (reply.status, reply.code, reply.body["applied"]) == (400, "bad_request", False)
    if pointer is not None:
        assert [each["pointer"] for each in reply.body["errors"]] == [pointer]
    assert (await shared.post("/pop/queue/never", {})).code == "queue_not_found"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a\nb", "__mine", " a", "a ", "q" * 256, "\u007f", "\ud800"]
)
async def test_an_invalid_queue_name_is_rejected(shared: Server, name: str) -> None:
    reply = await shared.post("/push", {"items": items(name, 1)})

    assert (reply.status, reply.body["applied"]) == (400, False)
    # A lone surrogate isn't UTF-8: it is rejected before the name is checked.
    assert reply.code in ("invalid_name", "bad_request")


async def test_names_are_compared_by_bytes(shared: Server) -> None:
    queue = a_queue()
    await push(shared, f"{queue}é", "composed")
    await push(shared, f"{queue}e\u0301", "decomposed")

    assert data(await pop(shared, f"{queue}é", batch=5)) == ["composed"]


async def test_a_producers_request_is_stored_once(shared: Server) -> None:
    queue = a_queue()
    request = {"producerId": queue, "sequence": 7, "items": items(queue, 1, 2)}
    first = await shared.post("/push", request)

    again = await shared.post("/push", request)
    stale = await shared.post("/push", {**request, "sequence": 6})
    then = await shared.post("/push", {**request, "sequence": 8, "items": items(queue, 3)})

    assert (first.status, "replayed" in first.body) == (201, False)
    assert (again.status, again.body["replayed"]) == (201, True)
    assert [each["id"] for each in again.body["messages"]] in (
        [each["id"] for each in first.body["messages"]],
        [None, None],
    )
    assert (stale.status, stale.code, stale.body["applied"]) == (409, "sequence_stale", False)
    assert then.status == 201
    assert data(await pop(shared, queue, batch=10)) == [1, 2, 3]


async def test_a_producers_request_is_all_or_nothing(shared: Server) -> None:
    queue = a_queue()
    bad = [*items(queue, 1), *items(queue, 2, priority=5)]

    reply = await shared.post("/push", {"producerId": queue, "sequence": 1, "items": bad})

    assert (reply.status, reply.code) == (422, "invalid_item")
    assert (await shared.post(f"/pop/queue/{queue}", {})).status in (204, 404)


async def test_the_number_of_items_per_request_is_limited(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_ITEMS": "3"}) as server:
        assert (await server.post("/push", {"items": items("q", 1, 2, 3)})).status == 201

        reply = await server.post("/push", {"items": items("q", 1, 2, 3, 4)})

        assert (reply.status, reply.code) == (413, "too_many_items")
        assert len(await pop(server, "q", batch=10)) == 3


async def test_concurrent_pushes_are_all_stored(shared: Server) -> None:
    queue = a_queue()

    await asyncio.gather(*(push(shared, queue, n, partition=f"p{n % 7}") for n in range(200)))

    popped = await pop(shared, queue, batch=1000, partitions=10)
    assert sorted(data(popped)) == list(range(200))


async def test_a_push_to_a_busy_server_is_overloaded(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_QUEUED_REQUESTS": "1", "QUEEN_PUSH_LANES": "1"}) as server:
        await push(server, "q", 0)
        async with held_partitions(dsn) as connection:
            flushing = asyncio.create_task(push(server, "q", 1))
            await until_blocked(connection)
            # One of the two finds the other waiting for the next flush.
            both = [server.post("/push", {"items": items("q", n)}) for n in (2, 3)]
            both = [asyncio.create_task(each) for each in both]
            (refused,), (waiting,) = await asyncio.wait(both, return_when="FIRST_COMPLETED")
        reply = refused.result()
        assert (reply.status, reply.code, reply.body["applied"]) == (503, "overloaded", False)
        assert int(reply.headers["Retry-After"]) >= 1
        await flushing
        assert (await waiting).status == 201
        assert len(await pop(server, "q", batch=10)) == 3


async def test_a_push_interrupted_in_the_database_has_an_unknown_outcome(dsn: str) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 0)
        async with held_partitions(dsn) as connection:
            waiting = asyncio.create_task(server.post("/push", {"items": items("q", 1)}))
            await until_blocked(connection)
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0"
            )
            reply = await waiting

        assert (reply.status, reply.code) == (503, "outcome_unknown")
        assert reply.body["applied"] is None
        assert "Retry-After" in reply.headers
        # The server has other connections and continues.
        await push(server, "q", 2)


async def test_an_unexpected_error_is_internal_with_an_unknown_outcome(dsn: str) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 0)
        connection = await asyncpg.connect(dsn)
        await connection.execute(
            "do $$ declare f text; begin for f in select oid::regprocedure::text from pg_proc "
            "where pronamespace = 'queen'::regnamespace and proname like 'push%' "
            "loop execute 'drop function ' || f || ' cascade'; end loop; end $$"
        )
        await connection.close()

        reply = await server.post("/push", {"items": items("q", 1)})

        assert (reply.status, reply.code) == (500, "internal")
        assert reply.headers["Content-Type"] == "application/problem+json"
        assert reply.body["applied"] is None
        assert json.dumps(reply.body).find("Traceback") == -1
        assert (await server.get("/livez")).status == 200


async def test_a_response_has_the_same_form_for_all_items(shared: Server) -> None:
    queue = a_queue()
    forms: list[dict[str, Any]] = [{}, {"headers": {"a": "b"}}, {"transactionId": "t"}]
    answers = [(await push(shared, queue, 1, **form))[0] for form in (*forms, *forms)]

    assert {frozenset(answer) for answer in answers} == {
        frozenset(("id", "transactionId", "status", "partitionId", "offset", "code", "error"))
    }
