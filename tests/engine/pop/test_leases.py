"""A lease assigns messages to one consumer for a limited time."""

from datetime import timedelta

import pytest

from queen.engine.engine import Engine
from queen.errors import BadRequest, LeaseLost
from tests.engine.helpers import (
    ack,
    dead_letters,
    extend,
    lease,
    message,
    pop,
    pop_one,
    push,
    settle,
)
from tests.support.clock import Clock


async def test_an_expired_lease_is_redelivered(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", {"total": 12})
    first = await pop_one(engine, "orders")

    await clock.advance(seconds=301)
    second = await pop_one(engine, "orders")

    assert (message(second, 0).id, second.attempt) == (message(first, 0).id, 2)
    with pytest.raises(LeaseLost):
        await ack(engine, first)
    assert await ack(engine, second) == 1


async def test_a_lease_lasts_until_its_end(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("orders", {"retry_delay_ms": 0})
    await push(engine, "orders", "a")
    await pop_one(engine, "orders")

    await clock.advance(seconds=299)
    assert await pop(engine, "orders") == []
    await clock.advance(seconds=1)
    assert (await pop_one(engine, "orders")).attempt == 2


async def test_the_queue_or_the_pop_sets_the_duration_of_a_lease(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"lease_seconds": 20})
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", partition="two")
    before = await clock.now()

    by_queue = await pop_one(engine, "orders", partition="one")
    by_pop = await pop_one(engine, "orders", partition="two", lease_seconds=5)

    assert by_queue.until is not None
    assert by_pop.until is not None
    assert timedelta(seconds=20) < by_queue.until - before < timedelta(seconds=25)
    assert timedelta(seconds=5) < by_pop.until - before < timedelta(seconds=10)
    assert message(by_pop, 0).lease_expires_at == by_pop.until


@pytest.mark.parametrize("seconds", [0, -1, 43_201, float("nan")])
async def test_a_lease_is_positive_and_bounded(engine: Engine, seconds: float) -> None:
    await push(engine, "orders", "a")
    with pytest.raises(BadRequest):
        await pop(engine, "orders", lease_seconds=seconds)

    delivery = await pop_one(engine, "orders")
    with pytest.raises(BadRequest):
        await extend(engine, lease(delivery), seconds=seconds)


async def test_an_extended_lease_ends_later(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a")
    delivery = await pop_one(engine, "orders")
    await clock.advance(seconds=200)

    now = await clock.now()
    end = await extend(engine, lease(delivery), seconds=300)

    assert timedelta(seconds=300) < end - now < timedelta(seconds=305)
    await clock.advance(seconds=299)
    assert await pop(engine, "orders") == []
    await clock.advance(seconds=3)
    assert (await pop_one(engine, "orders")).attempt == 2


async def test_an_extension_never_shortens_a_lease(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a")
    delivery = await pop_one(engine, "orders")

    assert await extend(engine, lease(delivery), seconds=10) == delivery.until
    await clock.advance(seconds=299)

    assert await pop(engine, "orders") == []
    assert await ack(engine, delivery) == 1


async def test_an_expired_lease_can_be_extended_until_the_redelivery(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "a")
    delivery = await pop_one(engine, "orders")
    await clock.advance(seconds=1000)

    await extend(engine, lease(delivery), seconds=60)

    assert await pop(engine, "orders") == []
    assert await ack(engine, delivery) == 1


async def test_a_settled_lease_is_over(engine: Engine) -> None:
    await push(engine, "orders", "a")
    delivery = await pop_one(engine, "orders")
    await ack(engine, delivery)

    with pytest.raises(LeaseLost):
        await ack(engine, delivery)
    with pytest.raises(LeaseLost):
        await extend(engine, lease(delivery), seconds=60)
    with pytest.raises(LeaseLost):
        await engine.release(lease(delivery))


async def test_a_released_delivery_is_redelivered_immediately_and_uncounted(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", "c")
    first = await pop_one(engine, "orders", batch=3)
    await engine.ack(lease(first), [1])

    await engine.release(lease(first))
    second = await pop_one(engine, "orders", batch=3)

    assert (second.offsets, second.attempt) == ([0, 2], 1)
    with pytest.raises(LeaseLost):
        await ack(engine, first)
    assert await ack(engine, second) == 2


async def test_a_release_keeps_the_counted_failures(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", "b")
    await settle(engine, await pop_one(engine, "orders", batch=2), status="failed")
    await clock.advance(seconds=2)

    again = await pop_one(engine, "orders", batch=2)
    await engine.release(lease(again))
    third = await pop_one(engine, "orders", batch=2)

    assert (again.offsets, again.attempt) == ([0], 2)
    assert (third.offsets, third.attempt) == ([0], 2)


async def test_releases_never_lead_to_a_dead_letter(engine: Engine) -> None:
    await engine.queues.configure("orders", {"retry_limit": 1})
    await push(engine, "orders", "a")

    for _ in range(5):
        delivery = await pop_one(engine, "orders")
        assert delivery.attempt == 1
        await engine.release(lease(delivery))

    assert await dead_letters(engine, "orders") == []
