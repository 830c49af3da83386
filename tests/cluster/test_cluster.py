"""Requests find their database, and requests about several databases are divided."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.codec.slots import hashed
from queen.engine.engine import Engine
from queen.wire.messages import Acknowledged, Acknowledgment, PopRequest, PushItem
from tests.cluster.places import ONE, THREE, TWO, home, named
from tests.engine.helpers import item, lease, message, until, values


@pytest.fixture
async def other(databases: dict[str, str]) -> AsyncIterator[Cluster]:
    """Another process."""
    engines = {name: await Engine.open(dsn) for name, dsn in databases.items()}
    cluster = Cluster(engines)
    await cluster.start()
    yield cluster
    for engine in engines.values():
        await engine.close()


async def pop(cluster: Cluster, queue: str, **fields: Any) -> list[Any]:  # noqa: ANN401
    return values((await cluster.pop(PopRequest(queue=queue, **fields))).deliveries)


@pytest.mark.parametrize(("queue", "database"), [(ONE, "main"), (TWO, "two"), (THREE, "three")])
async def test_a_queue_is_in_its_database(
    cluster: Cluster, other: Cluster, queue: str, database: str
) -> None:
    await cluster.push([item(queue, 1), item(queue, 2)])

    found = await cluster.engines[database].pop(PopRequest(queue=queue))
    assert values(found) == [1]
    assert await cluster.of_queue(queue) is cluster.engines[database]
    assert await other.of_queue(queue) is other.engines[database]
    assert cluster.of_lease(lease(found[0])) is cluster.engines[database]


async def test_a_push_to_several_databases_keeps_the_order(cluster: Cluster) -> None:
    queues = [THREE, ONE, TWO, ONE, THREE]

    result = await cluster.push([item(queue, n) for n, queue in enumerate(queues)])

    assert [each.status for each in result] == ["queued"] * 5
    assert [each.offset for each in result] == [0, 0, 0, 1, 1]
    assert await pop(cluster, ONE, batch=10) == [1, 3]
    assert await pop(cluster, TWO, batch=10) == [2]
    assert await pop(cluster, THREE, batch=10) == [0, 4]


async def test_a_numbered_push_stays_in_one_database(cluster: Cluster) -> None:
    with pytest.raises(errors.CrossShard, match=f"queue {ONE} is in main"):
        await cluster.push([item(TWO, 1), item(ONE, 1)], producer_id="p", sequence=1)

    for queue in (ONE, TWO):
        with pytest.raises(errors.QueueNotFound):
            await pop(cluster, queue)


async def test_queues_of_a_namespace_are_together(cluster: Cluster, other: Cluster) -> None:
    space = next(name for name in (f"n{n}" for n in range(100)) if home(name) == "three")
    for queue in (ONE, TWO):
        engine = await cluster.of_new_queue(queue, space)
        await engine.queues.configure(queue, namespace=space)

    result = await other.push([item(ONE, 1), item(TWO, 2)], producer_id="p", sequence=1)

    assert [each.status for each in result] == ["queued"] * 2
    assert await other.of_queue(ONE) is other.engines["three"]


async def test_two_processes_agree_on_the_slot_of_a_name(cluster: Cluster, other: Cluster) -> None:
    spaces = [f"n{n}" for n in range(20)]
    claims = [each.of_new_queue("orders", space) for space in spaces for each in (cluster, other)]

    found = await asyncio.gather(*claims)

    names = {each.store.database.dsn for each in found}
    assert len(names) == 1


async def test_acknowledgments_go_to_their_databases(cluster: Cluster) -> None:
    await cluster.push([item(queue, queue) for queue in (ONE, TWO, THREE)])
    deliveries = [
        (await cluster.pop(PopRequest(queue=queue))).deliveries[0] for queue in (THREE, ONE, TWO)
    ]
    says = [Acknowledgment(lease_id=each.lease_id, id=message(each, 0).id) for each in deliveries]
    foreign = Acknowledgment(lease_id=lease(deliveries[0]), id=message(deliveries[1], 0).id)

    (refused,) = await cluster.acknowledge([foreign])
    results = await cluster.acknowledge(says)

    assert not refused.success
    assert [each.success for each in results] == [True, True, True]
    for queue in (ONE, TWO, THREE):
        assert await pop(cluster, queue) == []


async def test_a_message_named_only_by_its_transaction_id_is_found_in_every_database(
    cluster: Cluster,
) -> None:
    await cluster.push([item(THREE, 1, transaction_id="order-7")])
    await pop(cluster, THREE)

    (result,) = await cluster.acknowledge([Acknowledgment(transaction_id="order-7")])
    (unknown,) = await cluster.acknowledge([Acknowledgment(transaction_id="order-8")])

    assert result.success
    assert unknown.code == "message_not_found"


async def test_leases_of_several_databases_are_extended(cluster: Cluster) -> None:
    await cluster.push([item(queue, 1) for queue in (ONE, TWO)])
    leases = [
        lease((await cluster.pop(PopRequest(queue=queue))).deliveries[0]) for queue in (ONE, TWO)
    ]

    results = await cluster.extend_many([leases[1], "nonsense", leases[0]], seconds=100)

    assert [each.success for each in results] == [True, False, True]
    assert [each.lease_id for each in results] == [leases[1], "nonsense", leases[0]]


async def test_a_transaction_needs_one_database(cluster: Cluster) -> None:
    await cluster.push([item(ONE, 1)])
    (delivery,) = (await cluster.pop(PopRequest(queue=ONE))).deliveries
    done = [Acknowledgment(lease_id=delivery.lease_id, id=message(delivery, 0).id)]
    same = next(name for name in named("main", 5) if name != ONE)

    with pytest.raises(errors.CrossShard, match="an acknowledgment is in main"):
        await cluster.of_transaction(acknowledgments=done, items=[item(TWO, 1)])
    with pytest.raises(errors.CrossShard, match="a required lease is in main"):
        await cluster.of_transaction(required_leases=[lease(delivery)], items=[item(TWO, 1)])
    engine = await cluster.of_transaction(acknowledgments=done, items=[item(same, 1)])
    assert engine is cluster.engines["main"]


async def test_acknowledgments_of_a_cancelled_pop_are_applied(cluster: Cluster) -> None:
    """The client of a stream reads their results, also if it cancels the pop."""
    await cluster.push([item(TWO, 1, transaction_id="t")])
    assert (await cluster.pop(PopRequest(queue=TWO))).deliveries
    results: asyncio.Future[list[Acknowledged]] = asyncio.get_running_loop().create_future()
    popping = asyncio.create_task(
        cluster.pop_and_acknowledge(
            PopRequest(queue=TWO), [Acknowledgment(transaction_id="t")], results=results
        )
    )
    await asyncio.sleep(0)  # It searches the message now.
    popping.cancel()

    async with asyncio.timeout(10):
        assert [each.success for each in await results] == [True]
    assert popping.cancelled()


async def test_a_pop_waits_for_a_queue_that_is_created_elsewhere(
    cluster: Cluster, other: Cluster
) -> None:
    waiting = [
        asyncio.create_task(pop(cluster, THREE, wait=True, timeout_seconds=20)) for _ in range(3)
    ]
    await asyncio.sleep(0)

    await other.push([item(THREE, n, partition=f"p{n}") for n in range(3)])

    async with asyncio.timeout(5):
        found = await asyncio.gather(*waiting)
    assert sorted(found) == [[0], [1], [2]]


async def test_a_pop_of_a_queue_that_never_appears_ends_in_time(cluster: Cluster) -> None:
    async with asyncio.timeout(3):
        assert await pop(cluster, "absent", wait=True, timeout_seconds=0.2) == []
        with pytest.raises(errors.QueueNotFound):
            await pop(cluster, "absent")


@pytest.mark.parametrize("auto_ack", [False, True])
async def test_a_pop_by_task_waits_at_all_databases(cluster: Cluster, *, auto_ack: bool) -> None:
    for queue in (ONE, TWO, THREE):
        engine = await cluster.of_new_queue(queue)
        await engine.queues.configure(queue, task="mail")
    request = PopRequest(task="mail", wait=True, timeout_seconds=20, auto_ack=auto_ack)
    waiting = [asyncio.create_task(cluster.pop(request)) for _ in range(3)]
    await asyncio.sleep(0.3)

    await cluster.push([item(queue, n) for n, queue in enumerate((THREE, ONE, TWO))])

    async with asyncio.timeout(15):
        found = [values(each.deliveries) for each in await asyncio.gather(*waiting)]
    assert sorted(found) == [[0], [1], [2]]


async def test_messages_are_not_kept_by_a_pop_that_found_others(cluster: Cluster) -> None:
    """Pops by task that wait at three databases take only what they return."""
    for queue in (ONE, TWO, THREE):
        engine = await cluster.of_new_queue(queue)
        await engine.queues.configure(queue, task="mail")
    request = PopRequest(task="mail", wait=True, timeout_seconds=20)
    waiting = asyncio.create_task(cluster.pop(request))
    await asyncio.sleep(0.3)

    await cluster.push([item(queue, queue) for queue in (ONE, TWO, THREE)])
    async with asyncio.timeout(5):
        first = await waiting
        rest: list[str] = []
        while len(rest) < 2:
            rest += values((await cluster.pop(PopRequest(task="mail"))).deliveries)

    assert sorted([*values(first.deliveries), *rest]) == sorted([ONE, TWO, THREE])


async def test_outcomes_and_a_pop_elsewhere_are_applied(cluster: Cluster) -> None:
    await cluster.push([item(ONE, 1), item(TWO, 2)])
    (delivery,) = (await cluster.pop(PopRequest(queue=ONE))).deliveries
    done = [Acknowledgment(lease_id=delivery.lease_id, id=message(delivery, 0).id)]

    acknowledged, popped = await cluster.pop_and_acknowledge(PopRequest(queue=TWO), done)

    assert acknowledged[0].success
    assert values(popped.deliveries) == [2]
    assert popped.engine is cluster.engines["two"]


async def test_one_database_answers_directly(engine: Engine) -> None:
    alone = Cluster({"main": engine})
    await alone.start()

    await alone.push([item("orders", 1), PushItem(queue="mails", payload=msgspec.Raw(b"2"))])

    assert alone.is_alone
    assert await engine.store.homes.find(["orders", "mails"]) == {}
    assert values((await alone.pop(PopRequest(queue="mails"))).deliveries) == [2]


@pytest.mark.parametrize("auto_ack", [False, True])
@pytest.mark.parametrize("end", ["maintenance", "shutdown"])
async def test_waiting_pops_of_all_databases_end_without_messages(
    cluster: Cluster, *, auto_ack: bool, end: str
) -> None:
    engine = await cluster.of_new_queue("events", is_spread=True)
    row = await engine.queues.configure("events", {"placement": "spread"})
    await cluster.publish("events", row["id"])
    engines = cluster.engines.values()
    requests = [
        PopRequest(queue=queue, namespace=space, wait=True, timeout_seconds=30, auto_ack=auto_ack)
        for queue, space in (("events", None), (None, ""))
    ]
    waiting = [asyncio.create_task(cluster.pop(each)) for each in requests]

    async def do_wait() -> bool:
        # With auto_ack, each waits at one database.
        are_searched = all(any(engine.is_dry(each) for engine in engines) for each in requests)
        return are_searched and sum(each.waiting for each in engines) == (2 if auto_ack else 6)

    await until(do_wait)
    for each in engines:
        if end == "maintenance":
            each.send_home()
        else:
            await each.stop_waiting()

    async with asyncio.timeout(10):
        assert [(await each).deliveries for each in waiting] == [[], []]


async def test_one_database_hashes_no_partition_of_a_queue_that_is_not_spread(
    engine: Engine,
) -> None:
    alone = Cluster({"main": engine})
    await alone.start()
    before = hashed.cache_info()

    await alone.push(
        [item("orders", 1, partition=name) for name in ("a", "b")], producer_id="p", sequence=1
    )

    assert hashed.cache_info() == before
