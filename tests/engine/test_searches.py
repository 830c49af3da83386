"""Searches by time start at a mark that the process remembers, and miss nothing below it."""

from queen.engine.engine import Engine
from tests.clock import Clock
from tests.engine.helpers import ack, drain, pop, pop_one, push, settle, values


async def test_a_pop_that_the_rate_stopped_does_not_hide_what_is_ready(
    engine: Engine, clock: Clock
) -> None:
    await engine.configure("orders", {"rate_max": 1, "rate_ms": 60_000, "rate_per": "queue"})
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", partition="two")
    await ack(engine, await pop_one(engine, "orders"))
    await clock.advance(seconds=30)
    assert await pop(engine, "orders") == []

    await clock.advance(seconds=40)
    assert values(await pop_one(engine, "orders")) == ["b"]


async def test_a_pop_that_the_concurrency_limit_stopped_does_not_hide_what_is_ready(
    engine: Engine, clock: Clock
) -> None:
    await engine.configure("orders", {"concurrency_limit": 1})
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", partition="two")
    held = await pop_one(engine, "orders")
    await clock.advance(seconds=30)
    assert await pop(engine, "orders") == []
    await ack(engine, held)

    assert values(await pop_one(engine, "orders")) == ["b"]


async def test_a_pop_that_had_enough_of_one_queue_does_not_hide_the_next(
    engine: Engine, clock: Clock
) -> None:
    for queue, priority in (("high", 1), ("low", 0)):
        await engine.configure(queue, {"priority": priority}, namespace="shop")
    await push(engine, "low", "low")
    await clock.advance(seconds=30)
    await push(engine, "high", "high")
    await ack(engine, await pop_one(engine, namespace="shop"))

    assert values(await pop_one(engine, namespace="shop")) == ["low"]


async def test_a_pop_that_had_enough_of_one_priority_does_not_hide_the_next(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "low", partition="low")
    await push(engine, "orders", "high", partition="high")
    await engine.configure_partition("orders", "high", priority=1)
    await drain(engine, "orders")
    await push(engine, "orders", "low", partition="low")
    await clock.advance(seconds=30)
    await push(engine, "orders", "high", partition="high")
    await ack(engine, await pop_one(engine, "orders"))

    assert values(await pop_one(engine, "orders")) == ["low"]


async def test_a_pop_that_had_enough_does_not_hide_what_is_due_again(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "failed", partition="low")
    await push(engine, "orders", "new", partition="high")
    await engine.configure_partition("orders", "high", priority=1)
    await settle(engine, await pop_one(engine, "orders", partition="low"), status="failed")
    await clock.advance(seconds=30)
    await ack(engine, await pop_one(engine, "orders"))
    await clock.advance(seconds=30)

    again = await pop_one(engine, "orders")

    assert (values(again), again.attempt) == (["failed"], 2)


async def test_a_pop_of_one_partition_does_not_hide_the_others(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "a", partition="one")
    await clock.advance(seconds=30)
    assert await pop(engine, "orders", partition="two") == []

    assert values(await pop_one(engine, "orders")) == ["a"]


async def test_pops_of_a_paused_queue_hide_nothing(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", partition="one")
    await engine.configure("orders", {"paused": True})
    await clock.advance(seconds=30)
    assert await pop(engine, "orders") == []
    await clock.advance(seconds=30)
    await engine.configure("orders", {"paused": False})

    assert values(await pop_one(engine, "orders")) == ["a"]


async def test_a_drained_queue_is_found_again_much_later(engine: Engine, clock: Clock) -> None:
    for value in range(5):
        await push(engine, "orders", value)
        assert await drain(engine, "orders") == [value]
        assert await pop(engine, "orders") == []
        await clock.advance(seconds=100)
