"""A failure by nack or expiry is counted, and the message waits longer each time."""

from datetime import datetime

import pytest

from queen.engine.engine import Engine
from tests.engine.helpers import (
    ack,
    dead_letters,
    drain,
    pop,
    pop_one,
    purge,
    push,
    seconds_until,
    settle,
)
from tests.support.clock import Clock


async def test_nacks_and_expiries_count_the_same_attempts(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a")

    attempts: list[int] = []
    for how in ("nack", "expiry", "nack"):
        delivery = await pop_one(engine, "orders")
        attempts.append(delivery.attempt)
        if how == "nack":
            await settle(engine, delivery, status="failed")
        await clock.advance(seconds=310)
    attempts.append((await pop_one(engine, "orders")).attempt)

    assert attempts == [1, 2, 3, 4]


async def test_a_failed_message_waits_for_its_backoff(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("orders", {"retry_delay_ms": 10_000})
    await push(engine, "orders", "a", "b")
    await settle(engine, await pop_one(engine, "orders"), status="failed")

    await clock.advance(seconds=7.9)
    assert await pop(engine, "orders", batch=2) == []
    await clock.advance(seconds=2.1)
    again = await pop_one(engine, "orders", batch=2)

    assert (again.offsets, again.attempt) == ([0], 2)


async def test_an_expired_message_waits_for_its_backoff_from_the_end_of_its_lease(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"retry_delay_ms": 100_000})
    await push(engine, "orders", "a")
    await pop_one(engine, "orders")

    await clock.advance(seconds=379)
    assert await pop(engine, "orders") == []
    await clock.advance(seconds=21)
    assert (await pop_one(engine, "orders")).attempt == 2


async def test_the_backoff_grows_up_to_its_cap(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure(
        "orders",
        {
            "retry_limit": 10,
            "retry_delay_ms": 1000,
            "retry_backoff": 3,
            "max_retry_delay_ms": 20_000,
        },
    )
    await push(engine, "orders", "a")

    for most in (1, 3, 9, 20, 20):
        answer = await settle(engine, await pop_one(engine, "orders"), status="failed")
        assert 0.8 * most <= await seconds_until(engine, answer) <= most
        await clock.advance(seconds=most)


async def test_the_backoff_is_randomized(engine: Engine) -> None:
    await engine.queues.configure("orders", {"retry_delay_ms": 1000})
    waits: set[datetime | None] = set()
    for partition in map(str, range(10)):
        await push(engine, "orders", "a", partition=partition)
        delivery = await pop_one(engine, "orders", partition=partition)
        waits.add((await settle(engine, delivery, status="failed")).retry_at)

    assert len(waits) > 5


async def test_a_zero_delay_means_immediately(engine: Engine) -> None:
    await engine.queues.configure("orders", {"retry_delay_ms": 0})
    await push(engine, "orders", "a")
    await settle(engine, await pop_one(engine, "orders"), status="failed")

    assert (await pop_one(engine, "orders")).attempt == 2


@pytest.mark.parametrize(("status", "attempt"), [("failed", 2), ("retry", 1)])
async def test_the_delay_of_an_ack_replaces_the_backoff(
    engine: Engine, clock: Clock, status: str, attempt: int
) -> None:
    await push(engine, "orders", "a")
    delivery = await pop_one(engine, "orders")

    answer = await settle(engine, delivery, status=status, delay_seconds=60)

    assert await seconds_until(engine, answer) == pytest.approx(60)
    await clock.advance(seconds=59)
    assert await pop(engine, "orders") == []
    await clock.advance(seconds=1)
    assert (await pop_one(engine, "orders")).attempt == attempt


async def test_attempts_of_the_head_do_not_count_for_its_successors(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "a", "b")
    for attempt in (1, 2, 3):
        delivery = await pop_one(engine, "orders", batch=2)
        assert delivery.attempt == attempt
        await settle(engine, delivery, 0, "failed")
        await clock.advance(seconds=10)
    head = await pop_one(engine, "orders", batch=2)
    await ack(engine, head)

    rest = await pop_one(engine, "orders", batch=2)

    assert (head.offsets, head.attempt) == ([0], 4)
    assert (rest.offsets, rest.attempt) == ([1], 1)


async def test_a_failure_in_the_middle_does_not_count_for_earlier_messages(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", *range(3))
    await settle(engine, await pop_one(engine, "orders", batch=3), 1, "failed")
    await clock.advance(seconds=2)

    before = await pop_one(engine, "orders", batch=3)

    assert (before.offsets, before.attempt) == ([0], 1)


async def test_unsettled_messages_before_a_failed_one_come_first(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", *range(5))
    failed = await settle(engine, await pop_one(engine, "orders", batch=4), 2, "failed")
    wait = await seconds_until(engine, failed)

    # Immediately, while the failed message waits for its backoff.
    before = await pop_one(engine, "orders", batch=5)
    assert (before.offsets, before.attempt) == ([0, 1], 1)
    await ack(engine, before)
    assert await pop(engine, "orders", batch=5) == []
    await clock.advance(seconds=wait)
    again = await pop_one(engine, "orders", batch=5)
    assert (again.offsets, again.attempt) == ([2], 2)
    await ack(engine, again)
    assert await drain(engine, "orders") == [3, 4]


async def test_failures_of_earlier_messages_do_not_change_a_failed_messages_attempts(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", *range(3))
    for offset in (2, 1, 0):
        await settle(engine, await pop_one(engine, "orders", batch=3), offset, "failed")

    came: list[tuple[list[int], int]] = []
    for _ in range(3):
        await clock.advance(seconds=2)
        again = await pop_one(engine, "orders", batch=3)
        came.append((list(again.offsets), again.attempt))
        await ack(engine, again)

    assert came == [([0], 2), ([1], 2), ([2], 2)]
    await push(engine, "orders", "more")
    assert await drain(engine, "orders") == ["more"]


async def test_a_purge_of_earlier_messages_leaves_a_failed_one_to_its_backoff(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", 0, 1)
    await clock.advance(seconds=10)
    cut = await clock.now()
    await push(engine, "orders", 2)
    await settle(engine, await pop_one(engine, "orders", batch=3), 2, "failed")

    await purge(engine, "orders", before=cut)

    assert await pop(engine, "orders", batch=3) == []
    await clock.advance(seconds=2)
    again = await pop_one(engine, "orders", batch=3)
    assert (again.offsets, again.attempt) == ([2], 2)
    await purge(engine, "orders")
    await push(engine, "orders", 3)
    assert await drain(engine, "orders") == [3]


async def test_a_purge_removes_a_failed_message_and_those_before_it(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", *range(4))
    await settle(engine, await pop_one(engine, "orders", batch=4), 2, "failed")

    await purge(engine, "orders")

    await push(engine, "orders", "new")
    assert await drain(engine, "orders") == ["new"]


async def test_a_failed_message_blocks_only_its_partition(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", partition="one")
    await push(engine, "orders", "c", partition="two")
    await settle(engine, await pop_one(engine, "orders", partition="one"), status="failed")

    assert (await pop_one(engine, "orders", batch=9)).partition == "two"
    assert await pop(engine, "orders", batch=9) == []


async def test_a_failed_message_behind_unsettled_ones_can_be_dead_lettered(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", *range(4))
    batch = await pop_one(engine, "orders", batch=4)
    await settle(engine, batch, 2, "failed")

    await engine.store.browse.give_up(batch.partition_id, 2, "__QUEUE_MODE__", "enough")

    assert await drain(engine, "orders") == [0, 1, 3]
    (letter,) = await dead_letters(engine, "orders")
    assert (letter["offset"], letter["attempts"]) == (2, 1)


async def test_a_failed_message_behind_unsettled_ones_can_be_retried_without_its_backoff(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", *range(3))
    batch = await pop_one(engine, "orders", batch=3)
    await settle(engine, batch, 1, "failed", delay_seconds=3_600)

    await engine.store.browse.retry(batch.partition_id, 1, "__QUEUE_MODE__")

    assert await drain(engine, "orders") == [0, 1, 2]
