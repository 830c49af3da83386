"""Retention removes old messages by their queue's policy, and keeps protected ones."""

from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.engine.upkeep.loop import Upkeep
from queen.settings import Settings
from tests.engine.helpers import ack, drain, pop, pop_one, push, settle, values
from tests.support.clock import Clock

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

BY_AGE = {"retention_enabled": True, "retention_seconds": 60}
COMPLETED = {"retention_enabled": True, "completed_retention_seconds": 60}
INTERVAL = 10


@pytest.fixture
async def upkeep(engine: Engine) -> Upkeep:
    return Upkeep(engine.core, Settings(retention_interval_ms=INTERVAL * 1_000))


async def stored(engine: Engine, queue: str = "orders") -> list[int]:
    """Offsets whose payloads are stored, of all partitions."""
    rows = await engine.store.database.fetch("queues", [queue])
    found = await fetch(
        engine,
        """
        select s.base_offset + i as "offset"
        from queen.segments s cross join generate_series(0, s.message_count - 1) i
        where s.queue_id = $1 and s.body is not null order by s.partition_id, 1
        """,
        rows[0]["id"],
    )
    return [row["offset"] for row in found]


async def fetch(engine: Engine, text: str, *arguments: object) -> list[Any]:
    connection = await asyncpg.connect(engine.store.database.dsn)
    try:
        return await connection.fetch(text, *arguments)
    finally:
        await connection.close()


async def sweep(upkeep: Upkeep, clock: Clock, *, seconds: float = INTERVAL + 1) -> None:
    """Advance the clock, and run the background tasks that are due."""
    await clock.advance(seconds=seconds)
    while await upkeep.look():
        pass


async def test_messages_older_than_the_retention_of_their_queue_are_removed(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", BY_AGE)
    await push(engine, "orders", "a")
    await push(engine, "orders", "b")
    await clock.advance(seconds=30)
    await push(engine, "orders", "c")

    await sweep(upkeep, clock, seconds=29)
    assert await stored(engine) == [0, 1, 2]
    await sweep(upkeep, clock, seconds=11)

    assert await stored(engine) == [2]
    assert await drain(engine, "orders") == ["c"]


async def test_without_retention_no_message_is_removed(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure(
        "orders", {"retention_seconds": 60, "completed_retention_seconds": 60}
    )
    await push(engine, "orders", "a")
    await sweep(upkeep, clock, seconds=1_000)

    assert await stored(engine) == [0]


async def test_the_newest_row_stays_so_that_offsets_continue(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", BY_AGE)
    await push(engine, "orders", "a", "b")
    await sweep(upkeep, clock, seconds=100)
    assert await stored(engine) == []

    (pushed,) = await push(engine, "orders", "c")

    assert pushed.offset == 2
    assert await drain(engine, "orders") == ["c"]


async def test_leased_messages_and_those_waiting_for_their_next_attempt_stay(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", {**BY_AGE, "lease_seconds": 3_600})
    for value in range(4):
        await push(engine, "orders", value)
    await push(engine, "orders", "x", partition="other")
    held = await pop_one(engine, "orders", partition="Default", group="g", batch=2)
    waiting = await pop_one(engine, "orders", partition="other", group="g")
    await settle(engine, waiting, status="retry", delay_seconds=1_000)
    await settle(engine, held, 0)

    await sweep(upkeep, clock, seconds=100)
    # The messages behind it stay too, because a partition has no gaps.
    assert await stored(engine) == [1, 2, 3, 0]
    await ack(engine, held)
    await sweep(upkeep, clock)
    assert await stored(engine) == [0]
    await sweep(upkeep, clock, seconds=1_000)

    assert values(await pop_one(engine, "orders", group="g")) == ["x"]


async def test_a_group_that_had_not_read_removed_messages_continues_behind_them(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", BY_AGE)
    await push(engine, "orders", "a", "b", "c")
    first = await pop_one(engine, "orders", group="g")
    await ack(engine, first)
    await sweep(upkeep, clock, seconds=100)

    await push(engine, "orders", "d")

    delivery = await pop_one(engine, "orders", group="g", batch=10)
    assert (values(delivery), delivery.offsets) == (["d"], [3])


async def test_only_completed_messages_are_removed(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", COMPLETED)
    for value in range(4):
        await push(engine, "orders", value)
    assert len(await pop(engine, "orders", group="slow", batch=1, auto_ack=True)) == 1
    assert await drain(engine, "orders", group="fast") == [0, 1, 2, 3]

    await sweep(upkeep, clock, seconds=100)
    assert await stored(engine) == [1, 2, 3]
    assert await drain(engine, "orders", group="slow") == [1, 2, 3]
    await sweep(upkeep, clock, seconds=50)

    assert await stored(engine) == []


async def test_a_queue_without_readers_has_no_completed_messages(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", COMPLETED)
    await push(engine, "orders", "a")
    await sweep(upkeep, clock, seconds=1_000)
    assert await drain(engine, "orders", group="g") == ["a"]

    await sweep(upkeep, clock, seconds=100)

    assert await stored(engine) == []


async def test_a_lagging_partition_is_checked_less_often_each_time(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", COMPLETED)
    await push(engine, "orders", "a")
    looks: list[int] = []
    await sweep(upkeep, clock, seconds=100)
    for _ in range(8):
        await sweep(upkeep, clock)
        (row,) = await fetch(engine, "select looks from queen.laggards")
        looks.append(row["looks"])

    assert looks == [1, 1, 2, 2, 2, 2, 3, 3]


async def test_a_hold_keeps_messages_that_were_not_read_by_transaction(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", BY_AGE)
    for value in range(3):
        await push(engine, "orders", value)
    xids = await fetch(engine, "select xid::text from queen.segments order by base_offset")
    await fetch(engine, "select queen.hold('orders', 'archive', $1::text::xid8)", xids[1]["xid"])
    await sweep(upkeep, clock, seconds=100)
    assert await stored(engine) == [1, 2]

    await fetch(engine, "select queen.unhold('orders', 'archive')")
    await sweep(upkeep, clock)

    assert await stored(engine) == []


async def test_an_expired_hold_keeps_no_messages(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", BY_AGE)
    await push(engine, "orders", 1)
    await fetch(engine, "select queen.hold('orders', 'archive', '0')")
    await fetch(engine, "update queen.holds set expires_at = queen.now() + interval '200 seconds'")
    await sweep(upkeep, clock, seconds=100)
    assert await stored(engine) == [0]

    await sweep(upkeep, clock, seconds=101)

    assert await stored(engine) == []


async def test_every_removal_is_recorded_and_its_record_is_removed_later(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", {**BY_AGE, "partition_retention_seconds": 10**9})
    for value in range(3):
        await push(engine, "orders", value)
    await sweep(upkeep, clock, seconds=100)

    recorded = await fetch(engine, "select first_offset, end_offset, reason from queen.removals")
    assert [tuple(row) for row in recorded] == [(0, 3, "age")]
    await sweep(upkeep, clock, seconds=169 * 3600)

    assert await fetch(engine, "select * from queen.removals") == []


async def test_a_duplicate_is_known_after_its_message_is_removed(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", BY_AGE)
    (first,) = await push(engine, "orders", "a", transaction_id="t")
    await sweep(upkeep, clock, seconds=100)
    assert await stored(engine) == []

    (again,) = await push(engine, "orders", "a", transaction_id="t")

    assert (again.status, again.offset) == ("duplicate", first.offset)


async def test_retention_does_not_pass_an_open_transaction(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", BY_AGE)
    await push(engine, "orders", "a")
    connection = await asyncpg.connect(engine.store.database.dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("select pg_current_xact_id()")
        await push(engine, "orders", "b", partition="other")
        await sweep(upkeep, clock, seconds=100)
        assert await stored(engine) == [0]
        await transaction.rollback()
    finally:
        await connection.close()
    await sweep(upkeep, clock)

    assert await stored(engine) == []
