"""A concurrency limit bounds the concurrent deliveries of a group."""

import asyncio

import pytest

from queen.engine.engine import Engine
from tests.engine.helpers import (
    ack,
    asleep,
    item,
    lease,
    pop,
    pop_later,
    pop_one,
    push,
    settle,
    values,
)
from tests.support.clock import Clock


async def fill(engine: Engine, *, limit: int, ordered: bool = True) -> None:
    await engine.queues.configure("orders", {"concurrency_limit": limit, "ordered": ordered})
    await engine.push([item("orders", n, partition=str(n % 6)) for n in range(12)])


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_group_has_no_more_deliveries_than_the_limit(engine: Engine, ordered: bool) -> None:
    await fill(engine, limit=2, ordered=ordered)
    held = [await pop_one(engine, "orders") for _ in range(2)]

    assert await pop(engine, "orders") == []
    await ack(engine, held[0])
    third = await pop_one(engine, "orders")
    assert await pop(engine, "orders") == []

    await engine.release(lease(third))
    await pop_one(engine, "orders")
    assert await pop(engine, "orders") == []


async def test_one_pop_of_many_partitions_respects_the_limit(engine: Engine) -> None:
    await fill(engine, limit=4)

    assert len(await pop(engine, "orders", batch=100, partitions=100)) == 4
    assert await pop(engine, "orders", batch=100, partitions=100) == []


async def test_concurrent_pops_respect_the_limit(engine: Engine, dsn: str) -> None:
    await fill(engine, limit=3)
    async with await Engine.open(dsn) as other:
        popped = await asyncio.gather(*(pop(each, "orders") for each in (engine, other) * 8))

    assert sum(map(len, popped)) <= 3


async def test_a_message_that_waits_for_its_next_attempt_uses_no_slot(engine: Engine) -> None:
    await fill(engine, limit=1)
    await settle(engine, await pop_one(engine, "orders"), status="failed")

    assert len(await pop(engine, "orders")) == 1
    assert await pop(engine, "orders") == []


async def test_an_expired_lease_frees_its_slot(engine: Engine, clock: Clock) -> None:
    await fill(engine, limit=1)
    first = await pop_one(engine, "orders")
    await clock.advance(seconds=310)

    again = await pop_one(engine, "orders", partition=first.partition)

    assert (values(again), again.attempt) == (values(first), 2)
    assert await pop(engine, "orders") == []


async def test_each_group_has_its_own_slots(engine: Engine) -> None:
    await fill(engine, limit=1)

    for group in ("g", "h"):
        await pop_one(engine, "orders", group=group)
        assert await pop(engine, "orders", group=group) == []


async def test_an_auto_acked_message_uses_no_slot(engine: Engine) -> None:
    await fill(engine, limit=1)

    for _ in range(3):
        assert len(await pop(engine, "orders", auto_ack=True)) == 1


async def test_an_ack_that_frees_a_slot_wakes_a_waiter(engine: Engine) -> None:
    await fill(engine, limit=1)
    held = await pop_one(engine, "orders")
    waiter = asyncio.create_task(pop_later(engine, "orders", seconds=1.5))
    await asleep(engine, 1)

    await ack(engine, held)

    (delivery,) = await waiter
    assert delivery.offsets == [0]


async def test_a_limit_of_one_queue_does_not_affect_another(engine: Engine) -> None:
    await fill(engine, limit=1)
    await push(engine, "others", "a", partition="one")
    await push(engine, "others", "b", partition="two")
    await pop_one(engine, "orders")

    assert len(await pop(engine, "others", batch=9, partitions=9)) == 2
