"""Uncommitted changes of other transactions are neither missed nor overtaken."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import Call, ack, configure, leases, partition_ids, pop, push, run, subscribe

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

Connect = Callable[[], Awaitable["Connection"]]

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ERASE: Call = ("erase", 1_000)
TABLES = ("partitions", "groups", "consumers", "deliveries", "segments")


@pytest.fixture
async def connect(dsn: str) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def connect() -> "Connection":
            settings = {"deadlock_timeout": "20ms", "lock_timeout": "20s"}
            connection = await asyncpg.connect(dsn, server_settings=settings)
            stack.push_async_callback(connection.close)
            return connection

        yield connect


async def queue(connection: "Connection", **options: object) -> tuple[int, int]:
    """Create a queue with a group and a partition, and return their IDs."""
    await run(connection, configure("orders", **options))
    (row,) = await run(connection, partition_ids("orders", "a"))
    (group,) = await run(connection, subscribe("orders", "workers"))
    return group["group_id"], row["partition_id"]


@asynccontextmanager
async def open_transaction(connection: "Connection", call: Call) -> AsyncGenerator[None]:
    """Run a call that commits at the end of the block."""
    async with connection.transaction():
        await run(connection, call)
        yield


async def is_through_or_waits(
    watcher: "Connection", connection: "Connection", task: "asyncio.Task[list[asyncpg.Record]]"
) -> None:
    async with asyncio.timeout(10):
        pid = connection.get_server_pid()
        while not task.done():
            if await watcher.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):
                return


async def erase_all(connection: "Connection") -> list[asyncpg.Record]:
    while True:
        rows = await run(connection, ERASE)
        if rows[0]["is_done"]:
            return rows


async def left(connection: "Connection") -> dict[str, int]:
    """The number of rows, by table."""
    return {
        name: count
        for name in TABLES
        if (count := await connection.fetchval(f"select count(*) from queen.{name}"))
    }


# --- delete


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("what", ["queue", "group"])
async def test_a_concurrent_claim_leaves_no_rows_of_a_deleted_queue_or_group(
    connect: Connect, what: str, is_ordered: bool
) -> None:
    popper, eraser, watcher = [await connect() for _ in range(3)]
    group_id, partition_id = await queue(watcher, ordered=is_ordered)
    await run(watcher, push(partition_id))
    deletion: Call = (
        ("delete_queue", "orders") if what == "queue" else ("delete_group", "orders", "workers")
    )

    async with open_transaction(popper, pop(group_id)):
        await run(watcher, deletion)
        erasing = asyncio.create_task(erase_all(eraser))
        await is_through_or_waits(watcher, eraser, erasing)
    await erasing

    expected = {} if what == "queue" else {"partitions": 1, "segments": 1}
    assert await left(watcher) == expected


@pytest.mark.parametrize("what", ["queue", "group"])
async def test_a_concurrently_created_partition_leaves_no_rows_of_a_deleted_queue(
    connect: Connect, what: str
) -> None:
    maker, eraser, watcher = [await connect() for _ in range(3)]
    await queue(watcher)

    async def delete() -> list[asyncpg.Record]:
        if what == "queue":
            await run(eraser, ("delete_queue", "orders"))
        else:
            await run(eraser, ("delete_group", "orders", "workers"))
        return await erase_all(eraser)

    async with open_transaction(maker, partition_ids("orders", "b")):
        deleting = asyncio.create_task(delete())
        await is_through_or_waits(watcher, eraser, deleting)
    await deleting

    assert await left(watcher) == ({} if what == "queue" else {"partitions": 2})


async def test_a_group_is_not_created_in_a_queue_that_is_being_deleted(connect: Connect) -> None:
    deleter, maker, watcher = [await connect() for _ in range(3)]
    await queue(watcher)

    async with open_transaction(deleter, ("delete_queue", "orders")):
        making = asyncio.create_task(run(maker, subscribe("orders", "late")))
        await is_through_or_waits(watcher, maker, making)
    assert await making == []
    await erase_all(watcher)

    assert await left(watcher) == {}


async def test_a_long_queue_is_erased_in_steps(connect: Connect) -> None:
    connection = await connect()
    _, partition_id = await queue(connection)
    await run(connection, push(*[partition_id] * 4_500))
    await run(connection, ("delete_queue", "orders"))

    steps = 1
    while not (await run(connection, ERASE))[0]["is_done"]:
        steps += 1

    assert steps == 4
    assert await left(connection) == {}


# --- due messages


async def schedule(connection: "Connection", partition_id: int, *delays: float) -> int:
    """
    Schedule messages that become due one after the other, all in the past. Returns the queue's ID.
    """
    dues = [LONG_AGO + timedelta(seconds=delay) for delay in delays]
    await run(connection, push(scheduled=[(partition_id, due) for due in dues]))
    return await connection.fetchval("select id from queen.queues")


async def test_scheduled_messages_keep_their_order_among_concurrent_pops(connect: Connect) -> None:
    pusher, first, second, watcher = [await connect() for _ in range(4)]
    group_id, partition_id = await queue(watcher)
    await schedule(watcher, partition_id, *range(1_500))
    named = "update queen.scheduled set payload = convert_to(id::text, 'UTF8')"
    await watcher.execute(named)

    async with first.transaction():
        async with open_transaction(pusher, push(partition_id)):
            await run(first, pop(group_id, is_due_first=True))
        await run(second, pop(group_id, is_due_first=True))
    await run(second, pop(group_id, is_due_first=True))

    stored = await watcher.fetch(
        "select convert_from(queen.payload_at(s.body, s.ends, i), 'UTF8')::integer as id"
        " from queen.segments s cross join generate_series(0, s.message_count - 1) i"
        " where s.base_offset > 0 order by s.base_offset, i"
    )
    ids = [row["id"] for row in stored]
    assert len(ids) == 1_500
    assert ids == sorted(ids)


async def test_a_locked_scheduled_message_is_not_overtaken(
    connect: Connect,
) -> None:
    holder, popper, watcher = [await connect() for _ in range(3)]
    group_id, partition_id = await queue(watcher)
    await schedule(watcher, partition_id, 1, 2, 3)

    async with holder.transaction():
        await holder.fetch("select 1 from queen.scheduled where id = 2 for update")
        popped = await run(popper, pop(group_id, batch=10, is_due_first=True))

    assert [(row["first_offset"], row["end_offset"]) for row in popped[:-1]] == [(0, 1)]
    assert await watcher.fetchval("select count(*) from queen.scheduled") == 2


async def test_a_scheduled_message_that_expires_unread_is_counted(connect: Connect) -> None:
    connection = await connect()
    group_id, partition_id = await queue(connection)
    await schedule(connection, partition_id, 1, 2)
    await connection.execute("update queen.scheduled set ttl_seconds = 5")

    popped = await run(connection, pop(group_id, batch=10, is_due_first=True))

    assert [row["expired"] for row in popped] == [2]


async def test_due_messages_of_a_queue_that_is_being_deleted_fail_no_pop(
    connect: Connect,
) -> None:
    connection = await connect()
    _, partition_id = await queue(connection)
    queue_id = await schedule(connection, partition_id, 1)
    await run(connection, ("delete_queue", "orders"))

    # A pop that has just read the queue.
    promoted = await connection.fetchrow("select * from queen.promote($1, 1000)", queue_id)

    assert promoted is not None
    assert tuple(promoted) == (0, 0)


# --- a change of order


async def test_a_change_to_ordered_waits_for_a_concurrent_claim(
    connect: Connect,
) -> None:
    popper, other, watcher = [await connect() for _ in range(3)]
    group_id, partition_id = await queue(watcher, ordered=False)
    await run(watcher, push(partition_id, partition_id))

    async with popper.transaction():
        (lease,) = leases(await run(popper, pop(group_id)))
        await run(watcher, configure("orders", ordered=True))
    for is_auto in (False, True):
        popped = await run(other, pop(group_id, is_auto=is_auto))
        assert [row["request"] for row in popped] == [None]
        assert 0 < popped[-1]["wait_seconds"] <= 1

    await run(other, ack(lease))
    await watcher.execute("update queen.consumers set ready_at = queen.now()")
    (second,) = leases(await run(other, pop(group_id)))
    assert second != lease
    assert await watcher.fetchval("select count(*) from queen.deliveries") == 1


async def test_a_change_of_order_ends_with_the_last_earlier_delivery(connect: Connect) -> None:
    connection = await connect()
    group_id, partition_id = await queue(connection, ordered=False)
    await run(connection, push(partition_id))
    await run(connection, configure("orders", ordered=True))
    changed = "select order_changed_at is not null from queen.queues"
    assert await connection.fetchval(changed)

    await run(connection, pop(group_id, is_auto=True))
    assert await connection.fetchval(changed)
    await connection.execute(
        "update queen.queues set order_changed_at = order_changed_at - interval '2 minutes'"
    )
    await run(connection, pop(group_id))

    assert not await connection.fetchval(changed)
