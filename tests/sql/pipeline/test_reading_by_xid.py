"""Consecutive ranges of transactions return every segment once, and each partition in order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import configure, partition_ids, push, run
from tests.support.clock import Clock

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

Connect = Callable[[], Awaitable["Connection"]]


@pytest.fixture
async def connect(dsn: str) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def connect() -> "Connection":
            connection = await asyncpg.connect(dsn)
            stack.push_async_callback(connection.close)
            return connection

        yield connect


async def partitions(connection: "Connection", *names: str) -> list[int]:
    """The IDs of a queue's partitions."""
    await run(connection, configure("orders"))
    return [row["partition_id"] for row in await run(connection, partition_ids("orders", *names))]


async def queue_id(connection: "Connection") -> int:
    return (await run(connection, ("pipeline_queue", "orders")))[0]["id"]


async def horizon(connection: "Connection") -> int:
    return (await run(connection, ("horizon",)))[0]["xid"]


Position = tuple[int, int, int]


async def planned(
    connection: "Connection",
    start: int | Position,
    end: int,
    *limits: int | None,
    is_whole: bool = False,
) -> tuple[Position, bool] | None:
    """The end of a batch, and whether it is inside a transaction."""
    queue = await queue_id(connection)
    messages, size_bytes = (*limits, None, None)[:2]
    begin = (start, 0, 0) if isinstance(start, int) else start
    asked = ("plan_batch", queue, *begin, end, messages, size_bytes, is_whole)
    for row in await run(connection, asked):
        return (row["xid"], row["partition_id"], row["end_offset"]), row["is_split"]
    return None


async def parts(connection: "Connection", end: int, tasks: int, least: int = 1) -> list[Position]:
    """Where the parts of everything begin."""
    queue = await queue_id(connection)
    rows = await run(connection, ("split_batch", queue, 0, 0, 0, end, 0, 0, tasks, least))
    return [(row["xid"], row["partition_id"], row["base_offset"]) for row in rows]


async def blocked(connection: "Connection", pid: int) -> None:
    """Wait until another connection waits for a lock."""
    async with asyncio.timeout(10):
        while not await connection.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_xids_never_decrease_in_a_partition_even_if_commits_were_out_of_order(
    connect: Connect,
) -> None:
    holder, waiting, watcher, fast = [await connect() for _ in range(4)]
    one, two, three = await partitions(watcher, "a", "b", "c")
    async with holder.transaction():
        await run(holder, push(two))
        # It has its xid from the first partition, and waits for the second.
        late = asyncio.create_task(run(waiting, push(one, two, three)))
        await blocked(watcher, waiting.get_server_pid())
        # Its xid is higher, and its message in the third partition is first.
        await run(fast, push(three))
    await late

    rows = await watcher.fetch(
        "select base_offset, xid::text::bigint as xid from queen.segments"
        " where partition_id = $1 order by base_offset",
        three,
    )
    own = await watcher.fetchval(
        "select min(xid::text::bigint) from queen.segments where partition_id = $1", one
    )

    assert len(rows) == 2
    assert own < rows[0]["xid"]  # Their order differs …
    assert rows[1]["xid"] == rows[0]["xid"]  # … but a reader gets them in one step.


async def test_a_batch_ends_before_the_transaction_that_exceeds_its_limit(
    connect: Connect,
) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    xids: list[int] = []
    for _ in range(5):
        (row,) = await run(connection, push(partition_id))
        xids.append(row["xid"])
    end = await horizon(connection)

    ends = [((xid, partition_id, number), False) for number, xid in enumerate(xids, 1)]
    assert await planned(connection, 0, end) == ends[4]
    assert await planned(connection, 0, end, 2) == ends[1]
    assert await planned(connection, ends[1][0], end, 2) == ends[3]
    assert await planned(connection, ends[3][0], end, 2) == ends[4]
    assert await planned(connection, 0, end, 0) == ends[0]  # At least one.
    assert await planned(connection, 0, end, None, 5) == ends[1]  # Payloads have two bytes.
    assert await planned(connection, ends[4][0], end, 2) is None  # No transaction is left.


async def test_a_batch_ends_inside_a_transaction_only_if_that_exceeds_its_limit(
    connect: Connect,
) -> None:
    connection = await connect()
    ids = await partitions(connection, *"abcdef")
    (small,) = await run(connection, push(ids[0]))
    large = (await run(connection, push(*ids)))[0]["xid"]
    (after,) = await run(connection, push(ids[1]))
    end = await horizon(connection)
    first = (small["xid"], ids[0], 1)
    whole = (large, ids[5], 1)

    assert await planned(connection, 0, end, 5) == (first, False)  # Then it begins a batch …
    assert await planned(connection, first, end, 5) == ((large, ids[4], 1), True)
    assert await planned(connection, (large, ids[4], 1), end, 5) == (
        (after["xid"], ids[1], 2),
        False,
    )
    assert await planned(connection, first, end, 6) == (whole, False)  # … or fits into one.
    assert await planned(connection, first, end, 5, is_whole=True) == (whole, False)


async def test_a_large_transaction_is_split_into_parts(connect: Connect) -> None:
    connection = await connect()
    ids = await partitions(connection, *"abcdefgh")
    (small,) = await run(connection, push(ids[0]))
    large = (await run(connection, push(*ids)))[0]["xid"]
    end = await horizon(connection)

    found = await parts(connection, end, 4)

    assert found[0] == (small["xid"], 0, 0)
    assert {xid for xid, _, _ in found[1:]} == {large}
    assert len(found) == 4


async def test_a_batch_does_not_pass_an_open_transaction(connect: Connect) -> None:
    writer, reader = await connect(), await connect()
    one, two = await partitions(reader, "a", "b")
    async with writer.transaction():
        (row,) = await run(writer, push(one))
        await run(reader, push(two))

        end = await horizon(reader)

        assert end <= row["xid"]
    assert await horizon(reader) > row["xid"]


async def test_the_parts_of_a_batch_are_about_equal(connect: Connect) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    xids = [(await run(connection, push(partition_id)))[0]["xid"] for _ in range(12)]
    end = await horizon(connection)

    assert [xid for xid, _, _ in await parts(connection, end, 4)] == xids[::3]
    assert [xid for xid, _, _ in await parts(connection, end, 4, 6)] == xids[::6]


async def test_a_time_is_found_among_the_transactions(connect: Connect, clock: Clock) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    rows: list[asyncpg.Record] = []
    for _ in range(6):
        rows += await run(connection, push(partition_id))
        await clock.advance(seconds=60)
    queue = await queue_id(connection)

    found = [
        (await run(connection, ("xid_at", queue, row["created_at"], True)))[0]["xid"]
        for row in rows
    ]
    after = await run(
        connection, ("xid_at", queue, rows[-1]["created_at"] + timedelta(days=1), True)
    )

    before = [-1, *(row["xid"] for row in rows)]
    assert all(low < at <= row["xid"] for low, at, row in zip(before, found, rows, strict=False))
    assert after[0]["xid"] > rows[-1]["xid"]


async def missed(
    connection: "Connection", at: int | Position, since: int, ids: list[int] | None = None
) -> bool:
    queue = await queue_id(connection)
    begin = (at, 0, 0) if isinstance(at, int) else at
    return (await run(connection, ("missed", queue, *begin, since, ids)))[0]["is_missed"]


async def purge(connection: "Connection", partition_id: int, end: int) -> None:
    await connection.fetch(
        "select c.* from queen.queues q, queen.cut($1, q.id, $2, 1000, 'age') c"
        " where q.name = 'orders'",
        partition_id,
        end,
    )


async def test_a_reader_detects_messages_that_were_removed_before_it_read_them(
    connect: Connect,
) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    xids = [(await run(connection, push(partition_id)))[0]["xid"] for _ in range(3)]
    since = await horizon(connection)
    assert not await missed(connection, 0, since)

    await purge(connection, partition_id, 2)

    assert await missed(connection, 0, since)
    assert await missed(connection, xids[1], since)
    assert not await missed(connection, xids[2], since)  # It had read them.
    assert await missed(connection, (xids[1], partition_id, 1), since)
    assert not await missed(connection, (xids[1], partition_id, 2), since)
    assert not await missed(connection, 0, await horizon(connection))  # It began later.


async def test_a_loss_is_known_after_its_record_is_removed(connect: Connect) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    xids = [(await run(connection, push(partition_id)))[0]["xid"] for _ in range(3)]
    since = await horizon(connection)
    await purge(connection, partition_id, 2)
    (duty,) = await connection.fetch(
        "insert into queen.duties (name, epoch) values ('retention', 7)"
        " on conflict (name) do update set epoch = 7 returning epoch"
    )

    await connection.fetch("select queen.forget_removals($1, -1.0, 100)", duty["epoch"])

    assert await connection.fetchval("select count(*) from queen.removals") == 0
    assert await missed(connection, xids[1], since)
    assert not await missed(connection, xids[2], since)
    assert await missed(connection, (xids[1], partition_id, 1), since)
    assert not await missed(connection, (xids[1], partition_id, 2), since)


async def test_a_reader_of_one_partition_misses_nothing_of_another(connect: Connect) -> None:
    connection = await connect()
    ours, other = await partitions(connection, "a", "b")
    await run(connection, push(ours, other))
    since = await horizon(connection)

    await purge(connection, other, 1)

    assert await missed(connection, 0, since)
    assert await missed(connection, 0, since, [other])
    assert not await missed(connection, 0, since, [ours])
    # A partition that is gone may have had the name of one that is read.
    await connection.execute("delete from queen.segments where partition_id = $1", other)
    await connection.execute("delete from queen.partitions where id = $1", other)
    assert await missed(connection, 0, since, [ours])
