"""An ordered queue is FIFO per partition and group, with one lease at a time."""

import asyncio

import pytest

from queen.engine.engine import Engine
from queen.errors import LeaseLost
from tests.engine.helpers import (
    ack,
    dead_letters,
    drain,
    extend,
    lease,
    pop,
    pop_one,
    push,
    settle,
    values,
)
from tests.support.clock import Clock


async def test_messages_are_delivered_in_push_order(engine: Engine) -> None:
    for value in range(5):
        await push(engine, "orders", value)
    await push(engine, "orders", 5, 6, 7)

    delivery = await pop_one(engine, "orders", batch=100)

    assert delivery.offsets == [0, 1, 2, 3, 4, 5, 6, 7]
    assert values(delivery) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert delivery.attempt == 1


async def test_a_batch_has_the_requested_size_and_the_next_continues_there(
    engine: Engine,
) -> None:
    await push(engine, "orders", *range(5))

    first = await pop_one(engine, "orders", batch=2)
    await ack(engine, first)
    second = await pop_one(engine, "orders", batch=2)
    await ack(engine, second)
    third = await pop_one(engine, "orders", batch=2)

    assert [first.offsets, second.offsets, third.offsets] == [[0, 1], [2, 3], [4]]


async def test_offsets_count_per_partition(engine: Engine) -> None:
    one = await push(engine, "orders", "a", "b", partition="one")
    two = await push(engine, "orders", "c", partition="two")
    more = await push(engine, "orders", "d", partition="one")

    assert [each.offset for each in (*one, *two, *more)] == [0, 1, 0, 2]
    assert one[0].partition_id == more[0].partition_id != two[0].partition_id


async def test_a_partition_has_one_lease(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    held = await pop_one(engine, "orders")

    assert values(held) == ["a"]
    assert await pop(engine, "orders") == []
    await push(engine, "orders", "c")
    assert await pop(engine, "orders", batch=10, partitions=10) == []

    await ack(engine, held)
    assert values(await pop_one(engine, "orders", batch=10)) == ["b", "c"]


async def test_other_partitions_continue_while_one_is_leased(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", partition="one")
    await push(engine, "orders", "c", partition="two")

    first = await pop_one(engine, "orders")
    second = await pop_one(engine, "orders")

    assert {first.partition, second.partition} == {"one", "two"}
    assert await pop(engine, "orders") == []


async def test_concurrent_pops_never_lease_a_partition_twice(engine: Engine) -> None:
    for partition in range(5):
        await push(engine, "orders", *range(3), partition=str(partition))

    popped = await asyncio.gather(*(pop(engine, "orders") for _ in range(20)))

    held = [delivery for deliveries in popped for delivery in deliveries]
    assert sorted(each.partition for each in held) == ["0", "1", "2", "3", "4"]
    assert [each.offsets for each in held] == [[0]] * 5


async def test_partitions_take_turns(engine: Engine) -> None:
    """No consumer waits behind a busy partition: after a claim it goes to the end of the line."""
    for partition in ("one", "two", "three"):
        await push(engine, "orders", *range(3), partition=partition)

    turns: list[str] = []
    for _ in range(9):
        delivery = await pop_one(engine, "orders")
        turns.append(delivery.partition)
        await ack(engine, delivery)

    assert turns == ["one", "two", "three"] * 3


async def test_a_late_ack_is_accepted_before_the_redelivery(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", "b")
    late = await pop_one(engine, "orders")

    await clock.advance(seconds=3600)
    assert await ack(engine, late) == 1

    assert values(await pop_one(engine, "orders")) == ["b"]


async def test_a_late_ack_is_rejected_after_the_redelivery(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", "b")
    first = await pop_one(engine, "orders", batch=2)
    await clock.advance(seconds=301)
    second = await pop_one(engine, "orders", batch=2)

    with pytest.raises(LeaseLost):
        await ack(engine, first)
    with pytest.raises(LeaseLost):
        await engine.ack(lease(first), [1])
    refused = await settle(engine, first, status="failed")
    assert (refused.success, refused.code) == (False, "lease_lost")

    assert (second.offsets, second.attempt) == ([0], 2)
    assert await ack(engine, second) == 1
    assert values(await pop_one(engine, "orders", batch=2)) == ["b"]


async def test_a_late_extension_or_release_is_rejected_after_the_redelivery(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "a")
    first = await pop_one(engine, "orders")
    await clock.advance(seconds=301)
    second = await pop_one(engine, "orders")

    with pytest.raises(LeaseLost):
        await extend(engine, lease(first), seconds=60)
    with pytest.raises(LeaseLost):
        await engine.release(lease(first))

    assert await pop(engine, "orders") == []
    assert await ack(engine, second) == 1


async def test_a_lease_with_a_forged_token_is_rejected(engine: Engine) -> None:
    await push(engine, "orders", "a")
    delivery = await pop_one(engine, "orders")
    *named, token = lease(delivery).split(".")
    forged = ".".join([*named, token[::-1]])

    with pytest.raises(LeaseLost):
        await engine.ack(forged)
    with pytest.raises(LeaseLost):
        await engine.ack("no lease at all")

    assert await ack(engine, delivery) == 1


async def test_after_an_expired_batch_the_head_is_redelivered_first_and_the_rest_uncounted(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", *range(4))
    await pop_one(engine, "orders", batch=4)
    await clock.advance(seconds=301)

    head = await pop_one(engine, "orders", batch=4)
    assert (head.offsets, head.attempt) == ([0], 2)
    assert await pop(engine, "orders", batch=4) == []

    await ack(engine, head)
    rest = await pop_one(engine, "orders", batch=4)
    assert (rest.offsets, rest.attempt) == ([1, 2, 3], 1)


async def test_an_expiry_is_charged_to_the_first_unsettled_message(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", *range(4))
    batch = await pop_one(engine, "orders", batch=4)
    assert await engine.ack(lease(batch), [0, 2]) == 2
    await clock.advance(seconds=301)

    head = await pop_one(engine, "orders", batch=4)
    assert (head.offsets, head.attempt) == ([1], 2)

    await ack(engine, head)
    rest = await pop_one(engine, "orders", batch=4)
    assert (rest.offsets, rest.attempt) == ([3], 1)


async def test_a_message_that_kills_its_consumer_spares_its_neighbours(
    engine: Engine, clock: Clock
) -> None:
    """Each expiry counts only for the head, so only the poison message is dead-lettered."""
    await engine.queues.configure("orders", {"retry_limit": 2, "retry_delay_ms": 0})
    await push(engine, "orders", "poison", "b", "c")
    attempts: list[tuple[list[int], int]] = []
    for _ in range(3):
        delivery = await pop_one(engine, "orders", batch=3)
        attempts.append((delivery.offsets, delivery.attempt))
        await clock.advance(seconds=301)

    rest = await pop_one(engine, "orders", batch=3)

    assert attempts == [([0, 1, 2], 1), ([0], 2), ([0], 3)]
    assert (values(rest), rest.attempt) == (["b", "c"], 1)
    (letter,) = await dead_letters(engine, "orders")
    assert (letter["payload"], letter["attempts"]) == (b'"poison"', 3)


async def test_messages_pushed_while_the_head_is_retried_follow_the_rest(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "a", "b")
    await pop_one(engine, "orders", batch=2)
    await push(engine, "orders", "c")
    await clock.advance(seconds=301)

    assert await drain(engine, "orders") == ["a", "b", "c"]


async def test_the_next_pop_limits_the_rest_of_a_failed_batch(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", *range(6))
    await pop_one(engine, "orders", batch=5)
    await clock.advance(seconds=301)
    await ack(engine, await pop_one(engine, "orders"))

    second = await pop_one(engine, "orders", batch=2)
    assert second.offsets == [1, 2]
    assert await pop(engine, "orders") == []
    await ack(engine, second)

    third = await pop_one(engine, "orders", batch=2)
    assert third.offsets == [3, 4]
    await ack(engine, third)
    assert (await pop_one(engine, "orders", batch=2)).offsets == [5]


async def test_two_processes_that_push_to_one_partition_leave_no_gap(
    engine: Engine, dsn: str
) -> None:
    async with await Engine.open(dsn) as other:
        pushed = await asyncio.gather(
            *(push(each, "orders", n, n) for n in range(25) for each in (engine, other))
        )

    offsets = sorted(one.offset for answers in pushed for one in answers if one.offset is not None)
    assert offsets == list(range(100))
    assert len(await drain(engine, "orders", batch=7)) == 100
