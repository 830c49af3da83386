"""Staged rows of tasks are published to the log completely, and once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import asyncpg
import pytest

from queen.codec.segment import encode
from tests.sql.calls import configure, partition_ids, run

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

Connect = Callable[[], Awaitable["Connection"]]

STAGE = """
insert into queen.staged (write_id, entry, partition_id, message_count, staged_at, body, ends)
values ($1, $2, $3, $4, now(), $5, $6)
"""


@pytest.fixture
async def connect(dsn: str) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def connect() -> "Connection":
            connection = await asyncpg.connect(dsn)
            stack.push_async_callback(connection.close)
            return connection

        yield connect


async def partitions(connection: "Connection", *names: str, **options: object) -> list[int]:
    await run(connection, configure("orders", **options))
    return [row["partition_id"] for row in await run(connection, partition_ids("orders", *names))]


async def stage(connection: "Connection", *entries: tuple[int, Sequence[bytes]]) -> UUID:
    """Stage the rows of one task attempt: segments with a partition and payloads each."""
    write = uuid4()
    for number, (partition_id, payloads) in enumerate(entries):
        await connection.execute(
            STAGE, write, number, partition_id, len(payloads), *encode(payloads)
        )
    return write


async def publish(
    connection: "Connection",
    version: int,
    *writes: tuple[UUID, int],
    app: str | None = "app",
    queue: str = "orders",
    query: str | None = None,
    fingerprint: str | None = None,
) -> tuple[str, int | None]:
    ids, counts = [write for write, _ in writes], [count for _, count in writes]
    queue_id = (await run(connection, ("pipeline_queue", queue)))[0]["id"]
    batch = (app, queue_id, version, ids, counts, query, fingerprint)
    (row,) = await run(connection, ("publish", *batch))
    return row["outcome"], row["messages"]


async def log(connection: "Connection", partition_id: int) -> list[str]:
    rows = await connection.fetch(
        'select payload from queen.messages where partition_id = $1 order by "offset"', partition_id
    )
    return [row["payload"] for row in rows]


async def test_staged_rows_are_visible_after_publishing(connect: Connect) -> None:
    connection = await connect()
    one, two = await partitions(connection, "a", "b")
    first = await stage(connection, (one, [b"1", b"2"]), (two, [b"3"]))
    second = await stage(connection, (one, [b"4"]))
    assert await log(connection, one) == []

    answer = await publish(connection, 0, (first, 2), (second, 1))

    assert answer == ("published", 4)
    assert await log(connection, one) == ["1", "2", "4"]
    assert await log(connection, two) == ["3"]
    assert await connection.fetchval("select count(*) from queen.staged") == 0


async def test_a_batch_is_published_once_for_any_tasks(connect: Connect) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    await publish(connection, 3, (await stage(connection, (partition_id, [b"1"])), 1))

    again = await publish(connection, 3, (await stage(connection, (partition_id, [b"2"])), 1))
    before = await publish(connection, 2, (await stage(connection, (partition_id, [b"3"])), 1))
    after = await publish(connection, 4, (await stage(connection, (partition_id, [b"4"])), 1))

    assert (again, before, after) == (("replayed", None), ("replayed", None), ("published", 1))
    assert await log(connection, partition_id) == ["1", "4"]
    assert await connection.fetchval("select count(*) from queen.staged") == 0


async def test_an_application_numbers_its_batches_per_queue(connect: Connect) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    await run(connection, configure("others"))
    rows = await run(connection, partition_ids("others", "a"))
    other = rows[0]["partition_id"]
    await publish(connection, 0, (await stage(connection, (partition_id, [b"1"])), 1))

    write = await stage(connection, (other, [b"1"]))
    answer = await publish(connection, 0, (write, 1), queue="others")

    assert answer == ("published", 1)
    assert await log(connection, other) == ["1"]


async def test_a_batch_of_another_query_is_not_taken_for_a_repeated_one(connect: Connect) -> None:
    """Its checkpoint is new, so its batches have the same numbers and other messages."""
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    await publish(connection, 0, (await stage(connection, (partition_id, [b"1"])), 1), query="one")

    again, other = [
        await publish(
            connection, 0, (await stage(connection, (partition_id, [b"2"])), 1), query=query
        )
        for query in ("one", "two")
    ]
    await connection.execute(
        "insert into queen.streams (app_id, queue_id, start_xid, since_xid, began_at)"
        " select 'app', id, '3', '3', now() from queen.queues"
    )
    named = await publish(
        connection, 0, (await stage(connection, (partition_id, [b"3"])), 1), query="two"
    )

    assert (again[0], other[0]) == ("replayed", "foreign")
    assert named[0] == "replayed"  # The plans of its batches are stored, so they are the same.
    assert await log(connection, partition_id) == ["1"]


async def test_a_query_repeats_only_its_last_batch_with_the_same_messages(
    connect: Connect,
) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")

    async def outcome(version: int, fingerprint: str, query: str | None = "one") -> str:
        write = await stage(connection, (partition_id, [b"1"]))
        batch = (write, 1)
        row = await publish(connection, version, batch, query=query, fingerprint=fingerprint)
        return row[0]

    assert [await outcome(version, "x") for version in (3, 4)] == ["published", "published"]
    assert [await outcome(4, each) for each in ("x", "y")] == ["replayed", "changed"]
    assert [await outcome(3, "x"), await outcome(3, "x", None)] == ["changed", "replayed"]
    assert await log(connection, partition_id) == ["1", "1"]
    assert await connection.fetchval("select count(*) from queen.staged") == 0

    # An earlier release has stored no fingerprint.
    await connection.execute("update queen.publications set fingerprint = null")
    assert await outcome(4, "y") == "replayed"


async def test_two_drivers_with_one_batch_publish_it_once(connect: Connect) -> None:
    first, second = await connect(), await connect()
    (partition_id,) = await partitions(first, "a")
    mine, theirs = [await stage(first, (partition_id, [text])) for text in (b"1", b"2")]

    async with first.transaction():
        assert await publish(first, 0, (mine, 1)) == ("published", 1)
        waiting = asyncio.create_task(publish(second, 0, (theirs, 1)))
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()

    assert await waiting == ("replayed", None)
    assert await log(first, partition_id) == ["1"]


async def test_a_batch_with_rows_lost_in_a_crash_is_not_published_partly(connect: Connect) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    whole = await stage(connection, (partition_id, [b"1"]))
    cut = await stage(connection, (partition_id, [b"2"]))

    answer = await publish(connection, 0, (whole, 1), (cut, 2))

    assert answer == ("lost", None)
    assert await log(connection, partition_id) == []
    assert await publish(connection, 0, (whole, 1)) == ("published", 1)


async def test_plaintext_is_not_published_to_an_encrypted_queue(connect: Connect) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a", encrypted=True)
    write = await stage(connection, (partition_id, [b"1"]))

    with pytest.raises(asyncpg.PostgresError) as raised:
        await publish(connection, 0, (write, 1))

    assert raised.value.sqlstate == "QN017"
    assert await log(connection, partition_id) == []


async def test_a_removed_partition_stops_the_whole_batch(connect: Connect) -> None:
    connection = await connect()
    one, two = await partitions(connection, "a", "b")
    write = await stage(connection, (one, [b"1"]), (two, [b"2"]))
    await connection.execute("delete from queen.partitions where id = $1", two)

    with pytest.raises(asyncpg.PostgresError) as raised:
        await publish(connection, 0, (write, 2))

    assert raised.value.sqlstate == "QN004"
    assert await log(connection, one) == []


async def test_a_large_batch_is_published_in_pieces_and_in_order(connect: Connect) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    big = b'"' + b"x" * 20_000_000
    write = await stage(connection, *((partition_id, [big + b'%d"' % n]) for n in range(4)))

    assert await publish(connection, 0, (write, 4)) == ("published", 4)
    assert [text[-2] for text in await log(connection, partition_id)] == ["0", "1", "2", "3"]


async def test_a_write_without_a_name_is_not_recorded(connect: Connect) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")

    for text in (b"1", b"2"):
        write = await stage(connection, (partition_id, [text]))
        assert await publish(connection, 0, (write, 1), app=None) == ("published", 1)

    assert await log(connection, partition_id) == ["1", "2"]
    assert await connection.fetchval("select count(*) from queen.publications") == 0


async def test_rows_that_were_never_published_are_removed_later(connect: Connect) -> None:
    connection = await connect()
    (partition_id,) = await partitions(connection, "a")
    await stage(connection, (partition_id, [b"1"]))

    assert (await run(connection, ("forget_staged", 60.0, 10)))[0]["removed"] == 0
    assert (await run(connection, ("forget_staged", -60.0, 10)))[0]["removed"] == 1
