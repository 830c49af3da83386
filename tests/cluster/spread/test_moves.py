"""Slots with partitions of spread queues move, with positions, leases and waiting messages."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.wire.messages import Acknowledgment, PopRequest
from tests.cluster.moves import Members, finish, run
from tests.cluster.places import named, slot_of
from tests.engine.helpers import item, lease, message, until, values

OTHER, MOVED = named("main", 2)
AWAY = named("three", 1)[0]
SLOT, HELD = slot_of(MOVED), slot_of(AWAY)
GROUP: dict[str, Any] = {"consumer_group": "g", "subscription_mode": "all"}


@pytest.fixture
async def orders(cluster: Cluster) -> str:
    engine = await cluster.of_new_queue("orders", is_spread=True)
    options = {"placement": "spread", "lease_seconds": 60}
    row = await engine.queues.configure("orders", options)
    await cluster.publish("orders", row["id"])
    return "orders"


@pytest.fixture
async def members(databases: dict[str, str]) -> AsyncIterator[Members]:
    async with Members.connected(databases) as members:
        yield members


async def pop(cluster: Cluster, **fields: Any) -> list[Any]:  # noqa: ANN401
    request = PopRequest(queue="orders", batch=100, partitions=100, **fields)
    return [each for one in (await cluster.pop(request)).deliveries for each in values(one)]


async def move(members: Members, source: str, target: str) -> None:
    await finish(members.move(SLOT, source, target))


async def test_messages_positions_and_leases_move(
    cluster: Cluster, orders: str, members: Members
) -> None:
    await cluster.push([item(orders, n, partition=MOVED) for n in range(6)])
    await cluster.push([item(orders, "other", partition=OTHER)])
    request = PopRequest(queue=orders, partition=MOVED, batch=2, **GROUP)
    (leased,) = (await cluster.pop(request)).deliveries
    for source, target in (("main", "two"), ("two", "three"), ("three", "main")):
        await run(members.move(SLOT, source, target))
        assert await members.owners(SLOT) == [target]
        assert (await cluster.pop(request)).deliveries == []

    await run(members.move(SLOT, "main", "two"))
    says = [Acknowledgment(lease_id=lease(leased), id=message(leased, n).id) for n in (0, 1)]
    assert all(each.success for each in await cluster.acknowledge(says))
    assert values((await cluster.pop(request)).deliveries) == [2, 3]
    assert await cluster.of_partition(orders, MOVED) is cluster.engines["two"]
    assert await pop(cluster, auto_ack=True) == ["other", 0, 1, 2, 3, 4, 5]


async def test_only_the_partitions_of_the_slot_move(
    cluster: Cluster, orders: str, members: Members
) -> None:
    names = [MOVED, OTHER, AWAY]
    await cluster.push([item(orders, 1, partition=name) for name in names])
    await run(members.move(SLOT, "main", "three"))
    places = {OTHER: "main", MOVED: "three", AWAY: "three"}

    for name, engine in cluster.engines.items():
        row = await engine.queues.one(orders)
        rows = await engine.store.queues.partitions(row["id"], after=("", -1), prefix="", limit=9)
        found = {each["name"] for each in rows}
        assert found == {each for each in names if places[each] == name}


async def test_a_group_that_only_the_target_knows_gets_the_messages(
    cluster: Cluster, orders: str, members: Members
) -> None:
    await cluster.push([item(orders, "old", partition=name) for name in (MOVED, AWAY)])
    assert await pop(cluster, partition=AWAY, **GROUP) == ["old"]
    await run(members.move(SLOT, "main", "two"))
    await run(members.move(SLOT, "two", "three"))

    assert await pop(cluster, **GROUP) == ["old"]
    await cluster.push([item(orders, "new", partition=MOVED)])
    assert await pop(cluster, **GROUP) == []


async def test_scheduled_messages_retries_and_priorities_move(
    cluster: Cluster, orders: str, members: Members
) -> None:
    await cluster.push([item(orders, 1, partition=MOVED), item(orders, 2, partition=MOVED)])
    await cluster.push([item(orders, "due", partition=MOVED, delay_seconds=1.0)])
    await cluster.first.queues.configure_partition(orders, MOVED, priority=7)
    (delivery,) = (await cluster.pop(PopRequest(queue=orders, **GROUP))).deliveries
    failed = Acknowledgment(lease_id=lease(delivery), id=message(delivery, 0).id, status="retry")
    assert (await cluster.acknowledge([failed]))[0].success
    await run(members.move(SLOT, "main", "two"))

    found: list[Any] = []

    async def are_there() -> bool:
        found.extend(await pop(cluster, auto_ack=True, **GROUP))
        return len(found) >= 3

    await until(are_there, seconds=15)
    assert found == [1, 2, "due"]


async def test_only_the_owner_delivers_while_a_slot_is_copied_or_erased(
    cluster: Cluster, orders: str, databases: dict[str, str]
) -> None:
    await cluster.push([item(orders, n, partition=MOVED) for n in range(10)])
    await cluster.push([item(orders, 10, partition=AWAY)])
    for pause_at in (12, 60, 110):
        async with Members.connected(databases, pause_at=pause_at) as members:
            place = (await members.owners(SLOT))[0]
            target = "three" if place == "main" else "main"
            moving = members.start(move(members, place, target))
            await members.paused()
            request = PopRequest(queue=orders, batch=1, partitions=1, **GROUP)
            for engine in cluster.engines.values():
                await cluster.spreads.ensure_group(engine, request)
                found = await engine.pop(PopRequest(queue=orders, batch=100, partitions=9, **GROUP))
                await engine.give_back(found)
                has_moved = any(each.partition == MOVED for each in found)
                owners = await members.owners(SLOT)
                assert not has_moved or cluster.engines[owners[0]] is engine
            members.resume()
            await asyncio.wait([moving])
            await move(members, place, target)
    assert sorted(await pop(cluster, auto_ack=True, **GROUP)) == [*range(11)]


async def test_a_push_of_a_process_with_an_old_map_follows(
    cluster: Cluster, orders: str, members: Members
) -> None:
    await cluster.push([item(orders, 1, partition=MOVED, transaction_id="a")])
    await run(members.move(SLOT, "main", "two"))

    result = await cluster.push(
        [item(orders, 2, partition=name, transaction_id="a") for name in (MOVED, OTHER, AWAY)]
    )
    assert [each.status for each in result] == ["duplicate", "queued", "queued"]
    await cluster.push([item(orders, 3, partition=MOVED)], producer_id="p", sequence=1)
    assert await pop(cluster, partition=MOVED) == [1, 3]


async def test_a_repeated_request_stores_only_what_is_missing(
    cluster: Cluster, orders: str, members: Members
) -> None:
    items = [item(orders, name, partition=name) for name in (MOVED, OTHER, AWAY)]
    await members.value(
        "three", "update queen.slots set state = 'leaving', moved_to = 'two' where slot = $1", HELD
    )
    cluster.following.patience_seconds = 0.1
    with pytest.raises(errors.OutcomeUnknown):
        await cluster.push(items, producer_id="p", sequence=1)
    await members.value(
        "three", "update queen.slots set state = 'owned', moved_to = null where slot = $1", HELD
    )
    await run(members.move(SLOT, "main", "three"))  # It has no producer p yet, in any slot.

    result = await cluster.push(items, producer_id="p", sequence=1)
    assert [each.offset for each in result] == [0, 0, 0]
    assert (await cluster.push(items, producer_id="p", sequence=1)).is_replayed
    found = [*await pop(cluster, auto_ack=True), *await pop(cluster, auto_ack=True)]
    assert sorted(found) == sorted([MOVED, OTHER, AWAY])


async def test_retention_visits_partitions_that_arrived(
    cluster: Cluster, orders: str, members: Members
) -> None:
    options = {"retention_enabled": True, "retention_seconds": 60, "max_wait_seconds": 60}
    row = await cluster.first.queues.configure(orders, options)
    await cluster.publish(orders, row["id"])
    await cluster.push([item(orders, 1, partition=MOVED)])
    await run(members.move(SLOT, "main", "two"))

    query = "select array_agg(kind order by kind) from queen.laggards where partition_id >> 53 = $1"
    assert await members.value("two", query, SLOT) == ["age", "eviction"]


async def test_a_seek_while_a_slot_is_leaving_is_rejected(
    cluster: Cluster, orders: str, members: Members
) -> None:
    await cluster.push([item(orders, 1, partition=MOVED)])
    assert await pop(cluster, **GROUP) == [1]
    await members.value(
        "main", "update queen.slots set state = 'leaving', moved_to = 'two' where slot = $1", SLOT
    )

    with pytest.raises(errors.SlotMoved):
        await cluster.first.queues.seek(orders, "g", to_start=True)
