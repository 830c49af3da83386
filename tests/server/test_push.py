"""Push over HTTP: what is stored, what is answered, what is refused."""

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


async def test_a_push_answers_each_item_with_its_place(shared: Server) -> None:
    queue = a_queue()

    reply = await shared.post("/push", {"items": items(queue, 1, 2)})

    assert reply.status == 201
    first, second = reply.body["messages"]
    assert set(first) >= ITEM_FIELDS
    assert (first["status"], first["offset"], second["offset"]) == ("queued", 0, 1)
    assert first["transactionId"] == first["id"] != second["id"]
    assert first["partitionId"] == second["partitionId"]


async def test_results_stand_in_the_order_of_the_items(shared: Server) -> None:
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
async def test_a_payload_comes_back_byte_for_byte(shared: Server, payload: bytes) -> None:
    queue = a_queue()
    body = b'{"items":[{"queue":"%b","payload":%b}]}' % (queue.encode(), payload)
    head, _ = await spoken(shared, posted("/push", body))
    assert head.startswith(b"HTTP/1.1 201")

    _, popped = await spoken(shared, posted(f"/pop/queue/{queue}", b"{}"))

    assert b'"data":%b,' % payload in popped


async def test_the_partition_is_default_unless_said(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)

    assert (await pop_one(shared, queue))["partition"] == "Default"


async def test_the_first_push_makes_queue_and_partition(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, partition="ä/b c")

    assert (await pop_one(shared, queue))["partition"] == "ä/b c"


async def test_no_queue_is_made_where_that_is_forbidden(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_AUTO_CREATE": "false"}) as server:
        await configure(server, "there")
        both = items("there", 1) + items("absent", 2)

        reply = await server.post("/push", {"items": both})
        alone = await server.post("/push", {"items": items("absent", 3)})

        assert reply.status == 201
        assert [each["status"] for each in reply.body["messages"]] == ["queued", "failed"]
        assert reply.body["messages"][1]["code"] == "queue_not_found"
        assert (alone.status, alone.code, alone.body["applied"]) == (404, "queue_not_found", False)


async def test_a_transaction_id_is_stored_once_and_names_the_first(shared: Server) -> None:
    queue = a_queue()
    (first,) = await push(shared, queue, 1, transactionId="t1")

    (second,) = await push(shared, queue, 2, transactionId="t1")

    assert second["status"] == "duplicate"
    assert (second["id"], second["offset"]) == (first["id"], first["offset"])
    assert data(await pop(shared, queue, batch=10)) == [1]


async def test_a_transaction_id_belongs_to_its_partition(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, transactionId="t1", partition="a")

    (other,) = await push(shared, queue, 2, transactionId="t1", partition="b")

    assert other["status"] == "queued"


async def test_headers_and_trace_id_travel_with_the_message(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, headers={"a": "ä", "": ""}, traceId="trace-1")

    message = await pop_one(shared, queue)

    assert (message["headers"], message["traceId"]) == ({"a": "ä", "": ""}, "trace-1")


async def test_a_trace_id_is_taken_from_traceparent_unless_given(shared: Server) -> None:
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
async def test_a_held_message_has_no_place_until_it_is_due(
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


async def test_a_message_past_its_time_to_live_is_passed_over(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", ttl=1000)
        await push(server, "q", "short", ttlSeconds=10)
        await push(server, "q", "long")

        await clock.advance(seconds=11)

        assert data(await pop(server, "q", batch=10)) == ["long"]


async def test_a_higher_priority_comes_first_where_there_is_no_order(shared: Server) -> None:
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
async def test_an_item_refused_on_its_own_leaves_the_others_stored(
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
async def test_a_queue_has_a_name_that_names_can_have(shared: Server, name: str) -> None:
    reply = await shared.post("/push", {"items": items(name, 1)})

    assert (reply.status, reply.body["applied"]) == (400, False)
    # A lone surrogate is no UTF-8: it is refused before it is a name.
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


async def test_one_request_carries_so_many_items(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_ITEMS": "3"}) as server:
        assert (await server.post("/push", {"items": items("q", 1, 2, 3)})).status == 201

        reply = await server.post("/push", {"items": items("q", 1, 2, 3, 4)})

        assert (reply.status, reply.code) == (413, "too_many_items")
        assert len(await pop(server, "q", batch=10)) == 3


async def test_pushes_of_a_crowd_are_all_stored(shared: Server) -> None:
    queue = a_queue()

    await asyncio.gather(*(push(shared, queue, n, partition=f"p{n % 7}") for n in range(200)))

    popped = await pop(shared, queue, batch=1000, partitions=10)
    assert sorted(data(popped)) == list(range(200))


async def test_a_push_that_meets_a_busy_server_is_overloaded(dsn: str) -> None:
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


async def test_a_push_cut_off_in_the_database_is_of_unknown_outcome(dsn: str) -> None:
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
        # The server has other connections, and goes on.
        await push(server, "q", 2)


async def test_what_nobody_foresaw_is_internal_and_of_unknown_outcome(dsn: str) -> None:
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


async def test_an_answer_has_one_form_whatever_the_items_have(shared: Server) -> None:
    queue = a_queue()
    forms: list[dict[str, Any]] = [{}, {"headers": {"a": "b"}}, {"transactionId": "t"}]
    answers = [(await push(shared, queue, 1, **form))[0] for form in (*forms, *forms)]

    assert {frozenset(answer) for answer in answers} == {
        frozenset(("id", "transactionId", "status", "partitionId", "offset", "code", "error"))
    }
