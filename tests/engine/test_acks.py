"""An ack settles exactly the messages that it names, in any order within the delivery."""

import time
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from msgspec import UNSET

from queen.codec.ids import partition_ref
from queen.engine.engine import Engine
from queen.errors import BadRequest, InvalidStatus, OutcomeUnknown, Overloaded
from queen.settings import Settings
from queen.store import messages as rows
from queen.wire.messages import Acknowledgment
from tests.engine.helpers import (
    ack,
    dead_letters,
    item,
    lease,
    message,
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


async def test_an_ack_of_offsets_outside_the_delivery_settles_no_message(engine: Engine) -> None:
    await push(engine, "orders", *range(4))
    delivery = await pop_one(engine, "orders", batch=2)

    assert await engine.ack(lease(delivery), [2, 3, 400]) == 0
    await ack(engine, delivery)

    assert (await pop_one(engine, "orders", batch=4)).offsets == [2, 3]


async def test_an_ack_does_not_settle_the_same_offset_of_another_partition(
    engine: Engine,
) -> None:
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", partition="two")
    one = await pop_one(engine, "orders", partition="one")
    two = await pop_one(engine, "orders", partition="two")

    (answer,) = await engine.acknowledge(
        [Acknowledgment(id=message(two, 0).id, lease_id=one.lease_id)]
    )

    assert (answer.success, answer.code) == (False, "lease_lost")
    assert await ack(engine, one) == 1
    assert await ack(engine, two) == 1


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


async def test_an_unknown_status_or_a_repeated_message_applies_no_ack(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    batch = await pop_one(engine, "orders", batch=2)

    with pytest.raises(InvalidStatus):
        await engine.acknowledge([says(batch, 0, "completed"), says(batch, 1, "done")])
    with pytest.raises(BadRequest):
        await engine.acknowledge([says(batch, 0, "completed"), says(batch, 0, "failed")])

    assert await ack(engine, batch) == 2


async def test_one_rejection_in_a_call_leaves_the_others_applied(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", partition="two")
    lost = await pop_one(engine, "orders", partition="one")
    await clock.advance(seconds=301)
    await pop_one(engine, "orders", partition="one")
    live = await pop_one(engine, "orders", partition="two")

    answers = await engine.acknowledge([says(lost, 0, "completed"), says(live, 0, "completed")])

    assert [(each.success, each.code) for each in answers] == [(False, "lease_lost"), (True, None)]


async def test_a_failure_of_a_settled_message_is_rejected(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    batch = await pop_one(engine, "orders", batch=2)
    await settle(engine, batch, 0)

    answer = await settle(engine, batch, 0, "failed")

    assert (answer.success, answer.code) == (False, "already_settled")
    assert await ack(engine, batch) == 1


async def test_a_failure_of_a_settled_message_is_rejected_by_transaction_id_too(
    engine: Engine,
) -> None:
    await push(engine, "orders", "a", transaction_id="mine")
    await push(engine, "orders", "b")
    batch = await pop_one(engine, "orders", batch=2)
    await settle(engine, batch, 0)

    (answer,) = await engine.acknowledge(
        [Acknowledgment(transaction_id="mine", lease_id=batch.lease_id, status="failed")]
    )

    assert (answer.success, answer.code) == (False, "already_settled")


async def test_a_transaction_id_of_the_client_names_a_message_of_the_lease(engine: Engine) -> None:
    await push(engine, "orders", "a", transaction_id="mine")
    await push(engine, "orders", "b")
    delivery = await pop_one(engine, "orders", batch=2)

    (answer,) = await engine.acknowledge(
        [Acknowledgment(transaction_id="mine", lease_id=delivery.lease_id)]
    )

    assert (answer.transaction_id, answer.success) == ("mine", True)
    assert await ack(engine, delivery) == 1


@pytest.mark.parametrize("dedup_seconds", [0, 60])
async def test_a_transaction_id_names_its_message_outside_the_dedup_window_too(
    engine: Engine, clock: Clock, dedup_seconds: int
) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": dedup_seconds})
    await push(engine, "orders", "a", transaction_id="mine")
    delivery = await pop_one(engine, "orders")
    await clock.advance(seconds=61)

    (answer,) = await engine.acknowledge(
        [
            Acknowledgment(
                transaction_id="mine",
                lease_id=delivery.lease_id,
                partition_id=partition_ref(0, delivery.partition_id),
            )
        ]
    )

    assert (answer.success, answer.noop, answer.code) == (True, False, None)


async def test_a_transaction_id_may_equal_the_id_of_another_message(
    engine: Engine,
) -> None:
    """A forwarder may use the ID of a message as the transactionId of its copy."""
    (source, _) = await push(engine, "source", "a", "b")
    await push(engine, "copies", "filler")
    await push(engine, "copies", "a", transaction_id=source.id)
    copies = await pop_one(engine, "copies", batch=2)
    copy = message(copies, 1)
    assert copy.transaction_id == source.id

    (answer,) = await engine.acknowledge(
        [Acknowledgment(transaction_id=copy.transaction_id, lease_id=copy.lease_id)]
    )

    assert (answer.success, answer.noop) == (True, False)
    await engine.release(lease(copies))
    assert values(await pop_one(engine, "copies", batch=2)) == ["filler"]


async def test_an_ack_without_a_lease_settles_within_a_live_delivery(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    delivery = await pop_one(engine, "orders", batch=2, group="g")
    name = message(delivery, 0).id

    (first,) = await engine.acknowledge([Acknowledgment(transaction_id=name)], consumer_group="g")
    (again,) = await engine.acknowledge([Acknowledgment(transaction_id=name)], consumer_group="g")

    assert (first.success, first.noop) == (True, False)
    assert (again.success, again.noop) == (True, True)
    assert await ack(engine, delivery) == 1


async def test_an_ack_without_a_lease_of_an_unleased_message_is_rejected(
    engine: Engine,
) -> None:
    (pushed,) = await push(engine, "orders", "a")
    assert pushed.id is not None
    await pop(engine, "orders", group="other")

    (answer,) = await engine.acknowledge(
        [Acknowledgment(transaction_id=pushed.id)], consumer_group="g"
    )

    assert (answer.success, answer.code) == (False, "message_not_found")


async def test_a_failure_without_a_lease_of_a_settled_message_reports_it(engine: Engine) -> None:
    await push(engine, "orders", "a")
    delivery = await pop_one(engine, "orders")
    await ack(engine, delivery)

    (answer,) = await engine.acknowledge(
        [Acknowledgment(transaction_id=message(delivery, 0).id, status="failed")]
    )

    assert (answer.success, answer.code) == (False, "already_settled")


async def test_a_transaction_id_that_is_leased_twice_is_ambiguous_without_its_partition(
    engine: Engine,
) -> None:
    for partition in ("one", "two"):
        await push(engine, "orders", partition, partition=partition, transaction_id="mine")
    one, two = await pop(engine, "orders", batch=2, partitions=2)

    (refused,) = await engine.acknowledge([Acknowledgment(transaction_id="mine")])
    (accepted,) = await engine.acknowledge(
        [Acknowledgment(transaction_id="mine", partition_id=partition_ref(0, one.partition_id))]
    )

    assert (refused.success, refused.code) == (False, "ambiguous_message")
    assert accepted.success
    assert await ack(engine, two) == 1


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


async def test_an_ack_of_an_undelivered_message_is_rejected(engine: Engine) -> None:
    pushed = await push(engine, "orders", "a", "b", "c", "d")
    delivery = await pop_one(engine, "orders", batch=2)

    answers = await engine.acknowledge(
        [Acknowledgment(id=each.id, lease_id=delivery.lease_id) for each in pushed[1:3]]
    )

    assert [(each.success, each.code) for each in answers] == [
        (True, None),
        (False, "already_settled"),
    ]
    await ack(engine, delivery)
    assert values(await pop(engine, "orders", batch=9)) == ["c", "d"]


async def test_an_ack_of_a_message_with_another_holder_is_rejected(engine: Engine) -> None:
    await engine.queues.configure("orders", {"ordered": False})
    pushed = await push(engine, "orders", "a", "b")
    first, second = await pop_one(engine, "orders"), await pop_one(engine, "orders")

    answers = await engine.acknowledge(
        [Acknowledgment(id=each.id, lease_id=first.lease_id) for each in pushed]
    )

    assert [each.success for each in answers] == [True, False]
    assert await ack(engine, second) == 1


@pytest.mark.parametrize("word", ["completed", "failed"])
async def test_a_status_for_an_undelivered_message_is_rejected_beside_a_failure(
    engine: Engine, word: str
) -> None:
    pushed = await push(engine, "orders", *range(5))
    delivery = await pop_one(engine, "orders", batch=2)

    answers = await engine.acknowledge(
        [
            Acknowledgment(id=pushed[0].id, lease_id=delivery.lease_id, status="failed"),
            Acknowledgment(id=pushed[1].id, lease_id=delivery.lease_id, status=word),
            Acknowledgment(id=pushed[4].id, lease_id=delivery.lease_id, status=word),
        ]
    )

    assert [each.success for each in answers] == [True, True, False]


async def test_completing_a_message_twice_in_one_lease_succeeds(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", "c")
    delivery = await pop_one(engine, "orders", batch=3)
    await settle(engine, delivery, 0)

    assert (await settle(engine, delivery, 0)).success
    answers = await engine.acknowledge(
        [says(delivery, 0, "completed"), says(delivery, 1, "completed")]
    )
    assert [each.success for each in answers] == [True, True]


async def test_one_rejected_message_leaves_the_others_settled(engine: Engine) -> None:
    pushed = await push(engine, "orders", 1, 2, 3)
    held = await pop_one(engine, "orders", batch=2)
    said = [Acknowledgment(id=each.id, lease_id=lease(held)) for each in pushed]

    answers = await engine.acknowledge(said)

    assert [each.success for each in answers] == [True, True, False]
    assert values(await pop_one(engine, "orders")) == [3]


async def test_a_lost_lease_shows_whether_the_group_has_settled_the_message(
    engine: Engine, clock: Clock
) -> None:
    pushed = await push(engine, "orders", 1, 2, transaction_id=None)
    (named,) = await push(engine, "orders", 3, transaction_id="mine", partition="p")
    old = await pop(engine, "orders", batch=10, partitions=2)
    await clock.advance(seconds=301)
    for again in await pop(engine, "orders", batch=10, partitions=2):
        await engine.ack(lease(again), offsets=again.offsets[:1])

    said = [Acknowledgment(id=each.id, lease_id=lease(old[0])) for each in pushed]
    answers = await engine.acknowledge(said)
    by_name = Acknowledgment(
        transaction_id="mine", lease_id=lease(old[0]), partition_id=named.partition_id
    )
    answers += await engine.acknowledge([by_name])

    assert [each.code for each in answers] == ["lease_lost"] * 3
    assert [each.settled for each in answers] == [True, UNSET, True]


async def test_acks_of_several_leases_are_accepted_together_or_not_at_all(dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(max_queued_requests=1)) as engine:
        for partition in ("a", "b"):
            await push(engine, "orders", 1, partition=partition)
        one, two = await pop(engine, "orders", batch=10, partitions=2)

        with pytest.raises(Overloaded):
            await engine.acknowledge([says(one, 0, "completed"), says(two, 0, "completed")])

        assert await ack(engine, one) == 1
        assert await ack(engine, two) == 1


async def test_a_lease_with_an_unknown_outcome_hides_no_other(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in ("a", "b"):
        await push(engine, "orders", 1, partition=partition)
    one, two = await pop(engine, "orders", batch=10, partitions=2)
    settle_all = engine.store.messages.ack

    async def fail(acks: Sequence[rows.Ack]) -> list[rows.Record]:
        if [each.delivery_id for each in acks] == [one.lease.delivery_id if one.lease else 0]:
            raise OutcomeUnknown("the connection was lost")
        return await settle_all(acks)

    # One flush per lease.
    monkeypatch.setattr(engine._settler._batcher, "_max_units", 1)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(engine.store.messages, "ack", fail)
    said = [says(one, 0, "completed"), says(two, 0, "completed")]

    answers = await engine.acknowledge(said)
    with pytest.raises(OutcomeUnknown):
        await engine.acknowledge(said[:1])

    assert [each.code for each in answers] == ["outcome_unknown", None]


@pytest.mark.parametrize(
    "fields",
    [
        {"transaction_id": "a\0"},
        {"transaction_id": "\ud800"},
        {"transaction_id": "x" * 256},
        {"transaction_id": "a", "consumer_group": "g\0"},
    ],
)
async def test_an_invalid_name_is_a_bad_request(engine: Engine, fields: dict[str, Any]) -> None:
    await push(engine, "orders", 1)
    held = await pop_one(engine, "orders")

    for lease_id in (None, lease(held), "lost"):
        with pytest.raises(BadRequest):
            await engine.acknowledge([Acknowledgment(lease_id=lease_id, **fields)])


async def test_an_invalid_partition_is_not_found(engine: Engine) -> None:
    for partition_id in ("0.99999999999999999999", "0.-1", "0.1.2", "\0", "9223372036854775808"):
        said = Acknowledgment(transaction_id="abc", partition_id=partition_id)
        (answer,) = await engine.acknowledge([said])

        assert answer.code == "message_not_found"


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
