"""An ack may name its message by transactionId, with or without a lease."""

import pytest

from queen.codec.ids import reference
from queen.engine.engine import Engine
from queen.wire.messages import Acknowledgment
from tests.engine.helpers import ack, lease, message, pop, pop_one, push, settle, values
from tests.support.clock import Clock


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
                partition_id=reference(delivery.partition_id),
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
        [Acknowledgment(transaction_id="mine", partition_id=reference(one.partition_id))]
    )

    assert (refused.success, refused.code) == (False, "ambiguous_message")
    assert accepted.success
    assert await ack(engine, two) == 1
