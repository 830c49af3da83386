"""A message past its time to live is skipped, and its neighbours are delivered."""

import pytest

from queen.engine.engine import Engine
from tests.engine.helpers import ack, dead_letters, drain, item, pop, pop_one, push, settle, values
from tests.support.clock import Clock


async def test_a_queue_gives_its_messages_a_time_to_live(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("orders", {"ttl_seconds": 60})
    await push(engine, "orders", "old")
    await clock.advance(seconds=50)
    await push(engine, "orders", "young")

    await clock.advance(seconds=10)
    delivery = await pop_one(engine, "orders", batch=10)
    assert (values(delivery), delivery.offsets) == (["young"], [1])


async def test_a_message_is_available_until_the_end_of_its_time_to_live(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"ttl_seconds": 60})
    await push(engine, "orders", "a")

    await clock.advance(seconds=59)
    assert values(await pop_one(engine, "orders", group="in time")) == ["a"]
    await clock.advance(seconds=1)
    assert await pop(engine, "orders", group="late") == []


async def test_a_message_may_have_its_own_time_to_live(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("orders", {"ttl_seconds": 60})
    await engine.push(
        [
            item("orders", "queue's"),
            item("orders", "short", ttl_seconds=5),
            item("orders", "long", ttl_seconds=500),
            item("orders", "queue's too"),
        ]
    )

    await clock.advance(seconds=6)
    assert await drain(engine, "orders", group="g") == ["queue's", "long", "queue's too"]
    await clock.advance(seconds=60)
    assert await drain(engine, "orders", group="h") == ["long"]


async def test_the_time_counts_from_when_the_message_is_available(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("delayed", {"delay_seconds": 100, "ttl_seconds": 10})
    await push(engine, "delayed", "a")
    await push(engine, "scheduled", "b", delay_seconds=100, ttl_seconds=10)

    await clock.advance(seconds=109)
    assert await drain(engine, "delayed") == ["a"]
    assert await drain(engine, "scheduled") == ["b"]


async def test_a_scheduled_message_expires_even_without_a_pop_when_it_was_due(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "a", delay_seconds=100, ttl_seconds=10)

    await clock.advance(seconds=111)

    assert await drain(engine, "orders") == []


async def test_an_expired_message_in_the_middle_is_skipped(engine: Engine, clock: Clock) -> None:
    for value in range(5):
        await push(engine, "orders", value, ttl_seconds=5 if value in (1, 3) else None)
    await clock.advance(seconds=6)

    assert await drain(engine, "orders", batch=1) == [0, 2, 4]


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_message_that_expires_while_it_waits_for_its_next_attempt_is_removed(
    engine: Engine, clock: Clock, ordered: bool
) -> None:
    await engine.queues.configure("orders", {"ordered": ordered, "retry_limit": 0})
    await push(engine, "orders", "a", ttl_seconds=5)
    await push(engine, "orders", "b")
    delivery = await pop_one(engine, "orders")
    await settle(engine, delivery, status="retry", delay_seconds=10)
    await clock.advance(seconds=11)

    taken = await drain(engine, "orders") or await drain(engine, "orders")

    assert taken == ["b"]
    assert await dead_letters(engine, "orders") == []


async def test_a_leased_message_that_expires_can_still_be_settled(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "a", ttl_seconds=5)
    delivery = await pop_one(engine, "orders")
    await clock.advance(seconds=10)

    assert await ack(engine, delivery) == 1
    assert await pop(engine, "orders") == []


async def test_after_only_expired_messages_the_next_one_is_delivered(
    engine: Engine, clock: Clock
) -> None:
    for value in range(20):
        await push(engine, "orders", value, ttl_seconds=1)
    await clock.advance(seconds=2)
    assert await pop(engine, "orders", batch=10) == []

    await push(engine, "orders", "alive")

    delivery = await pop_one(engine, "orders", batch=10)
    assert (values(delivery), delivery.offsets) == (["alive"], [20])


@pytest.mark.parametrize("ttl_seconds", [0, -1, float("nan"), 10**10])
async def test_a_time_to_live_is_positive_and_bounded(engine: Engine, ttl_seconds: float) -> None:
    (answer,) = await push(engine, "orders", "a", ttl_seconds=ttl_seconds)

    assert (answer.status, answer.code) == ("failed", "invalid_item")


async def test_a_scheduled_message_that_expires_unread_frees_its_transaction_id(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "a", delay_seconds=10, ttl_seconds=5, transaction_id="t")
    await clock.advance(seconds=60)
    assert await pop(engine, "orders") == []

    (again,) = await push(engine, "orders", "b", transaction_id="t")

    assert (again.status, again.offset) == ("queued", 0)
