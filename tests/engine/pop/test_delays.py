"""A message is never delivered before the delay of its queue or its own delay ends."""

from datetime import timedelta

import pytest

from queen.engine.engine import Engine
from tests.engine.helpers import drain, item, message, pop, pop_one, push, settle, values
from tests.support.clock import Clock


async def test_a_delayed_queue_delays_every_message(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("orders", {"delay_seconds": 60})
    await push(engine, "orders", "a")
    await clock.advance(seconds=30)
    await push(engine, "orders", "b")

    await clock.advance(seconds=29)
    assert await pop(engine, "orders", batch=10) == []
    await clock.advance(seconds=1)
    assert await drain(engine, "orders") == ["a"]
    await clock.advance(seconds=30)
    assert await drain(engine, "orders") == ["b"]


async def test_the_delay_applies_to_a_group_that_is_created_later(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"delay_seconds": 60})
    await push(engine, "orders", "a")
    await clock.advance(seconds=59)

    assert await pop(engine, "orders", group="g") == []
    await clock.advance(seconds=1)

    assert values(await pop_one(engine, "orders", group="g")) == ["a"]


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_message_may_have_its_own_delay(
    engine: Engine, clock: Clock, ordered: bool
) -> None:
    await engine.queues.configure("orders", {"ordered": ordered})
    (held,) = await push(engine, "orders", "later", delay_seconds=10)
    (direct,) = await push(engine, "orders", "now")

    assert (held.status, held.id, held.offset) == ("queued", None, None)
    assert direct.offset == 0
    assert await drain(engine, "orders") == ["now"]
    await clock.advance(seconds=9.9)
    assert await pop(engine, "orders") == []
    await clock.advance(seconds=0.1)
    late = await pop_one(engine, "orders")
    assert (values(late), late.offsets, late.attempt) == (["later"], [1], 1)


async def test_a_message_is_available_from_its_timestamp(engine: Engine, clock: Clock) -> None:
    instant = await clock.now() + timedelta(hours=2)
    await push(engine, "orders", "a", available_at=instant)

    await clock.advance(seconds=7199)
    assert await pop(engine, "orders") == []
    await clock.advance(seconds=1)
    assert values(await pop_one(engine, "orders")) == ["a"]


async def test_a_past_timestamp_means_now(engine: Engine, clock: Clock) -> None:
    past = await clock.now() - timedelta(hours=2)
    await push(engine, "orders", "a", available_at=past)

    assert values(await pop_one(engine, "orders")) == ["a"]


async def test_scheduled_messages_get_offsets_in_the_order_in_which_they_are_due(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "third", delay_seconds=30)
    await push(engine, "orders", "first", delay_seconds=10)
    await push(engine, "orders", "second", delay_seconds=20)
    await clock.advance(seconds=60)

    assert await drain(engine, "orders") == ["first", "second", "third"]


async def test_a_time_to_live_does_not_change_that_order(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "first", delay_seconds=10, ttl_seconds=1000)
    await push(engine, "orders", "second", delay_seconds=20)
    await push(engine, "orders", "third", delay_seconds=30, ttl_seconds=1000)
    await clock.advance(seconds=60)

    assert await drain(engine, "orders") == ["first", "second", "third"]


async def test_a_scheduled_message_is_delivered_with_all_its_fields(
    engine: Engine, clock: Clock
) -> None:
    await push(
        engine,
        "orders",
        {"n": 1},
        delay_seconds=5,
        headers={"k": "v"},
        trace_id="t",
        transaction_id="mine",
        partition="one",
    )
    await push(engine, "orders", "plain", delay_seconds=6, partition="one")
    await clock.advance(seconds=10)

    delivery = await pop_one(engine, "orders", batch=2)
    first, second = delivery.messages()

    assert (first.partition, bytes(first.data)) == ("one", b'{"n":1}')
    assert (first.headers, first.trace_id, first.transaction_id) == ({"k": "v"}, "t", "mine")
    assert (second.headers, second.trace_id, second.offset) == ({}, None, 1)


async def test_every_group_gets_a_scheduled_message_once(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", delay_seconds=5)
    await pop(engine, "orders", group="g")
    await clock.advance(seconds=6)

    assert await drain(engine, "orders", group="g") == ["a"]
    assert await drain(engine, "orders", group="h") == ["a"]
    assert await drain(engine, "orders", group="g") == []


async def test_a_delayed_message_has_a_transaction_id_from_the_start(
    engine: Engine, clock: Clock
) -> None:
    (named,) = await push(engine, "orders", "a", delay_seconds=5, transaction_id="mine")
    (held,) = await push(engine, "orders", "b", delay_seconds=6)
    assert named.transaction_id == "mine"
    assert held.transaction_id is not None
    await clock.advance(seconds=10)

    delivery = await pop_one(engine, "orders", batch=2)
    assert message(delivery, 1).transaction_id == held.transaction_id


async def test_a_delay_is_bounded_and_excludes_a_timestamp(engine: Engine, clock: Clock) -> None:
    far = await clock.now() + timedelta(days=366)
    soon = await clock.now() + timedelta(seconds=5)

    answers = await engine.push(
        [
            item("orders", "a", delay_seconds=-1),
            item("orders", "b", delay_seconds=366 * 86_400),
            item("orders", "c", delay_seconds=float("nan")),
            item("orders", "d", delay_seconds=5, available_at=soon),
            item("orders", "e", available_at=far),
            item("orders", "f"),
        ]
    )

    assert [each.code for each in answers] == ["invalid_item"] * 5 + [None]
    assert await drain(engine, "orders") == ["f"]


async def test_a_failed_message_that_was_delayed_waits_only_for_its_backoff(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"delay_seconds": 60})
    await push(engine, "orders", "a")
    await clock.advance(seconds=60)
    await settle(engine, await pop_one(engine, "orders"), status="failed")

    await clock.advance(seconds=1)
    assert (await pop_one(engine, "orders")).attempt == 2
