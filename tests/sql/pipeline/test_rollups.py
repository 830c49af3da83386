"""
A row of the history is replaced only by one with at least as many events. No minute is missed.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from queen import sql
from tests.sql.calls import configure, partition_ids, push, run
from tests.support.clock import Clock

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

Connect = Callable[[], Awaitable["Connection"]]
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EVENTS = (
    "duplicates",
    "popped",
    "acked",
    "nacked",
    "dead_lettered",
    "expired",
    "evicted",
    "leases_expired",
)
EMPTY: dict[str, Any] = {
    **dict.fromkeys(("pushed", "bytes", *EVENTS, "samples", "depth_sum"), 0),
    **{"wait_bins": [], "wait_counts": [], "processing_bins": [], "processing_counts": []},
}


@pytest.fixture
async def connect(dsn: str) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def connect() -> "Connection":
            settings = {"deadlock_timeout": "20ms", "lock_timeout": "20s"}
            connection = await asyncpg.connect(dsn, server_settings=settings)
            stack.push_async_callback(connection.close)
            return connection

        yield connect


@pytest.fixture
async def connection(connect: Connect, clock: Clock) -> "Connection":
    connection = await connect()
    await run(connection, configure("orders"))
    return connection


def row(xid: int, **figures: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    key = {"queue_id": 1, "grain_seconds": 60, "at": BEGIN.isoformat(), "group_id": 0}
    return {**EMPTY, **key, "xid": xid, **figures}


async def keep(connection: "Connection", *rows: dict[str, Any]) -> int:
    return (await run(connection, ("roll_up", json.dumps(rows))))[0]["written"]


async def count(connection: "Connection", minute: datetime) -> None:
    rows = json.dumps([{**EMPTY, "queue_id": 1, "group_id": 0}])
    await run(connection, ("count", 1, minute, rows))


async def plan(connection: "Connection", since: datetime | None = None) -> asyncpg.Record:
    (planned,) = await run(connection, ("plan_rollup", since))
    return planned


async def mark(connection: "Connection", planned: asyncpg.Record) -> None:
    await run(connection, ("mark_rollup", planned["planned_at"], planned["end_xid"]))


@pytest.mark.parametrize(
    ("newer", "is_written"),
    [
        (row(10, popped=5, samples=2), True),
        (row(11, popped=6, samples=2), True),
        (row(9, popped=6, samples=2), False),
        (row(11, popped=4, samples=2), False),
        (row(11, popped=5, samples=1), False),
        (row(11, acked=5, samples=2), True),
    ],
)
async def test_a_row_is_replaced_by_one_with_as_many_events(
    connection: "Connection", newer: dict[str, Any], *, is_written: bool
) -> None:
    assert await keep(connection, row(10, popped=5, samples=2)) == 1

    assert await keep(connection, newer) == is_written
    found = await connection.fetchrow("select xid::text::int as xid, popped from queen.rollups")
    assert found is not None
    assert found["xid"] == (newer["xid"] if is_written else 10)
    assert found["popped"] == (newer["popped"] if is_written else 5)


async def test_the_count_of_pushed_messages_never_decreases(connection: "Connection") -> None:
    await keep(connection, row(10, pushed=5, bytes=50))
    await keep(connection, row(11, pushed=3, bytes=60, popped=7))

    found = await connection.fetchrow("select pushed, bytes, popped from queen.rollups")
    assert found is not None
    assert tuple(found) == (5, 60, 7)


async def test_a_deleted_queue_gets_no_rows(connection: "Connection") -> None:
    await connection.execute("select queen.delete_queue('orders')")

    assert await keep(connection, row(10, pushed=5)) == 0


async def test_concurrent_writers_of_the_same_rows_do_not_block_each_other(
    connect: Connect, connection: "Connection"
) -> None:
    rng = random.Random(3)
    times = [(BEGIN + n * MINUTE).isoformat() for n in range(50)]

    async def keep_some(connection: "Connection", xid: int) -> None:
        for _ in range(10):
            rng.shuffle(times)
            await keep(connection, *(row(xid, at=at) for at in times))

    connections = [await connect() for _ in range(4)]
    await asyncio.gather(*(keep_some(each, xid) for xid, each in enumerate(connections, start=3)))

    assert await connection.fetchval("select count(*) from queen.rollups where xid = '6'") == 50


async def test_a_run_begins_before_the_end_of_the_last_one(
    connection: "Connection", clock: Clock
) -> None:
    await count(connection, BEGIN)
    await clock.advance(seconds=3_630)
    first = await plan(connection)
    assert (first["start_at"], first["end_at"]) == (BEGIN, BEGIN + 60 * MINUTE)
    assert first["start_xid"] == 0
    await mark(connection, first)

    await clock.advance(seconds=600)
    second = await plan(connection)
    assert second["start_at"] == BEGIN + 45 * MINUTE
    assert second["end_at"] == BEGIN + 70 * MINUTE
    assert second["end_xid"] > first["end_xid"]
    # The first mark is too recent.
    assert second["start_xid"] == 0
    await mark(connection, second)
    await clock.advance(seconds=3_600)
    assert (await plan(connection, BEGIN))["start_at"] == BEGIN
    await mark(connection, await plan(connection))
    await clock.advance(seconds=3_600)
    # The second mark was removed.
    assert (await plan(connection))["start_xid"] == first["end_xid"]


async def test_messages_pushed_long_ago_that_commit_now_are_included(
    connect: Connect, connection: "Connection", clock: Clock
) -> None:
    (partition_id,) = [
        r["partition_id"] for r in await run(connection, partition_ids("orders", "a"))
    ]
    other = await connect()
    transaction = other.transaction()
    await transaction.start()
    await run(other, push(partition_id))
    await clock.advance(seconds=2 * 3_600)
    planned = await plan(connection)
    await mark(connection, planned)
    await clock.advance(seconds=3_600)
    await transaction.commit()

    again = await plan(connection)
    assert again["start_at"] == BEGIN
    assert again["start_xid"] < again["end_xid"]
    await mark(connection, again)
    assert (await plan(connection))["start_at"] > BEGIN + timedelta(hours=2)


async def test_a_late_minute_is_reported_until_a_run_has_finished(
    connection: "Connection", clock: Clock
) -> None:
    await clock.advance(seconds=3_600)
    await mark(connection, await plan(connection))
    await count(connection, BEGIN + 55 * MINUTE)  # Five minutes late, which the next run covers.
    await count(connection, BEGIN + 5 * MINUTE)

    planned = await plan(connection)
    assert planned["late"] == [BEGIN + 5 * MINUTE]
    # Stored again while that run is in progress.
    await count(connection, BEGIN + 5 * MINUTE)
    await mark(connection, planned)
    again = await plan(connection)
    assert again["late"] == [BEGIN + 5 * MINUTE]
    await mark(connection, again)
    assert (await plan(connection))["late"] == []


async def test_marks_are_thinned_to_one_per_hour(connection: "Connection", clock: Clock) -> None:
    for _ in range(60):
        await clock.advance(seconds=300)
        await mark(connection, await plan(connection))

    marks = await connection.fetch("select date_trunc('hour', at) as hour from queen.rollup_marks")
    hours = [each["hour"] for each in marks]
    assert len(set(hours)) == 6
    assert len(hours) < 6 + 13


async def test_rows_are_removed_in_steps(connection: "Connection", clock: Clock) -> None:
    await keep(connection, *(row(3, at=(BEGIN + n * MINUTE).isoformat()) for n in range(30)))
    await keep(connection, row(3, grain_seconds=3_600))
    await clock.advance(seconds=100 * 60)

    removed = [
        (await run(connection, ("forget_rollups", 60, 80.0 * 60, 8)))[0]["removed"]
        for _ in range(4)
    ]
    assert removed == [8, 8, 5, 0]
    assert await connection.fetchval(
        "select min(at) from queen.rollups where grain_seconds = 60"
    ) == (BEGIN + 21 * MINUTE)


async def test_after_a_restore_the_history_stays_and_continues(
    connection: "Connection", clock: Clock
) -> None:
    far = 10**9
    await keep(connection, row(far, popped=5))
    await run(connection, ("mark_rollup", BEGIN, far))

    assert await connection.fetchval("select queen.renumber()")
    planned = await plan(connection)
    assert planned["start_xid"] == 0
    assert await keep(connection, row(planned["end_xid"], popped=6)) == 1


async def test_the_pipeline_role_may_run_all_statements(connect: Connect) -> None:
    connection = await connect()
    await run(connection, configure("orders"))
    await connection.execute(sql.ROLES + sql.GRANTS)
    await count(connection, BEGIN - timedelta(days=10_000))
    await connection.execute("set role queen_pipeline")
    for call in (
        ("rollup_log", 0, 10, BEGIN, BEGIN),
        ("rollup_counters", BEGIN, BEGIN, 3),
        ("rollup_samples", BEGIN, BEGIN),
        ("rollups", 60, BEGIN, BEGIN),
        ("forget_rollups", 60, 0.0, 10),
    ):
        await run(connection, call)
    assert [await keep(connection, row(xid)) for xid in (3, 4)] == [1, 1]
    await mark(connection, await plan(connection))
    assert (await plan(connection))["late"] == []
