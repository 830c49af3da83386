"""A spread queue uses all databases."""

import asyncio
from functools import partial
from typing import Any

import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.wire.messages import Acknowledgment, PopRequest
from tests.cluster.places import ONE, THREE, home, named, slot_of
from tests.engine.helpers import item, lease, message, until, values

HERE, SECOND, THIRD = (named(each, 4) for each in ("main", "two", "three"))
"""Names of partitions in each database."""
EVERY = [*HERE, *SECOND, *THIRD]


@pytest.fixture
async def orders(cluster: Cluster) -> str:
    await make(cluster, "orders")
    return "orders"


async def make(cluster: Cluster, queue: str, **options: Any) -> None:  # noqa: ANN401
    engine = await cluster.of_new_queue(queue, is_spread=True)
    row = await engine.queues.configure(queue, {"placement": "spread", **options})
    await cluster.publish(queue, row["id"])


async def pop(cluster: Cluster, queue: str, **fields: Any) -> list[Any]:  # noqa: ANN401
    request = PopRequest(queue=queue, batch=fields.pop("batch", 100), partitions=100, **fields)
    return [each for one in (await cluster.pop(request)).deliveries for each in values(one)]


async def are_dry(cluster: Cluster, request: PopRequest) -> bool:
    """Whether a pop waits at all databases."""
    return all(each.is_dry(request) for each in cluster.engines.values())


async def pop_all(cluster: Cluster, queue: str, **fields: Any) -> list[Any]:  # noqa: ANN401
    found: list[Any] = []
    while some := await pop(cluster, queue, auto_ack=True, **fields):
        found += some
    return found


async def test_each_database_has_the_partitions_of_its_slots(cluster: Cluster, orders: str) -> None:
    result = await cluster.push([item(orders, name, partition=name) for name in EVERY])

    assert {each.status for each in result} == {"queued"}
    for name, engine in cluster.engines.items():
        queue_id = (await engine.queues.one(orders))["id"]
        rows = await engine.store.queues.partitions(queue_id, after=("", -1), prefix="", limit=100)
        assert [home(row["name"]) for row in rows] == [name] * 4


async def test_a_pop_returns_its_claims_although_the_next_database_fails(
    cluster: Cluster, orders: str
) -> None:
    await cluster.push([item(orders, 1, partition=HERE[0])])
    await cluster.engines["two"].stop_waiting()

    assert await pop(cluster, orders, auto_ack=True) == [1]


async def test_pops_find_all_messages_in_order(cluster: Cluster, orders: str) -> None:
    for value in range(3):
        await cluster.push([item(orders, [name, value], partition=name) for name in EVERY])
    found = await pop_all(cluster, orders)

    assert sorted(found) == sorted([name, value] for name in EVERY for value in range(3))
    for name in EVERY:
        assert [value for partition, value in found if partition == name] == [0, 1, 2]


async def test_a_pop_of_a_partition_goes_to_its_database(cluster: Cluster, orders: str) -> None:
    await cluster.push([item(orders, name, partition=name) for name in EVERY])

    for name in (HERE[1], SECOND[1], THIRD[1]):
        request = PopRequest(queue=orders, partition=name)
        assert values((await cluster.pop(request)).deliveries) == [name]


async def test_acknowledgments_and_an_entity_in_two_queues(cluster: Cluster, orders: str) -> None:
    await make(cluster, "invoices")
    await cluster.push([item(orders, name, partition=name) for name in EVERY])
    found = (await cluster.pop(PopRequest(queue=orders, batch=100, partitions=100))).deliveries
    assert len(found) > 4

    for each in found[:5]:
        says = [Acknowledgment(lease_id=lease(each), id=message(each, 0).id)]
        items = [item("invoices", each.partition, partition=each.partition)]
        engine = await cluster.of_transaction(acknowledgments=says, items=items)
        await engine.transact(acknowledgments=says, items=items)
    with pytest.raises(errors.CrossShard, match="partition"):
        await cluster.of_transaction(
            items=[item("invoices", 1, partition=name) for name in (HERE[0], THIRD[0])]
        )
    assert len(await pop_all(cluster, "invoices")) == 5


async def test_a_numbered_push_to_several_databases_is_stored_once(
    cluster: Cluster, orders: str
) -> None:
    items = [item(orders, name, partition=name) for name in EVERY]
    first = await cluster.push(items, producer_id="p", sequence=1)
    again = await cluster.push(items, producer_id="p", sequence=1)

    assert (first.is_replayed, again.is_replayed) == (False, True)
    assert [each.offset for each in again] == [each.offset for each in first] == [0] * len(EVERY)
    with pytest.raises(errors.SequenceStale):
        await cluster.push(items, producer_id="p", sequence=0)
    with pytest.raises(errors.CrossShard, match=f"partition {HERE[0]} of queue orders is in main"):
        await cluster.push([items[0], item(THREE, 1)], producer_id="p", sequence=2)
    assert sorted(await pop_all(cluster, orders)) == sorted(EVERY)


async def test_queue_and_groups_have_the_same_ids_everywhere(cluster: Cluster, orders: str) -> None:
    await cluster.push([item(orders, 1, partition=name) for name in EVERY])
    await pop_all(cluster, orders, consumer_group="g", subscription_mode="all")
    rows = [await engine.queues.one(orders) for engine in cluster.engines.values()]
    groups = [
        (await engine.store.groups.find([orders], "g", mode=None, start_at=None))[0]
        for engine in cluster.engines.values()
    ]

    assert len({row["id"] for row in rows}) == 1
    assert len({row["group_id"] for row in groups}) == 1


async def test_a_new_group_starts_at_one_time_everywhere(cluster: Cluster, orders: str) -> None:
    await cluster.push([item(orders, "old", partition=name) for name in EVERY])
    new = PopRequest(queue=orders, consumer_group="g", subscription_mode="new", partition=HERE[0])
    assert (await cluster.pop(new)).deliveries == []
    await cluster.push([item(orders, "new", partition=name) for name in EVERY])

    # The other databases get the group only now.
    assert await pop_all(cluster, orders, consumer_group="g") == ["new"] * len(EVERY)


async def test_options_change_in_all_databases(cluster: Cluster, orders: str) -> None:
    await cluster.push([item(orders, 1, partition=name) for name in EVERY])
    row = await cluster.first.queues.configure(orders, {"paused": True, "retry_limit": 7})
    await cluster.publish(orders, row["id"])

    assert await pop(cluster, orders) == []
    for engine in cluster.engines.values():
        copy = await engine.queues.one(orders)
        assert (copy["retry_limit"], copy["version"]) == (7, row["version"])


async def test_a_deleted_queue_is_deleted_everywhere(cluster: Cluster, orders: str) -> None:
    await cluster.push([item(orders, "old", partition=name) for name in EVERY])
    await cluster.publish(orders, await cluster.first.queues.delete(orders))
    await cluster.push([item(orders, "new", partition=name) for name in EVERY])

    assert await pop_all(cluster, orders) == ["new"] * len(EVERY)
    ids = [(await engine.queues.one(orders))["id"] for engine in cluster.engines.values()]
    assert len({*ids}) == 1


async def test_a_deleted_group_is_created_again(cluster: Cluster, orders: str) -> None:
    await cluster.push([item(orders, 1, partition=name) for name in EVERY])
    for _ in range(2):
        found = await pop_all(cluster, orders, consumer_group="g", subscription_mode="all")
        assert len(found) == len(EVERY)
        await cluster.publish(orders, await cluster.first.queues.delete_group(orders, "g"))


async def test_a_waiting_pop_is_woken_by_any_database(cluster: Cluster, orders: str) -> None:
    for name in (THIRD[0], HERE[0], SECOND[0]):
        request = PopRequest(queue=orders, wait=True, timeout_seconds=20)
        popping = asyncio.create_task(cluster.pop(request))
        await until(partial(are_dry, cluster, request))
        await cluster.push([item(orders, name, partition=name)])
        async with asyncio.timeout(10):
            assert values((await popping).deliveries) == [name]


async def test_options_that_need_one_database_are_rejected(cluster: Cluster, orders: str) -> None:
    with pytest.raises(errors.InvalidOption, match="with several databases excludes maxSize"):
        await cluster.first.queues.configure(orders, {"max_size": 5})
    with pytest.raises(errors.InvalidOption, match="fixes the option ordered"):
        await cluster.first.queues.configure(orders, {"ordered": False})


async def test_a_name_keeps_its_placement(cluster: Cluster, orders: str) -> None:
    await cluster.push([item(ONE, 1)])
    await cluster.first.queues.delete(ONE)

    engine = await cluster.of_new_queue(ONE, is_spread=True)
    with pytest.raises(errors.InvalidOption, match="keeps its placement"):
        await engine.queues.configure(ONE, {"placement": "spread"})
    with pytest.raises(errors.SlotMoved):
        await cluster.engines["two"].queues.configure("fresh", {"placement": "spread"})


async def test_slots_with_partitions_of_a_spread_queue_are_in_use(
    cluster: Cluster, orders: str
) -> None:
    await cluster.push([item(orders, 1, partition=THIRD[0])])
    rows = await cluster.engines["three"].store.homes.used()

    assert [(row["slot"], row["hindrances"]) for row in rows] == [(slot_of(THIRD[0]), [])]
