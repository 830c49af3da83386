"""A group has its own position, and its start is set when it is first used."""

from datetime import timedelta

import pytest

from queen.engine.engine import Engine
from queen.errors import GroupNotFound, LeaseLost, QueueNotFound, SubscriptionConflict
from tests.engine.helpers import ack, delete_group, drain, item, pop, pop_one, push, settle, values
from tests.support.clock import Clock


async def test_each_group_sees_every_message(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")

    assert await drain(engine, "orders", group="billing") == ["a", "b"]
    await push(engine, "orders", "c")
    assert await drain(engine, "orders", group="billing") == ["c"]
    assert await drain(engine, "orders", group="shipping") == ["a", "b", "c"]


async def test_groups_lease_and_fail_independently(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a", "b")
    billing = await pop_one(engine, "orders", group="billing")
    shipping = await pop_one(engine, "orders", group="shipping")
    await settle(engine, shipping, status="failed")
    assert await ack(engine, billing) == 1
    await clock.advance(seconds=2)

    shipping = await pop_one(engine, "orders", group="shipping")
    billing = await pop_one(engine, "orders", group="billing")

    assert (shipping.offsets, shipping.attempt, shipping.group) == ([0], 2, "shipping")
    assert (billing.offsets, billing.attempt, billing.group) == ([1], 1, "billing")


async def test_queue_mode_is_a_group_beside_the_others(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")

    queue_mode = await pop_one(engine, "orders")
    group = await pop_one(engine, "orders", group="billing", batch=2)
    assert (values(queue_mode), queue_mode.group) == (["a"], None)
    assert values(group) == ["a", "b"]

    await ack(engine, group)
    assert await pop(engine, "orders") == []
    await ack(engine, queue_mode)
    assert values(await pop_one(engine, "orders")) == ["b"]


async def test_the_reserved_name_means_queue_mode(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    await ack(engine, await pop_one(engine, "orders"))

    assert values(await pop_one(engine, "orders", group="__QUEUE_MODE__")) == ["b"]


async def test_a_group_with_mode_all_starts_at_the_beginning(engine: Engine) -> None:
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", partition="two")

    taken = await drain(engine, "orders", group="g", subscription_mode="all")

    assert sorted(taken) == ["a", "b"]


async def test_a_group_with_mode_new_gets_messages_pushed_after_its_first_use(
    engine: Engine,
) -> None:
    await push(engine, "orders", "old", partition="one")

    assert await pop(engine, "orders", group="g", subscription_mode="new") == []
    await push(engine, "orders", "new", partition="one")
    await push(engine, "orders", "in a new partition", partition="two")

    taken = await drain(engine, "orders", group="g", subscription_mode="new")
    assert taken == ["new", "in a new partition"]


async def test_a_group_starts_at_a_timestamp(engine: Engine, clock: Clock) -> None:
    await push(engine, "orders", "a")
    await clock.advance(seconds=60)
    start = await clock.now()
    await clock.advance(seconds=60)
    await push(engine, "orders", "b")
    await push(engine, "orders", "c")

    first = await pop_one(engine, "orders", group="g", subscription_from=start, batch=10)

    assert (first.offsets, values(first)) == ([1, 2], ["b", "c"])


async def test_a_group_cannot_start_in_the_future(engine: Engine, clock: Clock) -> None:
    start = await clock.now() + timedelta(hours=1)
    await push(engine, "orders", "old")

    assert await pop(engine, "orders", group="g", subscription_from=start) == []
    await push(engine, "orders", "new")

    assert values(await pop_one(engine, "orders", group="g")) == ["new"]


async def test_a_start_that_differs_from_the_stored_one_is_rejected(
    engine: Engine, clock: Clock
) -> None:
    start = await clock.now()
    later = start + timedelta(microseconds=1)
    await push(engine, "orders", "a")
    await pop(engine, "orders", group="all", subscription_mode="all")
    await pop(engine, "orders", group="new", subscription_mode="new")
    await pop(engine, "orders", group="time", subscription_from=start)

    with pytest.raises(SubscriptionConflict):
        await pop(engine, "orders", group="all", subscription_mode="new")
    with pytest.raises(SubscriptionConflict):
        await pop(engine, "orders", group="new", subscription_from=start)
    with pytest.raises(SubscriptionConflict):
        await pop(engine, "orders", group="time", subscription_from=later)


async def test_the_same_start_or_no_start_is_accepted(engine: Engine, clock: Clock) -> None:
    start = await clock.now()
    await push(engine, "orders", "a", "b", "c")

    for fields in ({"subscription_from": start}, {"subscription_from": start}, {}):
        await ack(engine, await pop_one(engine, "orders", group="g", **fields))

    assert await pop(engine, "orders", group="g") == []


async def test_a_group_without_a_start_begins_at_the_first_message(engine: Engine) -> None:
    await push(engine, "orders", "a")
    await ack(engine, await pop_one(engine, "orders", group="g"))

    assert await pop(engine, "orders", group="g", subscription_mode="all") == []
    with pytest.raises(SubscriptionConflict):
        await pop(engine, "orders", group="g", subscription_mode="new")


async def test_a_pop_creates_a_group_but_never_a_queue(engine: Engine) -> None:
    with pytest.raises(QueueNotFound):
        await pop(engine, "orders", group="g")
    with pytest.raises(QueueNotFound):
        await engine.catalogue.queue("orders")


async def test_a_deleted_group_is_recreated_by_the_next_pop(engine: Engine) -> None:
    await push(engine, "orders", "a", "b")
    await drain(engine, "orders", group="g")
    await drain(engine, "orders", group="other")

    await delete_group(engine, "orders", "g")

    assert values(await pop_one(engine, "orders", group="g", batch=2)) == ["a", "b"]
    assert await pop(engine, "orders", group="other") == []


async def test_deleting_a_group_ends_its_leases(engine: Engine) -> None:
    await push(engine, "orders", "a")
    delivery = await pop_one(engine, "orders", group="g")

    await delete_group(engine, "orders", "g")

    with pytest.raises(LeaseLost):
        await ack(engine, delivery)
    with pytest.raises(GroupNotFound):
        await delete_group(engine, "orders", "g")


async def test_a_deleted_group_can_be_recreated_with_another_start(engine: Engine) -> None:
    await push(engine, "orders", "a")
    await pop(engine, "orders", group="g", subscription_mode="all")
    await delete_group(engine, "orders", "g")

    assert await pop(engine, "orders", group="g", subscription_mode="new") == []
    await push(engine, "orders", "b")

    assert values(await pop_one(engine, "orders", group="g", batch=2)) == ["b"]


async def test_a_group_that_another_process_deleted_is_recreated_by_the_next_pop(
    engine: Engine, dsn: str
) -> None:
    await push(engine, "orders", "a")
    await drain(engine, "orders", group="g")
    async with await Engine.open(dsn) as other:
        await delete_group(other, "orders", "g")

    assert values(await pop_one(engine, "orders", group="g")) == ["a"]


async def test_a_group_of_more_partitions_than_one_step_covers_sees_them_all(
    engine: Engine,
) -> None:
    await engine.push([item("orders", n, partition=str(n)) for n in range(1200)])

    taken = await drain(engine, "orders", group="g", batch=1000, partitions=1000)

    assert sorted(taken) == list(range(1200))
