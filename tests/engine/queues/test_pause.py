"""A paused queue accepts pushes and delivers no messages."""

import asyncio

from queen.engine.engine import Engine
from tests.engine.helpers import ack, asleep, pop, pop_later, pop_one, push, settle, values
from tests.support.clock import Clock


async def test_a_paused_queue_delivers_no_message_and_accepts_pushes(engine: Engine) -> None:
    await engine.queues.configure("orders", {"paused": True})
    (pushed,) = await push(engine, "orders", "a")

    assert (pushed.status, pushed.offset) == ("queued", 0)
    assert await pop(engine, "orders") == []
    assert await pop(engine, "orders", auto_ack=True) == []

    await engine.queues.configure("orders", {"paused": False})
    assert values(await pop_one(engine, "orders")) == ["a"]


async def test_leased_messages_can_be_settled_while_the_queue_is_paused(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    held = await pop_one(engine, "orders")

    await engine.queues.configure("orders", {"paused": True})
    assert await ack(engine, held) == 1
    assert await pop(engine, "orders") == []

    await engine.queues.configure("orders", {"paused": None})
    assert values(await pop_one(engine, "orders")) == ["b"]


async def test_failed_messages_are_not_retried_while_the_queue_is_paused(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "failed", partition="one")
    await push(engine, "orders", "expired", partition="two")
    await push(engine, "orders", "scheduled", partition="three", delay_seconds=10)
    one = await pop_one(engine, "orders", partition="one")
    await settle(engine, one, status="failed")
    await pop_one(engine, "orders", partition="two")
    await engine.queues.configure("orders", {"paused": True})

    await clock.advance(seconds=400)
    assert await pop(engine, "orders", batch=10, partitions=10) == []

    await engine.queues.configure("orders", {"paused": False})
    taken = await pop(engine, "orders", batch=10, partitions=10)
    assert sorted(values(taken)) == ["expired", "failed", "scheduled"]


async def test_the_end_of_a_pause_wakes_waiters(engine: Engine) -> None:
    await engine.queues.configure("orders", {"paused": True})
    await push(engine, "orders", "a")
    waiter = asyncio.create_task(pop_later(engine, "orders"))
    await asleep(engine, 1)

    await engine.queues.configure("orders", {"paused": False})

    assert values(await waiter) == ["a"]


async def test_a_pop_by_namespace_skips_a_paused_queue(engine: Engine) -> None:
    await engine.queues.configure("one", {"paused": True, "priority": 5}, namespace="shop")
    await engine.queues.configure("two", namespace="shop")
    await push(engine, "one", "a")
    await push(engine, "two", "b")

    assert values(await pop_one(engine, namespace="shop")) == ["b"]
