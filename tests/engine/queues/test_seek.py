"""Seek moves a group exactly to a message, and ends its leases."""

import asyncio

import pytest

from queen.engine.engine import Engine
from queen.errors import BadRequest, GroupNotFound, LeaseLost, PartitionNotFound, QueueNotFound
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


async def test_seek_to_the_start_redelivers_all_messages(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", partition="one")
    await push(engine, "orders", "c", partition="two")
    await drain(engine, "orders", group="g")

    await engine.queues.seek("orders", "g", to_start=True)

    again = await drain(engine, "orders", group="g")
    assert sorted(again) == ["a", "b", "c"]


async def test_seek_to_the_end_skips_stored_messages(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", partition="one")
    await push(engine, "orders", "c", partition="two")
    await pop(engine, "orders", group="g")

    await engine.queues.seek("orders", "g", to_end=True)

    assert await pop(engine, "orders", group="g", batch=10, partitions=10) == []
    await push(engine, "orders", "d", partition="one")
    assert await drain(engine, "orders", group="g") == ["d"]


async def test_seek_to_an_offset_is_exact_inside_a_segment(engine: Engine) -> None:
    await push(engine, "orders", *range(5))
    await push(engine, "orders", *range(5, 8))
    await drain(engine, "orders", group="g")

    await engine.queues.seek("orders", "g", partition="Default", offset=3)

    delivery = await pop_one(engine, "orders", group="g", batch=100)
    assert (delivery.offsets, delivery.attempt) == ([3, 4, 5, 6, 7], 1)


async def test_seek_to_an_offset_moves_only_that_partition(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", partition="one")
    await push(engine, "orders", "c", partition="two")
    await drain(engine, "orders", group="g")

    await engine.queues.seek("orders", "g", partition="one", offset=1)

    assert await drain(engine, "orders", group="g") == ["b"]


async def test_seek_to_an_offset_out_of_range_stops_at_the_edge(engine: Engine) -> None:
    await push(engine, "orders", "a")
    await pop(engine, "orders", group="g")

    await engine.queues.seek("orders", "g", partition="Default", offset=100)
    assert await pop(engine, "orders", group="g") == []
    await push(engine, "orders", "b")

    assert (await pop_one(engine, "orders", group="g")).offsets == [1]


async def test_seek_to_a_time_delivers_messages_stored_after_it(
    engine: Engine, clock: Clock
) -> None:
    for value in range(6):
        await push(engine, "orders", value)
        await clock.advance(seconds=10)
    middle = await clock.now()
    for value in range(6, 10):
        await push(engine, "orders", value)
        await clock.advance(seconds=10)
    await drain(engine, "orders", group="g")

    await engine.queues.seek("orders", "g", to=middle)

    assert await drain(engine, "orders", group="g") == [6, 7, 8, 9]


async def test_seek_ends_live_leases(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    held = await pop_one(engine, "orders", group="g", batch=2)

    await engine.queues.seek("orders", "g", to_start=True)

    with pytest.raises(LeaseLost):
        await ack(engine, held)
    again = await pop_one(engine, "orders", group="g", batch=2)
    assert (values(again), again.attempt) == (["a", "b"], 1)


async def test_seek_forgets_messages_that_waited_for_a_retry(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", "b")
    await settle(engine, await pop_one(engine, "orders", group="g"), status="failed")

    await engine.queues.seek("orders", "g", to_end=True)
    await clock.advance(seconds=400)

    assert await pop(engine, "orders", group="g", batch=10) == []


async def test_seek_moves_no_other_group(engine: Engine) -> None:
    await push(engine, "orders", "a")
    await drain(engine, "orders", group="g")
    held = await pop_one(engine, "orders")

    await engine.queues.seek("orders", "g", to_start=True)

    assert await ack(engine, held) == 1
    assert await pop(engine, "orders") == []
    await engine.queues.seek("orders", None, to_start=True)
    assert values(await pop_one(engine, "orders")) == ["a"]


async def test_seek_needs_one_target_that_exists(engine: Engine) -> None:
    await push(engine, "orders", "a")
    await pop(engine, "orders", group="g")

    with pytest.raises(BadRequest):
        await engine.queues.seek("orders", "g")
    with pytest.raises(BadRequest):
        await engine.queues.seek("orders", "g", to_start=True, to_end=True)
    with pytest.raises(BadRequest):
        await engine.queues.seek("orders", "g", offset=1)
    with pytest.raises(QueueNotFound):
        await engine.queues.seek("others", "g", to_start=True)
    with pytest.raises(GroupNotFound):
        await engine.queues.seek("orders", "h", to_start=True)
    with pytest.raises(PartitionNotFound):
        await engine.queues.seek("orders", "g", partition="two", offset=0)


async def test_seek_wakes_waiters(engine: Engine) -> None:
    await push(engine, "orders", "a")
    await drain(engine, "orders", group="g")
    waiter = asyncio.create_task(pop_later(engine, "orders", group="g"))
    await asleep(engine, 1)

    await engine.queues.seek("orders", "g", to_start=True)

    assert values(await waiter) == ["a"]
