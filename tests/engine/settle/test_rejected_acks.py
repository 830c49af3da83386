"""A rejected ack settles no message, and the other acks of its call are applied."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import UNSET

from queen.engine.engine import Engine
from queen.errors import BadRequest, InvalidStatus, OutcomeUnknown, Overloaded
from queen.settings import Settings
from queen.store import messages as rows
from queen.wire.messages import Acknowledgment
from tests.engine.helpers import ack, lease, message, pop, pop_one, push, says, settle, values
from tests.support.clock import Clock


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
