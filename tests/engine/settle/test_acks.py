"""An ack settles exactly the messages that it names, in any order within the delivery."""

import time
from itertools import permutations

import pytest

from queen.engine.engine import Engine
from queen.wire.messages import Acknowledgment
from tests.engine.helpers import (
    ack,
    dead_letters,
    item,
    lease,
    pop,
    pop_one,
    push,
    says,
    seconds_until,
    settle,
    values,
)
from tests.support.clock import Clock


async def test_the_messages_of_a_delivery_are_acked_one_by_one_in_any_order(
    engine: Engine,
) -> None:
    orders = list(permutations(range(4)))
    await engine.push(
        [item("orders", n, partition=str(p)) for p in range(len(orders)) for n in range(5)]
    )
    for order in orders:
        delivery = await pop_one(engine, "orders", batch=4)
        for offset in order:
            assert await engine.ack(lease(delivery), [offset]) == 1
        rest = await pop_one(engine, "orders", partition=delivery.partition, batch=9)
        assert (rest.offsets, rest.attempt) == ([4], 1)


@pytest.mark.parametrize("order", list(permutations(range(4)))[::5])
async def test_a_delivery_is_settled_by_single_acknowledgments_in_any_order(
    engine: Engine, order: tuple[int, ...]
) -> None:
    await push(engine, "orders", *range(4))
    delivery = await pop_one(engine, "orders", batch=4)

    for offset in order:
        assert (await settle(engine, delivery, offset)).success

    assert await pop(engine, "orders") == []
    await push(engine, "orders", "next")
    assert (await pop_one(engine, "orders", batch=9)).offsets == [4]


async def test_a_partial_ack_leaves_the_other_messages_leased(engine: Engine) -> None:
    await push(engine, "orders", *range(4))
    delivery = await pop_one(engine, "orders", batch=4)

    assert await engine.ack(lease(delivery), [3, 1]) == 2
    assert await engine.ack(lease(delivery), [1]) == 0
    assert await pop(engine, "orders") == []
    assert await engine.ack(lease(delivery)) == 2


async def test_messages_completed_after_a_failed_one_stay_settled(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", *range(5))
    batch = await pop_one(engine, "orders", batch=5)

    answers = await engine.acknowledge(
        [
            says(batch, 0, "completed"),
            says(batch, 1, "failed", error="no"),
            says(batch, 3, "completed"),
        ]
    )
    assert [answer.success for answer in answers] == [True, True, True]
    await clock.advance(seconds=2)

    again = await pop_one(engine, "orders", batch=5)
    assert (again.offsets, again.attempt) == ([1], 2)
    await ack(engine, again)
    rest = await pop_one(engine, "orders", batch=5)
    assert (rest.offsets, rest.attempt) == ([2, 4], 1)


async def test_the_lowest_of_several_failures_in_one_call_counts(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", *range(4))
    batch = await pop_one(engine, "orders", batch=4)

    answers = await engine.acknowledge(
        [says(batch, 2, "failed"), says(batch, 1, "failed"), says(batch, 0, "completed")]
    )
    assert all(answer.success for answer in answers)
    await clock.advance(seconds=2)

    again = await pop_one(engine, "orders", batch=4)
    assert (again.offsets, again.attempt) == ([1], 2)
    await ack(engine, again)
    rest = await pop_one(engine, "orders", batch=4)
    assert (rest.offsets, rest.attempt) == ([2, 3], 1)


async def test_a_failure_ends_the_delivery_and_its_lease(engine: Engine) -> None:
    await push(engine, "orders", *range(3))
    batch = await pop_one(engine, "orders", batch=3)

    failed = await settle(engine, batch, 1, "failed")
    wait = await seconds_until(engine, failed)
    late = await settle(engine, batch, 0)

    assert (failed.success, failed.lease_released, failed.dlq) == (True, True, False)
    assert 0.5 <= wait <= 1
    assert (late.success, late.code) == (False, "lease_lost")


async def test_a_dead_letter_in_the_middle_keeps_the_lease(
    engine: Engine,
) -> None:
    await push(engine, "orders", *range(3))
    batch = await pop_one(engine, "orders", batch=3)

    dead = await settle(engine, batch, 1, "dlq", error="never")

    assert (dead.success, dead.dlq, dead.lease_released) == (True, True, False)
    assert await pop(engine, "orders") == []
    assert await ack(engine, batch) == 2
    (letter,) = await dead_letters(engine, "orders")
    assert (letter["offset"], letter["error"], letter["attempts"]) == (1, "never", 1)


async def test_the_result_shows_whether_the_lease_ended(engine: Engine) -> None:
    await push(engine, "orders", *range(2))
    batch = await pop_one(engine, "orders", batch=2)

    first = await settle(engine, batch, 1)
    last = await settle(engine, batch, 0)

    assert (first.lease_released, last.lease_released) == (False, True)


@pytest.mark.parametrize("word", ["completed", "success", "acked", "ok"])
async def test_every_synonym_of_completed_settles(engine: Engine, word: str) -> None:
    await push(engine, "orders", "a", "b")

    assert (await settle(engine, await pop_one(engine, "orders"), status=word)).success

    assert values(await pop_one(engine, "orders")) == ["b"]


async def test_a_retry_is_redelivered_immediately_by_itself_and_uncounted(engine: Engine) -> None:
    await push(engine, "orders", *range(3))
    batch = await pop_one(engine, "orders", batch=3)
    await settle(engine, batch, 0)

    answer = await settle(engine, batch, 1, "retry")
    wait = await seconds_until(engine, answer)
    again = await pop_one(engine, "orders", batch=3)

    assert answer.success
    assert wait <= 0
    assert (again.offsets, again.attempt) == ([1], 1)
    await ack(engine, again)
    assert (await pop_one(engine, "orders", batch=3)).offsets == [2]


async def test_an_error_text_that_postgresql_cannot_store_still_counts_the_failure(
    engine: Engine,
) -> None:
    await engine.queues.configure("orders", {"retry_limit": 0})
    await push(engine, "orders", "a")

    answer = await settle(
        engine, await pop_one(engine, "orders"), status="failed", error="bad\0byte"
    )

    assert (answer.success, answer.dlq) == (True, True)
    (letter,) = await dead_letters(engine, "orders")
    assert letter["error"].startswith("bad")


async def test_completing_a_message_twice_in_one_lease_succeeds(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", "c")
    delivery = await pop_one(engine, "orders", batch=3)
    await settle(engine, delivery, 0)

    assert (await settle(engine, delivery, 0)).success
    answers = await engine.acknowledge(
        [says(delivery, 0, "completed"), says(delivery, 1, "completed")]
    )
    assert [each.success for each in answers] == [True, True]


async def test_ten_thousand_acks_of_a_lease_cost_little(engine: Engine) -> None:
    count = 10_000
    await push(engine, "orders", *range(count))
    held = await pop_one(engine, "orders", batch=count)
    said = [
        Acknowledgment(id=each.id, lease_id=lease(held), transaction_id=each.transaction_id)
        for each in held.messages()
    ]

    begun = time.process_time()
    answers = await engine.acknowledge(said)
    took = time.process_time() - begun

    assert all(each.success for each in answers)
    assert took / count < 10e-6  # It takes about 1 µs on an idle machine.
