"""A change between ordered and unordered waits until all deliveries are settled."""

import asyncio

from queen.engine.engine import Engine
from tests.engine.helpers import (
    ack,
    asleep,
    drain,
    pop,
    pop_later,
    pop_one,
    push,
    settle,
    values,
)
from tests.support.clock import Clock


async def test_without_deliveries_the_change_takes_effect_immediately(engine: Engine) -> None:
    await push(engine, "orders", *range(4))
    await engine.queues.configure("orders", {"ordered": False})

    assert [(await pop_one(engine, "orders")).offsets for _ in range(2)] == [[0], [1]]


async def test_an_ordered_queue_becomes_unordered_when_its_last_delivery_is_settled(
    engine: Engine,
) -> None:
    await push(engine, "orders", *range(4), partition="one")
    await push(engine, "orders", *range(4), partition="two")
    held = await pop_one(engine, "orders")

    await engine.queues.configure("orders", {"ordered": False})
    assert await pop(engine, "orders", batch=9, partitions=9) == []

    await ack(engine, held)
    many = [await pop_one(engine, "orders", partition="two") for _ in range(3)]
    assert [each.offsets for each in many] == [[0], [1], [2]]


async def test_an_unordered_queue_becomes_ordered_when_its_last_delivery_is_settled(
    engine: Engine,
) -> None:
    await engine.queues.configure("orders", {"ordered": False})
    await push(engine, "orders", *range(5))
    first = await pop_one(engine, "orders")
    second = await pop_one(engine, "orders")

    await engine.queues.configure("orders", {"ordered": True})
    await ack(engine, second)
    assert await pop(engine, "orders") == []
    await ack(engine, first)

    assert (await pop_one(engine, "orders")).offsets == [2]
    assert await pop(engine, "orders") == []


async def test_failed_messages_are_retried_before_the_change(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", "b")
    await settle(engine, await pop_one(engine, "orders"), status="failed")
    await engine.queues.configure("orders", {"ordered": False})
    assert await pop(engine, "orders") == []

    await clock.advance(seconds=2)
    again = await pop_one(engine, "orders")
    assert (values(again), again.attempt) == (["a"], 2)
    await ack(engine, again)
    assert await drain(engine, "orders") == ["b"]


async def test_the_change_waits_for_the_deliveries_of_every_group(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    held = await pop_one(engine, "orders", group="g")
    await engine.queues.configure("orders", {"ordered": False})

    assert await pop(engine, "orders", group="h") == []
    await ack(engine, held)
    assert len(await pop(engine, "orders", group="h")) == 1


async def test_waiting_pops_are_served_after_the_change(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", "c")
    held = await pop_one(engine, "orders")
    await engine.queues.configure("orders", {"ordered": False})
    waiters = [asyncio.create_task(pop_later(engine, "orders")) for _ in range(2)]
    await asleep(engine, 2)

    await ack(engine, held)

    got = [value for each in await asyncio.gather(*waiters) for value in values(each)]
    assert sorted(got) == ["b", "c"]


async def test_a_priority_per_message_is_accepted_after_the_change(engine: Engine) -> None:
    await push(engine, "jobs", "low")
    await engine.queues.configure("jobs", {"ordered": False})

    (answer,) = await push(engine, "jobs", "high", priority=9)

    assert answer.status == "queued"
    assert values(await pop(engine, "jobs", batch=2, partitions=2)) == ["high", "low"]
