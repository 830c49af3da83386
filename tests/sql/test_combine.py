"""A combined call commits durably, and waits only a moment for a lock."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import pytest

from queen import sql
from tests.sql.calls import combine, configure, leases, partition_ids, pop_new, push, run, subscribe

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator["Connection"]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def arrange(connection: "Connection") -> tuple[list[int], int]:
    """Two partitions with a message each, and a group."""
    await run(connection, configure("orders"))
    rows = await run(connection, partition_ids("orders", "a", "b"))
    ids = [row["partition_id"] for row in rows]
    (group,) = await run(connection, subscribe("orders", "workers"))
    await run(connection, push(*ids))
    return ids, group["group_id"]


async def is_durable(connection: "Connection") -> bool:
    return await connection.fetchval("show synchronous_commit") == "on"


async def test_a_pop_in_a_combined_call_commits_durably(connection: "Connection") -> None:
    ids, group_id = await arrange(connection)
    async with connection.transaction():
        await run(connection, pop_new(group_id))
        assert not await is_durable(connection)
    async with connection.transaction():
        popped = await run(connection, combine(pushed=ids, popped=[group_id]))
        assert await is_durable(connection)

    assert leases(popped)


async def test_without_its_setting_a_combined_call_would_not_be_durable(
    connection: "Connection",
) -> None:
    ids, group_id = await arrange(connection)
    text = sql.FUNCTIONS["combine"].replace("  set synchronous_commit = on\n", "")
    assert text != sql.FUNCTIONS["combine"]
    await connection.execute(text)

    async with connection.transaction():
        await run(connection, combine(pushed=ids, popped=[group_id]))
        assert not await is_durable(connection)


async def test_an_ack_and_a_push_serve_the_pop_behind_them(connection: "Connection") -> None:
    ids, group_id = await arrange(connection)
    lent = leases(await run(connection, pop_new(group_id)))
    await run(connection, pop_new(group_id))

    rows = await run(connection, combine(pushed=ids[:1], acked=lent, popped=[group_id]))

    assert [row["kind"] for row in rows] == ["stored", "acked", "popped", "popped"]
    stored, acked, popped, end = rows
    assert (acked["settled"], acked["is_over"], acked["has_more"]) == (1, True, True)
    assert (popped["partition_id"], popped["first_offset"]) == (ids[0], stored["offset"])
    assert end["request"] is None


async def test_a_rejected_push_stores_nothing_and_the_rest_is_applied(
    connection: "Connection",
) -> None:
    _, group_id = await arrange(connection)
    lent = leases(await run(connection, pop_new(group_id)))

    rows = await run(connection, combine(pushed=[10**9], acked=lent, popped=[group_id]))

    assert [(row["kind"], row["code"]) for row in rows] == [
        ("partition", "QN004"),
        ("acked", None),
        ("popped", None),
        ("popped", None),
    ]


async def test_a_combined_call_waits_only_a_moment_for_a_lock(
    connection: "Connection", dsn: str
) -> None:
    ids, group_id = await arrange(connection)
    holder = await asyncpg.connect(dsn)
    async with holder.transaction():
        await holder.execute("select 1 from queen.partitions for update")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await run(connection, combine(pushed=ids, popped=[group_id]))
    await holder.close()

    assert await connection.fetchval("select count(*) from queen.deliveries") == 0
