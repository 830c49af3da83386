"""One of three databases is down: the others work, and its pushes wait on disk."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cluster.places import ONE, THREE, TWO
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
