"""A name of a schedule or workflow is used once in all databases."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from queen.store.migrations import connected
from tests.cluster.operators.operations import blocked, value
from tests.cluster.places import ONE, TWO
from tests.support.server import Server, until

WAITS = """
select exists (
  select 1 from pg_locks l where l.relation = 'queen.{}'::regclass and not l.granted
)
"""


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        for queue in (ONE, TWO):
            body = {"queue": queue, "options": {"ordered": False}}
            assert (await server.post("/configure", body)).status == 200
        yield server


def schedule(queue: str) -> tuple[str, dict[str, Any]]:
    return "/schedules", {"name": "n", "queue": queue, "cron": "0 3 * * *", "payload": 1}


def workflow(queue: str) -> tuple[str, dict[str, Any]]:
    steps = [{"name": "a", "queue": queue, "job": "one"}]
    return "/workflows", {"name": "flow", "id": "n", "steps": steps}


@pytest.mark.parametrize(("table", "make"), [("schedules", schedule), ("workflows", workflow)])
async def test_a_name_is_used_in_one_database(
    server: Server,
    databases: dict[str, str],
    table: str,
    make: Callable[[str], tuple[str, dict[str, Any]]],
) -> None:
    async def is_waiting() -> bool:
        return await value(databases["two"], WAITS.format(table))

    async with blocked(databases["two"], f"lock table queen.{table} in exclusive mode"):
        first = asyncio.create_task(server.post(*make(TWO)))
        await until(is_waiting, seconds=20)
        second = await server.post(*make(ONE))
    begun = await first

    assert (second.status, second.code) == (503, "overloaded"), second.body
    assert begun.status in (200, 201), begun.body
    later = await server.post(*make(ONE))
    assert later.code == "cross_shard"
    again = await server.post(*make(TWO))
    assert again.status == 200, again.body
    counts = [await value(dsn, f"select count(*) from queen.{table}") for dsn in databases.values()]
    assert counts == [0, 1, 0]


async def test_a_name_can_be_used_elsewhere_after_a_rejection_or_a_deletion(
    server: Server, databases: dict[str, str]
) -> None:
    path, body = schedule(TWO)
    assert (await server.post(path, {**body, "cron": "never"})).status == 400
    assert (await server.post(path, {**body, "queue": ONE})).status == 200
    assert (await server.delete("/schedules/n")).status == 200
    assert (await server.post(path, body)).status == 200

    async with connected(databases["main"]) as first:
        assert await first.fetchval("select count(*) from queen.reservations") == 0


async def test_a_reservation_ends(databases: dict[str, str]) -> None:
    """Its server may have died."""
    async with connected(databases["main"]) as first:

        async def reserve(database: str) -> bool:
            query = "select queen.reserve('schedule n', $1, 60) is not null"
            return await first.fetchval(query, database)

        assert await reserve("two")
        assert await reserve("two")
        assert not await reserve("three")
        await first.execute("update queen.reservations set until = queen.now()")
        assert await reserve("three")
        assert not await reserve("two")
