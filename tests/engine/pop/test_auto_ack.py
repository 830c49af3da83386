"""With auto-ack, the server settles a message before it responds: at-most-once delivery."""

import pytest

from queen.engine.engine import Engine
from tests.engine.helpers import drain, lease, message, pop, pop_one, push, settle, values
from tests.support.clock import Clock


@pytest.mark.parametrize("ordered", [True, False])
async def test_an_auto_acked_message_is_never_delivered_again(
    engine: Engine, clock: Clock, ordered: bool
) -> None:
    await engine.queues.configure("orders", {"ordered": ordered})
    await push(engine, "orders", "a", "b", "c")

    first = await pop_one(engine, "orders", auto_ack=True, batch=2)

    assert (values(first), first.lease_id, first.until) == (["a", "b"], None, None)
    assert message(first, 0).lease_id is None
    await clock.advance(seconds=10_000)
    assert await drain(engine, "orders", auto_ack=True) == ["c"]
    assert await pop(engine, "orders") == []


async def test_auto_ack_takes_from_several_partitions(engine: Engine) -> None:
    for partition in ("one", "two"):
        await push(engine, "orders", *range(3), partition=partition)

    taken = await pop(engine, "orders", auto_ack=True, batch=5, partitions=2)

    assert sorted(len(each) for each in taken) == [2, 3]
    assert sorted(each.partition for each in taken) == ["one", "two"]


async def test_auto_ack_does_not_overtake_a_holder_on_an_ordered_queue(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    held = await pop_one(engine, "orders")

    assert await pop(engine, "orders", auto_ack=True) == []
    await engine.release(lease(held))

    assert await drain(engine, "orders", auto_ack=True, batch=1, partitions=1) == ["a", "b"]


async def test_auto_ack_settles_messages_that_failed_before(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", "b", "c")
    await settle(engine, await pop_one(engine, "orders", batch=2), 0, "failed")
    await clock.advance(seconds=2)

    first = await pop_one(engine, "orders", auto_ack=True, batch=10)
    assert (values(first), first.attempt, first.lease_id) == (["a"], 2, None)

    assert await drain(engine, "orders", auto_ack=True, batch=1, partitions=1) == ["b", "c"]
    await clock.advance(seconds=10_000)
    assert await pop(engine, "orders") == []


async def test_auto_ack_of_one_group_leaves_the_others_unchanged(engine: Engine) -> None:
    await push(engine, "orders", "a")

    await pop(engine, "orders", group="g", auto_ack=True)

    assert values(await pop_one(engine, "orders", group="h")) == ["a"]
