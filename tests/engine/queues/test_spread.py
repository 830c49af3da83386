"""Spread queues in one database: each partition is in the slot of its name."""

import asyncpg
import pytest

from queen import errors
from queen.codec.ids import NUMBER_BITS
from queen.engine.engine import Engine
from queen.wire.messages import Acknowledgment
from tests.cluster.places import slot_of
from tests.engine.helpers import (
    dead_letters,
    item,
    lease,
    message,
    pop,
    pop_one,
    purge,
    push,
    values,
)

NAMES = [f"c{n}" for n in range(5)]


@pytest.fixture
async def queue(engine: Engine) -> str:
    await engine.queues.configure("orders", {"placement": "spread"})
    return "orders"


async def test_each_partition_is_in_the_slot_of_its_name(engine: Engine, queue: str) -> None:
    await engine.queues.configure("invoices", {"placement": "spread"}, namespace="shop")
    await engine.push(
        [item(each, 1, partition=name) for name in NAMES for each in (queue, "invoices")]
    )

    for each in (queue, "invoices"):
        found = await pop(engine, each, partitions=10, batch=100)
        slots = {one.partition: one.partition_id >> NUMBER_BITS for one in found}
        assert slots == {name: slot_of(name) for name in NAMES}


async def test_a_partition_is_delivered_in_order_under_one_lease(
    engine: Engine, queue: str
) -> None:
    for name in NAMES:
        await push(engine, queue, *range(4), partition=name)
    found = await pop(engine, queue, partitions=5, batch=100)

    assert {each.partition: values(each) for each in found} == {
        name: [0, 1, 2, 3] for name in NAMES
    }
    assert await pop(engine, queue, partitions=5, batch=100) == []
    results = await engine.acknowledge(
        [Acknowledgment(lease_id=lease(each), id=message(each, 3).id) for each in found]
    )
    assert all(each.success for each in results)


async def test_messages_that_fail_return_from_all_slots(engine: Engine, queue: str) -> None:
    await engine.queues.configure(queue, {"retry_limit": 0})
    await engine.push([item(queue, name, partition=name) for name in NAMES])
    for _ in NAMES:
        delivery = await pop_one(engine, queue)
        says = Acknowledgment(lease_id=lease(delivery), id=message(delivery, 0).id, status="failed")
        assert (await engine.acknowledge([says]))[0].success

    assert len(await dead_letters(engine, queue)) == len(NAMES)


async def test_a_group_is_moved_and_the_queue_is_purged_in_all_slots(
    engine: Engine, queue: str
) -> None:
    await engine.push([item(queue, name, partition=name) for name in NAMES])
    first = await pop(engine, queue, group="g", subscription_mode="all", partitions=5, batch=100)
    await engine.queues.seek(queue, "g", to_start=True)
    again = await pop(engine, queue, group="g", partitions=5, batch=100)
    await purge(engine, queue)

    assert sorted(values(first)) == sorted(values(again)) == NAMES
    await engine.queues.seek(queue, "g", to_start=True)
    assert await pop(engine, queue, group="g") == []


async def test_the_placement_is_fixed_when_the_queue_is_created(engine: Engine, queue: str) -> None:
    await push(engine, "other", 1)

    for name, placement in ((queue, "home"), (queue, None), ("other", "spread")):
        with pytest.raises(errors.InvalidOption, match="fixed when a queue is created"):
            await engine.queues.configure(name, {"placement": placement})
    with pytest.raises(errors.InvalidOption):
        await engine.queues.configure("third", {"placement": "everywhere"})

    kept = await engine.queues.configure(queue, {"retry_limit": 7}, is_replaced=True, namespace="n")
    assert (kept["placement"], kept["slot"], kept["retry_limit"]) == ("spread", None, 7)


async def test_a_database_with_closed_slots_has_no_spread_queues(engine: Engine, dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("update queen.slots set is_open = false")
    await connection.close()

    with pytest.raises(errors.InvalidOption, match="needs all slots"):
        await engine.queues.configure("orders", {"placement": "spread"})


async def test_a_deleted_spread_queue_is_erased(engine: Engine, queue: str) -> None:
    await engine.push([item(queue, name, partition=name) for name in NAMES])
    await engine.queues.delete(queue)
    while not await engine.queues.erase_step():
        pass

    await push(engine, queue, 1)
    assert (await engine.queues.one(queue))["placement"] == "home"


async def test_a_group_is_filled_while_partitions_with_lower_ids_are_created(
    engine: Engine, queue: str
) -> None:
    names = sorted((f"p{n}" for n in range(1_200)), key=slot_of)
    await engine.push([item(queue, 1, partition=name) for name in names[50:]])
    await engine.store.groups.subscribe(queue, "g", mode="all", start_at=None)
    await engine.push([item(queue, 1, partition=name) for name in names[:50]])

    found = [*await pop(engine, queue, group="g", partitions=100, batch=5_000)]
    while more := await pop(engine, queue, group="g", partitions=100, batch=5_000):
        found += more
    assert sorted(each.partition for each in found) == sorted(names)
