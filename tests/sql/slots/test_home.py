"""A queue's slot is a function of its namespace or name."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import configure, partition_ids, pop, push, run, subscribe

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

SLOT = "select slot from queen.queues"
KNOWN = {"orders": 310, "emails": 679, "ü": 462}


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator["Connection"]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def _slot(connection: "Connection", name: str, namespace: str = "") -> int:
    return await connection.fetchval("select queen.home_slot($1, $2)", name, namespace)


async def test_known_names_keep_their_slots(connection: "Connection") -> None:
    assert {name: await _slot(connection, name) for name in KNOWN} == KNOWN


async def test_queues_of_a_namespace_are_in_one_slot(connection: "Connection") -> None:
    slots = {await _slot(connection, f"queue {n}", "shop") for n in range(20)}

    assert slots == {await _slot(connection, "shop")}


async def test_names_are_spread_over_the_hashed_slots(connection: "Connection") -> None:
    rows = await connection.fetch(
        "select queen.home_slot(n::text, '') as slot, count(*) as names"
        " from generate_series(1, 50000) n group by 1"
    )

    assert {row["slot"] for row in rows} == {*range(1, 960)}
    assert max(row["names"] for row in rows) < 2 * 50_000 / 959


async def test_slot_0_is_used_while_the_hashed_slots_are_closed(connection: "Connection") -> None:
    await connection.execute("update queen.slots set is_open = false")

    assert await _slot(connection, "orders") == 0


async def test_ids_contain_the_slot(connection: "Connection") -> None:
    await run(connection, configure("orders"))
    slot = await connection.fetchval(SLOT)
    (partition,) = await run(connection, partition_ids("orders", "p"))
    (group,) = await run(connection, subscribe("orders", "g"))
    await run(connection, push(partition["partition_id"]))
    popped = await run(connection, pop(group["group_id"]))

    assert slot == await _slot(connection, "orders") > 0
    assert partition["partition_id"] >> 53 == slot
    assert popped[0]["delivery_id"] >> 53 == slot


SET_NAMESPACE = "select queen.configure('orders', 'shop', null, '{}', false, null, '{}')"


async def test_a_queue_without_partitions_moves_with_its_namespace(
    connection: "Connection",
) -> None:
    await run(connection, configure("orders"))

    await connection.execute(SET_NAMESPACE)

    assert await connection.fetchval(SLOT) == await _slot(connection, "shop")


async def test_a_queue_with_partitions_keeps_its_slot(connection: "Connection") -> None:
    (partition,) = await run(connection, partition_ids("orders", "p"))

    await connection.execute(SET_NAMESPACE)

    assert await connection.fetchval(SLOT) == partition["partition_id"] >> 53


async def test_a_search_of_all_queues_finds_the_newest_partitions(
    connection: "Connection",
) -> None:
    """Not those in the highest slots."""
    names = sorted((f"queue {n}" for n in range(10)), reverse=True)
    by_slot = {await _slot(connection, name): name for name in names}
    ordered = [by_slot[slot] for slot in sorted(by_slot, reverse=True)]
    for name in ordered:
        (row,) = await run(connection, partition_ids(name, "p"))
        key = await connection.fetchval("select queen.dedup_key($1, 't')", row["partition_id"])
        await run(connection, push(row["partition_id"], keys=[key]))

    found = await run(connection, ("named_messages", "t", 1, None))

    assert [row["queue"] for row in found] == [ordered[-1]]
