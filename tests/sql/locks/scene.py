"""A queue with partitions in every state, and calls on it that wait for each other."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from tests.sql.calls import (
    Call,
    Lease,
    configure,
    leases,
    nack,
    partition_ids,
    pop,
    push,
    run,
    subscribe,
)

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

Connect = Callable[[], Awaitable["Connection"]]


class Scene(NamedTuple):
    """
    A queue with partitions in every state for one group, and a second group that has drained them.
    """

    group_id: int
    ready: int
    idle: int
    held: tuple[int, int]
    due: int
    expired: int
    lent: tuple[Lease, Lease]
    dead: tuple[int, int]


async def group(connection: "Connection", name: str) -> int:
    (row,) = await run(connection, subscribe("orders", name))
    return row["group_id"]


async def partitions_of(connection: "Connection", *names: str) -> list[int]:
    rows = await run(connection, partition_ids("orders", *names))
    return [row["partition_id"] for row in rows]


async def lend(
    connection: "Connection", group_id: int, partition: str, *, lease_seconds: float | None = None
) -> Lease:
    popped = await run(connection, pop(group_id, partition=partition, lease_seconds=lease_seconds))
    (lease,) = leases(popped)
    return lease


async def arrange(connection: "Connection", options: Mapping[str, object]) -> Scene:
    await run(connection, configure("orders", **options))
    group_id, other_id = [await group(connection, name) for name in ("workers", "others")]
    names = ("ready", "idle", "held", "held too", "due", "expired")
    ids = await partitions_of(connection, *names)
    await run(connection, push(*ids))
    dead: list[int] = []
    for name in ("idle", "held"):
        await run(connection, nack(await lend(connection, group_id, name), kind="dead"))
    for row in await connection.fetch("select id from queen.dead_letters order by partition_id"):
        dead.append(row["id"])
    await run(connection, push(ids[2]))
    # The first partition has the last lease, so that an order by partition is not one by ID.
    lent = [await lend(connection, group_id, name) for name in ("held too", "held")]
    await run(connection, nack(await lend(connection, group_id, "due"), kind="retry"))
    await lend(connection, group_id, "expired", lease_seconds=0.000_001)
    drained = await run(connection, pop(other_id, batch=100, partitions=100, is_auto=True))
    assert len(drained) >= len(names)
    # A message that is due, in an idle partition.
    await run(connection, push(scheduled=[(ids[1], LONG_AGO)]))
    return Scene(
        group_id=group_id,
        ready=ids[0],
        idle=ids[1],
        held=(ids[2], ids[3]),
        due=ids[4],
        expired=ids[5],
        lent=(lent[1], lent[0]),
        dead=(dead[0], dead[1]),
    )


async def attempt(connection: "Connection", call: Call) -> None:
    """Make a call, and roll it back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await run(connection, call)
    finally:
        await transaction.rollback()


async def waits(
    watcher: "Connection", connection: "Connection", task: "asyncio.Task[None]"
) -> None:
    """Wait until the call of that connection waits for a lock or returns."""
    async with asyncio.timeout(10):
        pid = connection.get_server_pid()
        while not task.done():
            if await watcher.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):
                return


def give_up(partition_id: int, offset: int) -> Call:
    return "give_up", partition_id, offset, "workers", "by hand"


def cancel(partition_id: int, offset: int) -> Call:
    return "cancel", 1, "t", "workers", None, partition_id, offset, 60.0


def redact(partition_id: int, offset: int) -> Call:
    """Redact a message that is the only one in its segment."""
    nothing = (b"", b"\0\0\0\0", None)
    return "redact", partition_id, offset, offset, 1, None, *nothing, *nothing, "somebody"


def retry(partition_id: int, offset: int) -> Call:
    return "retry", partition_id, offset, "workers"


GATES = (
    "select 1 from queen.partitions where id = $1 for update",
    "select 1 from queen.consumers where partition_id = $1 for update",
    "select 1 from queen.deliveries where partition_id = $1 for update",
)


async def cross(
    gate: "Connection", statement: str, partition_id: int, calls: Mapping["Connection", Call]
) -> bool:
    """Let the calls wait in line for a row that `gate` locks. Returns whether they deadlock."""
    transaction = gate.transaction()
    await transaction.start()
    await gate.fetch(statement, partition_id)
    tasks: list[asyncio.Task[None]] = []
    try:
        for connection, call in calls.items():
            tasks.append(asyncio.create_task(attempt(connection, call)))
            await waits(gate, connection, tasks[-1])
    finally:
        # After the rollback, one of them gets the row and needs a lock of the other.
        await transaction.rollback()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    deadlocks = [isinstance(each, asyncpg.DeadlockDetectedError) for each in results]
    assert all(deadlocks[i] or each is None for i, each in enumerate(results)), results
    return any(deadlocks)


QUEUES: Mapping[str, Mapping[str, object]] = {
    "ordered": {"ordered": True},
    "unordered": {"ordered": False},
    "limited in rate": {"rate_max": 1_000, "rate_ms": 1_000, "rate_per": "queue"},
    "limited in rate by partition": {"rate_max": 1_000, "rate_ms": 1_000, "rate_per": "partition"},
    "limited in concurrency": {"ordered": False, "concurrency_limit": 100},
}
