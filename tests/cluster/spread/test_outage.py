"""A spread queue while one of its databases is down."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cluster.places import named
from tests.support.postgres import Postgres, Server as PostgresServer
from tests.support.server import Server, until

HERE, SECOND = named("main", 3), named("two", 3)


@pytest.fixture(scope="module")
def second() -> Iterator[Postgres]:
    """Another PostgreSQL server, which the tests stop."""
    with Postgres(in_memory=True) as postgres:
        yield postgres


@pytest.fixture
async def server(
    postgres: PostgresServer, empty: dict[str, str], second: Postgres, tmp_path: Path
) -> AsyncIterator[Server]:
    """A server with three databases, one of them on its own PostgreSQL server."""
    del postgres
    if second.is_stopped:
        second.start()
    name = f"test_{uuid4().hex}"
    databases = {**empty, "two": second.create_database(name)}
    async with Server(databases, {"FILE_BUFFER_DIR": str(tmp_path / "buffer")}) as server:
        options = {"placement": "spread"}
        reply = await server.post("/configure", {"queue": "orders", "options": options})
        assert reply.status == 200
        assert await push(server, 0) == 201
        yield server
    if second.is_stopped:
        second.start()
    second.drop_database(name)


async def push(server: Server, value: int) -> int:
    items = [{"queue": "orders", "partition": p, "payload": value} for p in (*HERE, *SECOND)]
    return (await server.post("/push", {"items": items})).status


async def popped(server: Server, **query: str) -> dict[str, list[int]]:
    """The values of each partition, in their order."""
    found: dict[str, list[int]] = {}
    while True:
        reply = await server.get(
            "/pop/queue/orders", batch=100, partitions=100, autoAck="true", **query
        )
        if reply.status == 204:
            return found
        for each in reply.body["messages"]:
            found.setdefault(each["partition"], []).append(each["data"])


async def test_pushes_wait_on_disk_and_pops_find_the_rest(server: Server, second: Postgres) -> None:
    second.stop()
    assert await push(server, 1) == 202
    assert await popped(server) == {name: [0, 1] for name in HERE}
    lists = await server.get("/resources/queues/orders/partitions")
    assert lists.headers["Queen-Partial"] == "two"
    second.start()

    found: dict[str, list[int]] = {}

    async def are_there() -> bool:
        for name, values in (await popped(server)).items():
            found.setdefault(name, []).extend(values)
        return sum(map(len, found.values())) == 2 * len(SECOND)

    await until(are_there, seconds=30)
    assert found == {name: [0, 1] for name in SECOND}


async def test_options_and_groups_that_change_meanwhile(server: Server, second: Postgres) -> None:
    second.stop()
    start = {"consumerGroup": "g", "subscriptionMode": "new"}
    assert (await server.get("/pop/queue/orders", **start)).status == 204
    change = {"queue": "orders", "options": {"retryLimit": 7, "paused": True}}
    assert (await server.post("/configure", change)).status == 200
    second.start()

    async def is_equal() -> bool:
        reply = await server.get("/resources/queues/orders/partitions")
        detail = await server.get("/resources/queues/orders")
        groups = {each["consumerGroup"] for each in detail.body.get("groups", [])}
        return "Queen-Partial" not in reply.headers and "g" in groups

    await until(is_equal, seconds=30)
    assert await push(server, 1) in (201, 202)
    assert await popped(server, consumerGroup="g") == {}
    await server.post("/resources/queues/orders/resume")
    assert await popped(server, consumerGroup="g") == {name: [1] for name in (*HERE, *SECOND)}


async def test_a_queue_is_deleted_only_while_all_databases_know_of_it(
    server: Server, second: Postgres
) -> None:
    second.stop()
    rejected = await server.delete("/resources/queues/orders")
    assert (rejected.status, rejected.code) == (503, "database_unavailable")
    assert await popped(server) == {name: [0] for name in HERE}
    second.start()

    async def is_deleted() -> bool:
        return (await server.delete("/resources/queues/orders")).status == 202

    await until(is_deleted, seconds=30)


async def test_a_waiting_pop_gets_messages_of_a_database_that_is_back(
    server: Server, second: Postgres
) -> None:
    assert await popped(server) == {name: [0] for name in (*HERE, *SECOND)}
    second.stop()
    assert await push(server, 1) == 202
    assert await popped(server) == {name: [1] for name in HERE}
    waits = [
        asyncio.create_task(
            server.get("/pop/queue/orders", wait="true", timeout=30_000, autoAck=is_acked)
        )
        for is_acked in ("false", "true")
    ]
    second.start()

    async with asyncio.timeout(50):
        replies = await asyncio.gather(*waits)

    assert [each.status for each in replies] == [200, 200]


async def test_a_database_that_is_down_keeps_its_share_of_a_limit(
    server: Server, second: Postgres
) -> None:
    options = {"concurrencyLimit": 6}
    change = await server.post("/configure", {"queue": "orders", "options": options})
    assert change.status == 200
    held: dict[str, list[str]] = {"main": [], "two": []}

    async def pop() -> bool:
        while (reply := await server.get("/pop/queue/orders")).status == 200:
            for each in reply.body["messages"]:
                held["two" if each["partition"] in SECOND else "main"].append(each["leaseId"])
        return sum(map(len, held.values())) >= 6

    async def is_divided() -> bool:
        """Keep three leases of each database."""
        await pop()
        for leases in held.values():
            for _ in leases[3:]:
                await server.post(f"/lease/{leases.pop()}/release")
        return {len(each) for each in held.values()} == {3}

    await until(is_divided, seconds=30)
    second.stop()
    for lease in held["main"][1:]:
        await server.post(f"/lease/{lease}/release")
    del held["main"][1:]
    await until(pop, seconds=30)
    assert len(held["main"]) == 3
