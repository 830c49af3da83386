"""Clients of a running server see no error while a slot moves."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queen import Message, Queen
from tests.cluster.moving import Move, move
from tests.cluster.places import ONE, THREE, TWO, named
from tests.cluster.reports import report
from tests.server.stream.streams import stream
from tests.support.server import Server, until

PATH = ("main", "two", "three", "main")
SAME = named("main", 2)[1]


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        for queue in (ONE, TWO, THREE, SAME):
            await push(server, queue, 0)
        yield server


@pytest.fixture
def moving(databases: dict[str, str]) -> Move:
    return move(databases, ONE, "main", "two")


async def push(server: Server, queue: str, value: int, partition: str = "Default") -> None:
    items = [{"queue": queue, "payload": value, "partition": partition}]
    reply = await server.post("/push", {"items": items})
    assert reply.status == 201, reply.body


async def pop(server: Server, queue: str = ONE, **query: Any) -> list[Any]:  # noqa: ANN401
    reply = await server.get(f"/pop/queue/{queue}", **query)
    assert reply.status in (200, 204), reply.body
    return reply.body["messages"] if reply.status == 200 else []


@pytest.mark.parametrize("transport", ["stream", "http"])
async def test_consumers_continue_over_moves(
    databases: dict[str, str], server: Server, transport: str
) -> None:
    found: list[int] = []

    async def handle(messages: list[Message[int]]) -> None:
        found.extend(each.data for each in messages)

    async with Queen(server.base_url, stream=transport == "stream") as queen:
        running = queen.queue(ONE).batch(5).start(handle)
        n = 0
        for source, target in itertools.pairwise(PATH):
            moving = asyncio.create_task(move(databases, ONE, source, target).run())
            while not moving.done():
                n += 1
                await queen.queue(ONE).push([{"data": n}])
            await moving

        async def is_complete() -> bool:
            return len(found) > n

        await until(is_complete, seconds=20)
        await running.stop()
    assert found == [*range(n + 1)]
    assert "error" not in server.log


async def test_a_subscription_keeps_its_credit(server: Server, moving: Move) -> None:
    async with stream(server) as connection:
        id_ = await connection.start(consume={"queue": ONE, "credit": 2})
        frame = await connection.answer(id_)
        (first,) = frame["messages"]
        await moving.run()
        ack = {"id": first["id"], "leaseId": first["leaseId"]}
        assert (await connection.call(ack=ack))["result"]["success"]
        for n in range(1, 3):
            await push(server, ONE, n)

        frame = await connection.answer(id_)
        assert [each["data"] for each in frame["messages"]] == [1]
        done = await connection.call(complete={"leaseId": frame["messages"][0]["leaseId"]})
        assert done["result"]["settled"] == 1
        await connection.send({"credit": {"id": id_, "messages": 1}})
        frame = await connection.answer(id_)
        assert [each["data"] for each in frame["messages"]] == [2]


async def test_requests_of_all_kinds_follow_a_slot(server: Server, moving: Move) -> None:
    """Each waits while the slot is leaving, and reaches its new database."""
    await server.post("/configure", {"queue": ONE, "options": {"ordered": False}})
    await push(server, ONE, 1)
    await push(server, ONE, 2)
    assert await pop(server, consumerGroup="billing")
    first, second, third = [(await pop(server))[0] for _ in range(3)]
    ack = {"type": "ack", "id": first["id"], "leaseId": first["leaseId"]}
    pushed = {"type": "push", "items": [{"queue": ONE, "payload": 2, "partition": "q"}]}
    await moving.leave()
    requests = {
        "transaction": server.post("/transaction", {"operations": [ack, pushed]}),
        "configure": server.post("/configure", {"queue": ONE, "options": {"leaseTime": 77}}),
        "release": server.post(f"/lease/{second['leaseId']}/release"),
        "seek": server.post(f"/consumer-groups/billing/queues/{ONE}/seek", {"toStart": True}),
        "redact": server.delete(f"/messages/{third['id']}"),
        "workflow": server.post(
            "/workflows",
            {"name": "flow", "id": "w", "steps": [{"name": "a", "queue": ONE, "job": "one"}]},
        ),
    }
    running = {name: asyncio.ensure_future(each) for name, each in requests.items()}

    async def are_waiting() -> bool:
        return await _repeated(server) > 2

    await until(are_waiting)
    await moving.arrive()
    await moving.close()

    replies = {name: await each for name, each in running.items()}
    assert {name: reply.code for name, reply in replies.items()} == dict.fromkeys(replies)
    assert await moving.count("main") == 0
    shown = await server.get(f"/messages/{second['id']}")
    assert (shown.status, shown.body["queue"]) == (200, ONE)


async def _repeated(server: Server) -> float:
    text = (await server.get("/metrics")).body.decode()
    lines = [line for line in text.splitlines() if line.startswith("queen_slot_follows_total")]
    return float(lines[0].split()[1])


async def test_lists_have_a_queue_once_while_two_databases_have_its_rows(
    server: Server, moving: Move
) -> None:
    await push(server, ONE, 1)
    (message,) = await pop(server)
    dead = {"id": message["id"], "leaseId": message["leaseId"], "status": "dlq", "error": "x"}
    assert (await server.post("/ack", dead)).body["success"]
    await moving.leave()
    await moving.arrive()

    names = sorted([ONE, TWO, THREE, SAME])
    for removes_rows in (False, True):
        await moving.close(removes_rows=removes_rows)
        for path, field, name in (
            ("/resources/queues", "queues", "name"),
            ("/configure", "queues", "queue"),
            ("/analytics/queue-depths", "queues", "queue"),
        ):
            limit = {} if "depths" in path else {"limit": 2}
            found: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                body = (await server.get(path, **limit, **cursor)).body
                found += [each[name] for each in body[field]]
                if body.get("nextCursor") is None:
                    break
                cursor = {"cursor": body["nextCursor"]}
            assert found == names, (path, removes_rows)
        groups = (await server.get("/consumer-groups")).body["consumerGroups"]
        assert [each["queue"] for each in groups] == [ONE]


async def test_a_server_that_was_stopped_over_a_move_writes_nothing_to_the_former_owner(
    databases: dict[str, str], server: Server, moving: Move
) -> None:
    (message,) = await pop(server)
    ack = {"id": message["id"], "leaseId": message["leaseId"]}
    before = [asyncio.create_task(push(server, ONE, n, f"p{n % 5}")) for n in range(1, 31)]
    await asyncio.sleep(0)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        after = [asyncio.create_task(push(server, ONE, n, f"p{n % 5}")) for n in range(31, 61)]
        settled = asyncio.create_task(server.post("/ack", ack))
        await moving.run()
    finally:
        os.kill(server.pid, signal.SIGCONT)

    await asyncio.gather(*before, *after)
    assert (await settled).body["success"]
    tables = ("segments", "partitions", "queues", "deliveries")
    stored = {table: await moving.count("main", table) for table in tables}
    report("T3", rows_at_the_former_owner=stored)
    assert set(stored.values()) == {0}
    async with Server(databases) as another:
        messages = await pop(another, batch=100, partitions=10)
        assert sorted(each["data"] for each in messages) == [*range(1, 61)]
