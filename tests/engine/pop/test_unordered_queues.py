"""An unordered queue allows several leases per partition, and each message fails separately."""

import asyncio

import pytest

from queen.engine.engine import Engine
from queen.errors import LeaseLost
from tests.engine.helpers import ack, drain, lease, pop, pop_one, push, says, settle, values
from tests.support.clock import Clock

UNORDERED = {"ordered": False}


async def test_one_partition_has_many_leases(engine: Engine) -> None:
    await engine.queues.configure("jobs", UNORDERED)
    await push(engine, "jobs", *range(6))

    held = [await pop_one(engine, "jobs", batch=2) for _ in range(3)]

    assert [each.offsets for each in held] == [[0, 1], [2, 3], [4, 5]]
    assert len({each.lease_id for each in held}) == 3
    assert await pop(engine, "jobs") == []
    assert [await ack(engine, each) for each in reversed(held)] == [2, 2, 2]
    assert await pop(engine, "jobs") == []


async def test_concurrent_pops_never_lease_a_message_twice(engine: Engine, dsn: str) -> None:
    await engine.queues.configure("jobs", UNORDERED)
    await push(engine, "jobs", *range(60))

    async with await Engine.open(dsn) as other:
        held = await asyncio.gather(
            *(drain(each, "jobs", batch=3, partitions=1) for each in (engine, other) * 4)
        )

    assert sorted(value for taken in held for value in taken) == list(range(60))


async def test_only_the_message_that_failed_leaves_its_delivery(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("jobs", UNORDERED)
    await push(engine, "jobs", *range(4))
    batch = await pop_one(engine, "jobs", batch=4)

    failed = await settle(engine, batch, 1, "failed", error="no")
    assert (failed.success, failed.lease_released) == (True, False)
    assert await pop(engine, "jobs") == []
    await clock.advance(seconds=2)

    again = await pop_one(engine, "jobs", batch=4)
    assert (again.offsets, again.attempt) == ([1], 2)
    assert await ack(engine, batch) == 3
    assert await ack(engine, again) == 1


async def test_several_failures_in_one_call_are_independent(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("jobs", UNORDERED)
    await push(engine, "jobs", *range(4))
    batch = await pop_one(engine, "jobs", batch=4)

    await engine.acknowledge(
        [
            says(batch, 0, "failed"),
            says(batch, 2, "failed"),
            says(batch, 3, "completed"),
            says(batch, 1, "retry"),
        ]
    )
    retried = await pop_one(engine, "jobs", batch=4)
    assert (retried.offsets, retried.attempt) == ([1], 1)
    await clock.advance(seconds=2)

    again = await pop(engine, "jobs", batch=4, partitions=4)
    assert sorted((each.offsets, each.attempt) for each in again) == [([0], 2), ([2], 2)]


async def test_a_failed_message_does_not_block_later_ones(engine: Engine) -> None:
    await engine.queues.configure("jobs", UNORDERED)
    await push(engine, "jobs", *range(3))
    await settle(engine, await pop_one(engine, "jobs"), status="failed")

    assert await drain(engine, "jobs") == [1, 2]


async def test_an_expiry_is_charged_to_the_first_unsettled_message_and_the_rest_is_uncounted(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("jobs", UNORDERED)
    await push(engine, "jobs", *range(4))
    batch = await pop_one(engine, "jobs", batch=4)
    await engine.ack(lease(batch), [0])
    await clock.advance(seconds=302)

    again = await pop(engine, "jobs", batch=10, partitions=10)

    assert sorted((each.offsets, each.attempt) for each in again) == [([1], 2), ([2, 3], 1)]
    with pytest.raises(LeaseLost):
        await ack(engine, batch)
    assert [await ack(engine, each) for each in again] == [len(each) for each in again]
    assert await pop(engine, "jobs", batch=10) == []


async def test_a_late_ack_is_accepted_until_the_redelivery(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("jobs", UNORDERED)
    await push(engine, "jobs", "a")
    late = await pop_one(engine, "jobs")
    await clock.advance(seconds=1000)

    assert await ack(engine, late) == 1
    assert await pop(engine, "jobs") == []


async def test_two_deliveries_expire_independently(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("jobs", UNORDERED)
    await push(engine, "jobs", "a", "b")
    short = await pop_one(engine, "jobs", lease_seconds=10)
    long = await pop_one(engine, "jobs", lease_seconds=1000)
    await clock.advance(seconds=12)

    again = await pop_one(engine, "jobs", batch=10)

    assert (values(again), again.attempt) == (["a"], 2)
    with pytest.raises(LeaseLost):
        await ack(engine, short)
    assert await ack(engine, long) == 1


async def test_a_pop_may_take_part_of_a_returned_delivery(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("jobs", UNORDERED)
    await push(engine, "jobs", *range(5))
    await engine.release(lease(await pop_one(engine, "jobs", batch=5)))

    first = await pop_one(engine, "jobs", batch=2)
    second = await pop_one(engine, "jobs", batch=2)
    third = await pop_one(engine, "jobs", batch=2)

    assert [first.offsets, second.offsets, third.offsets] == [[0, 1], [2, 3], [4]]
    assert [first.attempt, second.attempt, third.attempt] == [1, 1, 1]
