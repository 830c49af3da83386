"""Searches by time start at a cached mark, and miss no message below it."""

import asyncio

import asyncpg

from queen.codec.ids import id_of
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.store import Store
from tests.engine.helpers import ack, asleep, drain, pop, pop_later, pop_one, push, settle, values
from tests.sql.interleavings.scene import OneConnection, segment
from tests.support.clock import Clock

NEW_FIRST = Settings(due_search_ms=1e12, full_search_ms=1e12)
"""Every pop searches new messages before retries, and from its mark, on a slow machine too."""


async def test_a_pop_that_hit_the_rate_limit_hides_no_ready_message(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"rate_max": 1, "rate_ms": 60_000, "rate_per": "queue"})
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", partition="two")
    await ack(engine, await pop_one(engine, "orders"))
    await clock.advance(seconds=30)
    assert await pop(engine, "orders") == []

    await clock.advance(seconds=40)
    assert values(await pop_one(engine, "orders")) == ["b"]


async def test_a_pop_that_hit_the_concurrency_limit_hides_no_ready_message(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"concurrency_limit": 1})
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", partition="two")
    held = await pop_one(engine, "orders")
    await clock.advance(seconds=30)
    assert await pop(engine, "orders") == []
    await ack(engine, held)

    assert values(await pop_one(engine, "orders")) == ["b"]


async def test_a_pop_whose_batch_was_filled_by_one_queue_does_not_hide_the_next(
    engine: Engine, clock: Clock
) -> None:
    for queue, priority in (("high", 1), ("low", 0)):
        await engine.queues.configure(queue, {"priority": priority}, namespace="shop")
    await push(engine, "low", "low")
    await clock.advance(seconds=30)
    await push(engine, "high", "high")
    await ack(engine, await pop_one(engine, namespace="shop"))

    assert values(await pop_one(engine, namespace="shop")) == ["low"]


async def test_a_pop_whose_batch_was_filled_by_one_priority_does_not_hide_the_next(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "low", partition="low")
    await push(engine, "orders", "high", partition="high")
    await engine.queues.configure_partition("orders", "high", priority=1)
    await drain(engine, "orders")
    await push(engine, "orders", "low", partition="low")
    await clock.advance(seconds=30)
    await push(engine, "orders", "high", partition="high")
    await ack(engine, await pop_one(engine, "orders"))

    assert values(await pop_one(engine, "orders")) == ["low"]


async def test_a_pop_with_a_full_batch_does_not_hide_retries_that_are_due(
    dsn: str, clock: Clock
) -> None:
    async with await Engine.open(dsn, settings=NEW_FIRST) as engine:
        await push(engine, "orders", "failed", partition="low")
        await push(engine, "orders", "new", partition="high")
        await engine.queues.configure_partition("orders", "high", priority=1)
        await settle(engine, await pop_one(engine, "orders", partition="low"), status="failed")
        await clock.advance(seconds=30)
        await ack(engine, await pop_one(engine, "orders"))
        await clock.advance(seconds=30)

        again = await pop_one(engine, "orders")

        assert (values(again), again.attempt) == (["failed"], 2)


async def test_a_pop_with_a_full_batch_of_retries_does_not_hide_the_next_priority(
    dsn: str, clock: Clock
) -> None:
    async with await Engine.open(dsn, settings=NEW_FIRST) as engine:
        await push(engine, "orders", "low", partition="low")
        await push(engine, "orders", "high", partition="high")
        await engine.queues.configure_partition("orders", "high", priority=1)
        for partition in ("low", "high"):
            held = await pop_one(engine, "orders", partition=partition)
            await settle(engine, held, status="failed")
            # Longer than the margin of a search, so that its mark would be above the first retry.
            await clock.advance(seconds=30)
        first = await pop_one(engine, "orders")
        await ack(engine, first)

        second = await pop_one(engine, "orders")

        assert [values(first), values(second)] == [["high"], ["low"]]
        assert (first.attempt, second.attempt) == (2, 2)


async def test_a_pop_of_one_partition_does_not_hide_the_others(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "a", partition="one")
    await clock.advance(seconds=30)
    assert await pop(engine, "orders", partition="two") == []

    assert values(await pop_one(engine, "orders")) == ["a"]


async def test_pops_of_a_paused_queue_hide_no_message(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", partition="one")
    await engine.queues.configure("orders", {"paused": True})
    await clock.advance(seconds=30)
    assert await pop(engine, "orders") == []
    await clock.advance(seconds=30)
    await engine.queues.configure("orders", {"paused": False})

    assert values(await pop_one(engine, "orders")) == ["a"]


async def test_a_drained_queue_is_found_again_much_later(engine: Engine, clock: Clock) -> None:
    for value in range(5):
        await push(engine, "orders", value)
        assert await drain(engine, "orders") == [value]
        assert await pop(engine, "orders") == []
        await clock.advance(seconds=100)


async def test_messages_of_a_slow_commit_are_found_by_the_safety_poll(
    dsn: str, clock: Clock
) -> None:
    async with await Engine.open(dsn, settings=Settings(safety_poll_ms=100)) as engine:
        (pushed,) = await push(engine, "orders", "a")
        await drain(engine, "orders")
        partition_id = id_of(pushed.partition_id or "")
        assert partition_id is not None
        connection = await asyncpg.connect(dsn)
        async with connection.transaction():
            await Store(OneConnection(connection)).messages.push(segment([partition_id]))
            # Longer than the margin of a search, which finds no message.
            await clock.advance(seconds=10)
            await push(engine, "orders", "b", partition="two")
            assert await drain(engine, "orders") == ["b"]
            waiter = asyncio.create_task(pop_later(engine, "orders"))
            await asleep(engine, 1)

        await connection.close()

        assert values(await waiter) == [0]
