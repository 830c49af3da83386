"""A window buffer collects messages, starting with the first unclaimed one."""

import pytest

from queen.engine.engine import Engine
from tests.engine.helpers import ack, pop, pop_one, push, values
from tests.support.clock import Clock

WINDOW = {"window_seconds": 10}


async def test_the_window_opens_after_its_duration_from_the_first_message(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", WINDOW)
    await push(engine, "orders", "a")
    await clock.advance(seconds=9)
    await push(engine, "orders", "b")
    assert await pop(engine, "orders", batch=10) == []

    await clock.advance(seconds=1)
    assert values(await pop_one(engine, "orders", batch=10)) == ["a", "b"]


@pytest.mark.parametrize("ordered", [True, False])
async def test_remaining_messages_wait_from_the_first_unclaimed_one(
    engine: Engine, clock: Clock, ordered: bool
) -> None:
    await engine.queues.configure("orders", WINDOW | {"ordered": ordered})
    await push(engine, "orders", "a")
    await clock.advance(seconds=5)
    await push(engine, "orders", "b")
    await clock.advance(seconds=5)
    await ack(engine, await pop_one(engine, "orders"))

    await clock.advance(seconds=4)
    assert await pop(engine, "orders", batch=10) == []
    await clock.advance(seconds=1)
    assert values(await pop_one(engine, "orders", batch=10)) == ["b"]


async def test_after_a_drained_window_the_next_message_opens_a_new_one(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", WINDOW)
    await push(engine, "orders", "a")
    await clock.advance(seconds=10)
    await ack(engine, await pop_one(engine, "orders", batch=10))
    await clock.advance(seconds=100)
    await push(engine, "orders", "b")

    await clock.advance(seconds=9)
    assert await pop(engine, "orders", batch=10) == []
    await clock.advance(seconds=1)
    assert values(await pop_one(engine, "orders", batch=10)) == ["b"]


async def test_each_partition_has_its_own_window(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("orders", WINDOW)
    await push(engine, "orders", "a", partition="one")
    await clock.advance(seconds=5)
    await push(engine, "orders", "b", partition="two")
    await clock.advance(seconds=5)

    assert values(await pop(engine, "orders", batch=10, partitions=10)) == ["a"]
    await clock.advance(seconds=5)
    assert values(await pop(engine, "orders", batch=10, partitions=10)) == ["b"]


async def test_the_window_applies_to_a_group_that_is_created_later(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", WINDOW)
    await push(engine, "orders", "a")
    await clock.advance(seconds=9)
    assert await pop(engine, "orders", group="g") == []

    await clock.advance(seconds=1)
    assert values(await pop_one(engine, "orders", group="g")) == ["a"]
