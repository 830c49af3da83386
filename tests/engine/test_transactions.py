"""A transaction applies its acks and pushes over several queues together or not at all."""

import asyncio
from functools import partial
from typing import Any

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.errors import (
    AlreadySettled,
    BadRequest,
    Duplicate,
    InvalidItem,
    InvalidStatus,
    LeaseLost,
    PayloadTooLarge,
    QueenError,
    QueueFull,
    SequenceStale,
)
from queen.wire.messages import Acknowledgment, PushItem
from tests.engine.helpers import ack, drain, item, lease, pop, pop_one, push, says, until, values
from tests.support.clock import Clock


async def popped(engine: Engine, *payloads: object, **fields: Any) -> Delivery:  # noqa: ANN401
    """A delivery from the queue `source` with these payloads."""
    await push(engine, "source", *payloads, **fields)
    return await pop_one(engine, "source", batch=len(payloads))


async def test_acks_and_pushes_are_applied_together(engine: Engine) -> None:
    delivery = await popped(engine, "a", "b")

    result = await engine.transact(
        acknowledgments=[says(delivery, 0, "completed"), says(delivery, 1, "completed")],
        items=[item("one", "x"), item("two", "y", partition="p"), item("one", "z")],
    )

    assert [(each.status, each.offset) for each in result] == [
        ("queued", 0),
        ("queued", 0),
        ("queued", 1),
    ]
    assert (await drain(engine, "one"), await drain(engine, "two")) == (["x", "z"], ["y"])
    assert await pop(engine, "source") == []
    with pytest.raises(LeaseLost):
        await ack(engine, delivery)


async def test_a_lost_lease_rolls_the_pushes_back(engine: Engine, clock: Clock) -> None:
    lost = await popped(engine, "a")
    await clock.advance(seconds=301)
    again = await pop_one(engine, "source")

    with pytest.raises(LeaseLost):
        await engine.transact(
            acknowledgments=[says(lost, 0, "completed")], items=[item("sink", "x")]
        )

    await engine.queues.configure("sink")
    assert await pop(engine, "sink") == []
    assert await ack(engine, again) == 1


async def test_one_lost_lease_of_several_applies_none(engine: Engine, clock: Clock) -> None:
    await push(engine, "source", "a", partition="one")
    await push(engine, "source", "b", partition="two")
    lost = await pop_one(engine, "source", partition="one")
    await clock.advance(seconds=301)
    await pop_one(engine, "source", partition="one")
    live = await pop_one(engine, "source", partition="two")

    with pytest.raises(LeaseLost):
        await engine.transact(
            acknowledgments=[says(live, 0, "completed"), says(lost, 0, "completed")]
        )

    assert await ack(engine, live) == 1


async def test_a_settled_message_rolls_the_transaction_back(engine: Engine) -> None:
    delivery = await popped(engine, "a", "b")
    await engine.ack(lease(delivery), [0])

    with pytest.raises(AlreadySettled):
        await engine.transact(
            acknowledgments=[says(delivery, 1, "completed"), says(delivery, 0, "failed")],
            items=[item("sink", "x")],
        )

    assert await ack(engine, delivery) == 1
    await engine.queues.configure("sink")
    assert await pop(engine, "sink") == []


async def test_a_required_lease_must_be_current(engine: Engine, clock: Clock) -> None:
    delivery = await popped(engine, "a")
    await engine.transact(items=[item("sink", "x")], required_leases=[lease(delivery)])
    await clock.advance(seconds=301)
    await pop_one(engine, "source")

    with pytest.raises(LeaseLost):
        await engine.transact(items=[item("sink", "y")], required_leases=[lease(delivery)])

    assert await drain(engine, "sink") == ["x"]


async def test_a_failure_in_a_transaction_is_a_nack(engine: Engine, clock: Clock) -> None:
    delivery = await popped(engine, "a", "b", "c")

    await engine.transact(
        acknowledgments=[says(delivery, 0, "completed"), says(delivery, 1, "failed", error="no")],
        items=[item("errors", "b failed")],
    )
    await clock.advance(seconds=2)

    again = await pop_one(engine, "source", batch=3)
    assert (again.offsets, again.attempt) == ([1], 2)
    assert await drain(engine, "errors") == ["b failed"]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (item("sink", "x" * 2**20), PayloadTooLarge),
        (item("sink", "y", priority=3), InvalidItem),
        (PushItem(queue="sink", payload=b"no"), InvalidItem),
    ],
    ids=["large", "priority", "not json"],
)
async def test_a_rejected_item_rolls_the_acks_back(
    engine: Engine, bad: PushItem, error: type[QueenError]
) -> None:
    delivery = await popped(engine, "a")

    with pytest.raises(error):
        await engine.transact(
            acknowledgments=[says(delivery, 0, "completed")], items=[item("sink", "x"), bad]
        )

    assert await ack(engine, delivery) == 1
    await engine.queues.configure("sink")
    assert await pop(engine, "sink") == []


async def test_a_full_queue_rolls_the_acks_back(engine: Engine) -> None:
    await engine.queues.configure("sink", {"max_size": 1})
    await push(engine, "sink", "x")
    delivery = await popped(engine, "a")

    with pytest.raises(QueueFull):
        await engine.transact(
            acknowledgments=[says(delivery, 0, "completed")], items=[item("sink", "y")]
        )

    assert await ack(engine, delivery) == 1


async def test_a_known_transaction_id_counts_as_pushed(engine: Engine) -> None:
    delivery = await popped(engine, "a")
    await push(engine, "sink", "x", transaction_id="t")

    result = await engine.transact(
        acknowledgments=[says(delivery, 0, "completed")],
        items=[item("sink", "again", transaction_id="t"), item("sink", "y")],
    )

    assert [(each.status, each.offset) for each in result] == [("duplicate", 0), ("queued", 1)]
    assert await drain(engine, "sink") == ["x", "y"]
    with pytest.raises(LeaseLost):
        await ack(engine, delivery)


async def test_a_known_transaction_id_rolls_back_if_requested(engine: Engine) -> None:
    delivery = await popped(engine, "a")
    await push(engine, "sink", "x", transaction_id="t")

    with pytest.raises(Duplicate):
        await engine.transact(
            acknowledgments=[says(delivery, 0, "completed")],
            items=[item("sink", "y"), item("sink", "again", transaction_id="t")],
            is_rolled_back_on_duplicate=True,
        )

    assert await drain(engine, "sink") == ["x"]
    assert await ack(engine, delivery) == 1


async def test_a_repeat_with_its_producer_is_reported_as_replayed(engine: Engine) -> None:
    delivery = await popped(engine, "a")

    results = [
        await engine.transact(
            acknowledgments=[says(delivery, 0, "completed")],
            items=[item("sink", "x")],
            producer_id="p",
            sequence=1,
        )
        for _ in range(2)
    ]

    assert [result.is_replayed for result in results] == [False, True]
    assert await drain(engine, "sink") == ["x"]


async def test_a_repeat_that_names_messages_by_their_transaction_ids_is_replayed_too(
    engine: Engine,
) -> None:
    delivery = await popped(engine, "a", transaction_id="mine")
    named = Acknowledgment(transaction_id="mine", lease_id=delivery.lease_id)

    results = [
        await engine.transact(
            acknowledgments=[named], items=[item("sink", "x")], producer_id="p", sequence=1
        )
        for _ in range(2)
    ]

    assert [result.is_replayed for result in results] == [False, True]
    assert await drain(engine, "sink") == ["x"]


async def test_a_repeat_without_leases_is_replayed_too(engine: Engine) -> None:
    delivery = await popped(engine, "a")
    named = Acknowledgment(id=next(delivery.messages()).id)

    results = [
        await engine.transact(
            acknowledgments=[named], items=[item("sink", "x")], producer_id="p", sequence=1
        )
        for _ in range(2)
    ]

    assert [result.is_replayed for result in results] == [False, True]
    assert list(results[1]) == list(results[0])


async def test_a_repeat_waits_for_the_first_one_that_is_still_running(
    engine: Engine, dsn: str
) -> None:
    await engine.push([item("sink", "x")], producer_id="p", sequence=1)
    connection = await asyncpg.connect(dsn)
    first = connection.transaction()
    await first.start()
    arguments = "array[e'p\\x1f*'], array[2]::bigint[], queen.now()"
    await connection.execute(f"select queen.check_producers({arguments})")
    await connection.execute(f"select queen.record_producers({arguments})")

    repeat = asyncio.create_task(
        engine.transact(
            acknowledgments=[Acknowledgment(transaction_id="settled by the first")],
            items=[item("sink", "y")],
            producer_id="p",
            sequence=2,
        )
    )
    await until(partial(is_waiting_for_a_lock, engine))
    await first.commit()
    await connection.close()

    assert (await repeat).is_replayed


async def is_waiting_for_a_lock(engine: Engine) -> bool:
    connection = await asyncpg.connect(engine.store.database.dsn)
    try:
        return await connection.fetchval(
            "select exists (select from pg_stat_activity"
            " where wait_event_type = 'Lock' and datname = current_database())"
        )
    finally:
        await connection.close()


async def test_a_stale_sequence_applies_no_change(engine: Engine) -> None:
    delivery = await popped(engine, "a")
    await engine.push([item("sink", "x")], producer_id="p", sequence=5)

    with pytest.raises(SequenceStale):
        await engine.transact(
            acknowledgments=[says(delivery, 0, "completed")],
            items=[item("sink", "y")],
            producer_id="p",
            sequence=4,
        )

    assert await drain(engine, "sink") == ["x"]
    assert await ack(engine, delivery) == 1


async def test_a_failed_transaction_may_reuse_its_number(engine: Engine, clock: Clock) -> None:
    lost = await popped(engine, "a")
    await clock.advance(seconds=301)
    live = await pop_one(engine, "source")
    with pytest.raises(LeaseLost):
        await engine.transact(
            acknowledgments=[says(lost, 0, "completed")],
            items=[item("sink", "x")],
            producer_id="p",
            sequence=1,
        )

    result = await engine.transact(
        acknowledgments=[says(live, 0, "completed")],
        items=[item("sink", "x")],
        producer_id="p",
        sequence=1,
    )

    assert (result.is_replayed, result[0].offset) == (False, 0)


async def test_a_transaction_may_have_only_acks_or_only_pushes(engine: Engine) -> None:
    delivery = await popped(engine, "a")

    await engine.transact(acknowledgments=[says(delivery, 0, "completed")])
    await engine.transact(items=[item("sink", "x"), item("other", "y", delay_seconds=0)])

    assert await pop(engine, "source") == []
    assert await drain(engine, "sink") == ["x"]
    assert await drain(engine, "other") == ["y"]


async def test_an_unknown_status_applies_no_change(engine: Engine) -> None:
    delivery = await popped(engine, "a")

    with pytest.raises(InvalidStatus):
        await engine.transact(
            acknowledgments=[says(delivery, 0, "done")], items=[item("sink", "x")]
        )

    assert await ack(engine, delivery) == 1


async def test_a_message_that_is_named_twice_applies_no_change(engine: Engine) -> None:
    delivery = await popped(engine, "a")

    with pytest.raises(BadRequest):
        await engine.transact(
            acknowledgments=[says(delivery, 0, "completed"), says(delivery, 0, "failed")],
            items=[item("sink", "x")],
        )

    assert await ack(engine, delivery) == 1


async def test_a_chain_of_transactions_moves_every_message_once_and_in_order(
    engine: Engine,
) -> None:
    await push(engine, "source", *range(20))
    while deliveries := await pop(engine, "source", batch=3):
        (delivery,) = deliveries
        await engine.transact(
            acknowledgments=[says(delivery, offset, "completed") for offset in delivery.offsets],
            items=[item("sink", value) for value in values(delivery)],
        )

    assert await drain(engine, "sink") == list(range(20))


async def test_a_transaction_that_pushes_to_its_own_partition_continues(engine: Engine) -> None:
    delivery = await popped(engine, 1)

    await engine.transact(
        acknowledgments=[says(delivery, 0, "completed")], items=[item("source", 2)]
    )

    assert await drain(engine, "source") == [2]
