"""Purge removes messages and their leases, and never reuses an offset."""

import asyncpg
import pytest

from queen.codec.ids import id_of
from queen.engine.engine import Engine
from queen.errors import LeaseLost, QueueNotFound
from tests.engine.helpers import (
    ack,
    delete_group,
    drain,
    lease,
    pop,
    pop_one,
    purge,
    push,
    says,
    settle,
    values,
)
from tests.sql.interleavings.scene import segment
from tests.support.clock import Clock


async def test_a_purged_queue_is_empty_and_its_offsets_continue(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    await push(engine, "orders", "c")
    await push(engine, "orders", "d", partition="two")

    assert await purge(engine, "orders") == 4
    assert await pop(engine, "orders", batch=10, partitions=10) == []
    assert await pop(engine, "orders", group="fresh", batch=10, partitions=10) == []
    assert await purge(engine, "orders") == 0

    (after,) = await push(engine, "orders", "e")
    assert after.offset == 3
    delivery = await pop_one(engine, "orders", batch=10)
    assert (values(delivery), delivery.offsets) == (["e"], [3])


async def test_purge_of_one_partition_leaves_the_others_unchanged(engine: Engine) -> None:
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", partition="two")

    assert await purge(engine, "orders", partition="one") == 1

    assert await drain(engine, "orders") == ["b"]


async def test_a_purge_is_recorded_with_the_removals(engine: Engine, dsn: str) -> None:
    await push(engine, "orders", "a", "b")
    await push(engine, "orders", "c")
    await purge(engine, "orders")
    await purge(engine, "orders")

    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch("select first_offset, end_offset, reason from queen.removals")
    await connection.close()
    assert [tuple(row) for row in rows] == [(0, 3, "purge")]


async def test_purge_ends_leases(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", "b")
    held = await pop_one(engine, "orders")

    await purge(engine, "orders")

    with pytest.raises(LeaseLost):
        await ack(engine, held)
    await clock.advance(seconds=400)
    assert await pop(engine, "orders") == []
    await push(engine, "orders", "c")
    assert values(await pop_one(engine, "orders")) == ["c"]


async def test_purge_removes_delayed_messages(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", delay_seconds=5)

    await purge(engine, "orders")
    await clock.advance(seconds=10)

    assert await drain(engine, "orders") == []


async def test_purge_of_completed_messages_keeps_those_without_a_reader(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")

    assert await purge(engine, "orders", is_completed=True) == 0

    assert await drain(engine, "orders") == ["a", "b"]
    assert await purge(engine, "orders", is_completed=True) == 2


async def test_purge_of_completed_messages_removes_none_after_the_only_group_is_deleted(
    engine: Engine,
) -> None:
    await push(engine, "orders", "a", "b")
    assert await drain(engine, "orders", group="g") == ["a", "b"]
    await delete_group(engine, "orders", "g")

    assert await purge(engine, "orders", is_completed=True) == 0


async def test_purge_of_completed_messages_keeps_those_that_a_group_has_not_settled(
    engine: Engine,
) -> None:
    for value in range(4):
        await push(engine, "orders", value)
    await drain(engine, "orders", group="fast")
    slow = await pop_one(engine, "orders", group="slow", batch=3)
    await engine.ack(lease(slow), [0])

    assert await purge(engine, "orders", is_completed=True) == 1

    assert await ack(engine, slow) == 2
    assert await drain(engine, "orders", group="slow") == [3]
    assert await purge(engine, "orders", is_completed=True) == 3


async def test_purge_before_a_timestamp_keeps_later_messages(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "old")
    await clock.advance(seconds=60)
    instant = await clock.now()
    await push(engine, "orders", "new")

    assert await purge(engine, "orders", before=instant) == 1

    assert await drain(engine, "orders") == ["new"]
    assert await drain(engine, "orders", group="fresh") == ["new"]


async def test_purge_before_a_timestamp_shortens_a_leased_delivery(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "old")
    await clock.advance(seconds=60)
    instant = await clock.now()
    await push(engine, "orders", "new")
    held = await pop_one(engine, "orders", batch=2)

    await purge(engine, "orders", before=instant)

    with pytest.raises(LeaseLost):
        await ack(engine, held)
    again = await pop_one(engine, "orders", batch=2)
    assert (values(again), again.attempt) == (["new"], 1)


async def test_purged_messages_are_not_served_from_the_cache(engine: Engine, dsn: str) -> None:
    await push(engine, "orders", "a")
    async with await Engine.open(dsn) as other:
        await purge(other, "orders")
    await push(engine, "orders", "b")

    await engine.catalogue.queue("orders")
    await pop(engine, "orders", group="g")
    await engine.queues.seek("orders", "g", to_start=True)

    assert await drain(engine, "orders", group="g") == ["b"]


async def test_purge_requires_a_queue(engine: Engine) -> None:
    with pytest.raises(QueueNotFound):
        await purge(engine, "orders")


async def test_a_purged_delayed_message_can_be_pushed_again(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", delay_seconds=5, transaction_id="t")
    await purge(engine, "orders")

    (again,) = await push(engine, "orders", "b", transaction_id="t")

    assert (again.status, again.offset) == ("queued", 0)
    assert await drain(engine, "orders") == ["b"]


async def test_a_purge_of_old_messages_leaves_a_failed_message_to_its_backoff(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure(
        "orders", {"retry_delay_ms": 100_000, "max_retry_delay_ms": 100_000}
    )
    await push(engine, "orders", "old")
    await clock.advance(seconds=10)
    cut = await clock.now()
    await push(engine, "orders", "a", "b")
    delivery = await pop_one(engine, "orders", batch=10)
    await engine.acknowledge([says(delivery, 0, "completed"), says(delivery, 1, "failed")])

    await purge(engine, "orders", before=cut)

    assert await pop(engine, "orders") == []
    await clock.advance(seconds=100)
    again = await pop_one(engine, "orders", batch=10)
    assert (values(again), again.attempt) == (["a"], 2)


async def test_after_a_purge_of_a_failed_message_the_rest_is_available_immediately(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure(
        "orders", {"retry_delay_ms": 100_000, "max_retry_delay_ms": 100_000}
    )
    await push(engine, "orders", "old")
    await clock.advance(seconds=10)
    cut = await clock.now()
    await push(engine, "orders", "a", "b")
    await settle(engine, await pop_one(engine, "orders", batch=10), 0, "failed")

    await purge(engine, "orders", before=cut)

    again = await pop_one(engine, "orders", batch=10)
    assert (values(again), again.attempt) == (["a", "b"], 1)


async def test_a_long_partition_is_purged_in_steps(engine: Engine) -> None:
    (pushed,) = await push(engine, "orders", "a")
    partition_id = id_of(pushed.partition_id or "")
    assert partition_id is not None
    await engine.store.messages.push(segment([partition_id] * 4_500))
    await push(engine, "orders", "b", partition="two")

    step = await engine.store.queues.purge(
        "orders", partition=None, is_completed=False, before=None, after=None, limit=1_000
    )
    assert step is not None
    assert step[1] == 2_000

    assert await purge(engine, "orders") == 2_502
    assert await drain(engine, "orders") == []
    assert await purge(engine, "orders") == 0


async def test_the_count_of_a_purge_includes_scheduled_messages_of_all_priorities(
    engine: Engine,
) -> None:
    await engine.queues.configure("jobs", {"ordered": False})
    for priority in (0, 3, 7):
        await push(engine, "jobs", 1, partition="a", priority=priority, delay_seconds=60)
    await push(engine, "jobs", 1, partition="b", delay_seconds=60)

    counted = await engine.store.queues.count_purge(
        "jobs", partition="a", is_completed=False, before=None, most=100
    )

    assert counted == (3, True)
    assert await purge(engine, "jobs", partition="a") == 3
