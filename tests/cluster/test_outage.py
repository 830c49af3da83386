"""One of three databases is down: the others work, and its pushes wait on disk."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.cluster.operators.operations import (
    add_partitions,
    begin,
    blocked,
    database_of,
    ended,
    has_state,
    is_copied,
    operation,
)
from tests.cluster.places import ONE, THREE, TWO, named, slot_of
from tests.support.postgres import Postgres, Server as PostgresServer
from tests.support.server import Server, until


@pytest.fixture(scope="module")
def second() -> Iterator[Postgres]:
    """Another PostgreSQL server, which the tests stop."""
    with Postgres(in_memory=True) as postgres:
        yield postgres


@pytest.fixture
def apart(
    postgres: PostgresServer, empty: dict[str, str], second: Postgres
) -> Iterator[dict[str, str]]:
    """Three databases, one of them on its own server."""
    del postgres
    if second.is_stopped:
        second.start()
    name = f"test_{uuid4().hex}"
    yield {**empty, "two": second.create_database(name)}
    if second.is_stopped:
        second.start()
    second.drop_database(name)


@pytest.fixture
async def server(apart: dict[str, str], tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(apart, {"FILE_BUFFER_DIR": str(tmp_path / "buffer")}) as server:
        for queue in (ONE, TWO, THREE):
            assert (await push(server, queue, 1)) == 201
        yield server


async def push(server: Server, queue: str, value: int) -> int:
    return (await server.post("/push", {"items": [{"queue": queue, "payload": value}]})).status


async def taken(server: Server, queue: str) -> list[int]:
    reply = await server.get(f"/pop/queue/{queue}", batch=10, autoAck="true")
    return [] if reply.status != 200 else [each["data"] for each in reply.body["messages"]]


async def test_a_worker_renews_its_leases_while_another_database_is_down(
    server: Server, second: Postgres
) -> None:
    jobs: list[dict[str, str]] = []
    leases: list[str] = []
    for queue in (ONE, TWO):
        (message,) = (await server.get(f"/pop/queue/{queue}")).body["messages"]
        jobs.append({"id": "job", "messageId": message["id"]})
        leases.append(message["leaseId"])
    second.kill()

    reply = await server.post("/jobs/renew", {"leaseIds": leases, "jobs": jobs, "seconds": 60})

    assert reply.status == 200, reply.body
    assert [each["success"] for each in reply.body["results"]] == [True, False]
    assert reply.body["cancelled"] == []


async def test_the_others_work_while_one_is_down(server: Server, second: Postgres) -> None:
    second.kill()

    for queue in (ONE, THREE):
        assert await push(server, queue, 2) == 201
        assert await taken(server, queue) == [1, 2]
    assert (await server.get(f"/pop/queue/{TWO}")).code == "database_unavailable"
    assert await push(server, TWO, 2) == 202
    listed = await server.get("/resources/queues")
    assert [each["name"] for each in listed.body["queues"]] == sorted([ONE, THREE])
    assert listed.headers["Queen-Partial"] == "two"
    ready = await server.get("/readyz", verbose="1")
    assert ready.status == 200
    assert ready.body["checks"]["database two"].startswith("database_unavailable")

    second.start()

    await until(lambda: _is_stored(server), seconds=20)
    assert await taken(server, TWO) == [1, 2]
    assert "Queen-Partial" not in (await server.get("/resources/queues")).headers


async def _is_stored(server: Server) -> bool:
    listed = await server.get("/messages", queue=TWO)
    return listed.status == 200 and len(listed.body["messages"]) == 2


async def test_a_transaction_pushes_to_a_database_that_is_down(
    server: Server, second: Postgres
) -> None:
    """If the server knows the options of the queue."""
    (message,) = (await server.get(f"/pop/queue/{ONE}")).body["messages"]
    ack = {"type": "ack", "id": message["id"], "leaseId": message["leaseId"]}

    def body(queue: str) -> dict[str, Any]:
        pushed = {"type": "push", "items": [{"queue": queue, "payload": 2}]}
        return {"operations": [ack, pushed], "acrossShards": "outbox"}

    second.kill()
    unknown = await server.post("/transaction", body(named("two", 2)[1]))
    known = await server.post("/transaction", body(TWO))
    second.start()

    assert unknown.code == "database_unavailable"
    assert known.status == 200, known.body
    await until(lambda: _is_stored(server), seconds=20)
    assert await taken(server, TWO) == [1, 2]


async def test_only_items_of_a_database_that_is_down_fail(
    apart: dict[str, str], second: Postgres
) -> None:
    async with Server(apart) as server:
        for queue in (ONE, TWO):
            await push(server, queue, 1)
        second.kill()
        items = [{"queue": queue, "payload": 2} for queue in (TWO, ONE)]

        reply = await server.post("/push", {"items": items})

        failed, stored = reply.body["messages"]
        assert (failed["status"], failed["code"]) == ("failed", "database_unavailable")
        assert stored["status"] == "queued"


async def test_pages_go_on_when_a_database_returns(server: Server, second: Postgres) -> None:
    second.kill()
    first = await server.get("/resources/queues", limit=1)
    assert first.headers["Queen-Partial"] == "two"
    second.start()

    names = [each["name"] for each in first.body["queues"]]
    cursor = first.body["nextCursor"]
    async with asyncio.timeout(20):
        while cursor is not None:
            page = await server.get("/resources/queues", limit=1, cursor=cursor)
            if page.headers.get("Queen-Partial"):
                await asyncio.sleep(0.1)
                continue
            names += [each["name"] for each in page.body["queues"]]
            cursor = page.body["nextCursor"]
    assert sorted(names) == sorted([ONE, TWO, THREE])


async def test_a_server_starts_without_a_database_that_has_joined(
    apart: dict[str, str], server: Server, second: Postgres
) -> None:
    second.kill()

    async with Server(apart) as another:
        assert await push(another, ONE, 2) == 201
        assert (await another.get(f"/pop/queue/{TWO}")).code == "database_unavailable"
        second.start()

        async def is_back() -> bool:
            return await taken(another, TWO) == [1]

        await until(is_back, seconds=20)


async def test_a_move_waits_for_a_database_that_is_down(server: Server, second: Postgres) -> None:
    """Moves between the others don't wait."""
    second.kill()
    reply = await server.post("/shards/moves", {"queue": ONE, "to": "two"})
    assert reply.status == 202
    assert reply.body["operation"]["error"] == "database two is unavailable"
    id_ = reply.body["operation"]["id"]

    await ended(server, await begin(server, queue=THREE, to="main"))

    assert await database_of(server, THREE) == "main"
    found = await operation(server, id_)
    assert found["state"] == "running"
    assert found["error"].startswith("database two: cannot connect")
    assert await push(server, ONE, 2) == 201
    second.start()
    await ended(server, id_)
    assert await taken(server, ONE) == [1, 2]


async def test_a_move_to_a_database_that_is_lost_is_cancelled(
    apart: dict[str, str], server: Server, second: Postgres
) -> None:
    """The slot can move elsewhere at once. The copy is erased when the database returns."""
    slot = slot_of(ONE)
    await add_partitions(server, ONE)
    async with blocked(apart["two"]):
        id_ = await begin(server, queue=ONE, to="two")
        await until(lambda: is_copied(apart["two"], slot))
        second.kill()
    assert (await server.delete(f"/operations/{id_}")).body["operation"]["state"] == "running"

    await ended(server, await begin(server, queue=ONE, to="three"))

    assert await database_of(server, ONE) == "three"
    second.start()
    await ended(server, id_, "cancelled")
    assert not await is_copied(apart["two"], slot)
    assert await taken(server, ONE) == [1]


async def test_a_database_goes_down_while_a_slot_arrives_there(
    apart: dict[str, str], server: Server, second: Postgres
) -> None:
    """The former owner keeps the slot until the database returns."""
    await add_partitions(server, ONE)
    async with blocked(apart["two"]):
        id_ = await begin(server, queue=ONE, to="two")
        await until(lambda: has_state(apart["main"], slot_of(ONE), "leaving"))
        second.kill()
    await until(lambda: has_state(apart["main"], slot_of(ONE), "owned"))
    assert await push(server, ONE, 2) == 201

    second.start()

    await ended(server, id_)
    assert await database_of(server, ONE) == "two"


async def test_a_database_that_is_down_keeps_its_slots_in_the_list(
    server: Server, second: Postgres
) -> None:
    """Its other numbers are unknown."""
    (before,) = (each for each in await databases(server) if each["name"] == "two")
    second.kill()

    (after,) = (each for each in await databases(server) if each["name"] == "two")

    assert not after["available"]
    assert after["ranges"] == before["ranges"]
    rebalanced = await server.post("/shards/rebalance", {})
    assert (rebalanced.status, rebalanced.code) == (503, "database_unavailable")
    assert (after["slots"], after["bytes"], after["bytesPerSecond"]) == (None, None, None)


async def databases(server: Server) -> list[dict[str, Any]]:
    reply = await server.get("/shards")
    assert reply.status == 200, reply.body
    return reply.body["databases"]
