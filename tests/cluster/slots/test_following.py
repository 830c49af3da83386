"""Requests follow a slot that moves to another database, and their callers see no error."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.codec.slots import hashed
from queen.engine.engine import Engine
from queen.wire.messages import Acknowledgment, PopRequest
from tests.cluster.moving import Move, move
from tests.cluster.places import ONE, THREE, TWO, named
from tests.engine.helpers import item, lease, message, values
from tests.support.server import until


@pytest.fixture
async def moving(databases: dict[str, str], cluster: Cluster) -> Move:
    """The move of ONE from the first database to the second."""
    await cluster.push([item(ONE, 0)])
    return move(databases, ONE, "main", "two")


@pytest.fixture
async def stranger(databases: dict[str, str]) -> AsyncIterator[Cluster]:
    """A process that starts after a move."""
    engines = {name: await Engine.open(dsn) for name, dsn in databases.items()}
    cluster = Cluster(engines)
    yield cluster
    for engine in engines.values():
        await engine.close()


async def pop(cluster: Cluster, queue: str, batch: int = 10) -> list[object]:
    return values((await cluster.pop(PopRequest(queue=queue, batch=batch))).deliveries)


async def waits(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true, for a bounded time."""

    async def is_true() -> bool:
        return condition()

    await until(is_true)


async def test_pushes_follow_a_slot(cluster: Cluster, moving: Move) -> None:
    await moving.run()

    (first,) = await cluster.push([item(ONE, 1)])
    (numbered,) = await cluster.push([item(ONE, 2)], producer_id="p", sequence=1)

    assert (first.status, numbered.status) == ("queued", "queued")
    assert await pop(cluster, ONE) == [0, 1, 2]
    assert await cluster.of_queue(ONE) is cluster.engines["two"]
    assert await moving.count("main") == 0


async def test_requests_wait_while_a_slot_is_leaving(cluster: Cluster, moving: Move) -> None:
    (delivery,) = (await cluster.pop(PopRequest(queue=ONE))).deliveries
    await moving.leave()

    push = asyncio.ensure_future(cluster.push([item(ONE, 1)]))
    numbered = asyncio.ensure_future(cluster.push([item(ONE, 2)], producer_id="p", sequence=1))
    extension = asyncio.ensure_future(cluster.extend_many([lease(delivery)], seconds=100))
    await waits(lambda: cluster.owners.is_leaving(hashed(ONE)))
    assert not any([push.done(), numbered.done(), extension.done()])
    await moving.arrive()
    await moving.close()

    async with asyncio.timeout(5):
        assert (await push)[0].status == (await numbered)[0].status == "queued"
        assert (await extension)[0].success
    done = [Acknowledgment(lease_id=delivery.lease_id, id=message(delivery, 0).id)]
    assert [each.success for each in await cluster.acknowledge(done)] == [True]


async def test_a_move_that_is_given_up_delays_requests(cluster: Cluster, moving: Move) -> None:
    await moving.leave()
    push = asyncio.ensure_future(cluster.push([item(ONE, 1)]))
    await waits(lambda: cluster.owners.is_leaving(hashed(ONE)))
    await moving.give_up()

    async with asyncio.timeout(5):
        assert (await push)[0].status == "queued"
    assert await pop(cluster, ONE) == [0, 1]


async def test_a_move_that_takes_too_long_is_an_error(cluster: Cluster, moving: Move) -> None:
    cluster.following.patience_seconds = 0.3
    await moving.leave()

    began_at = time.monotonic()
    with pytest.raises(errors.SlotMoved, match=r"did not end in 0\.3 seconds"):
        await cluster.push([item(ONE, 1)])
    with pytest.raises(errors.SlotMoved):
        await cluster.pop(PopRequest(queue=ONE, wait=True, timeout_seconds=9))
    assert time.monotonic() - began_at < 3

    items = [item(ONE, 1), item(TWO, 2)]
    failed, stored = await cluster.push(items)
    assert (failed.code, stored.status) == ("slot_moved", "queued")


async def test_only_the_moved_part_is_repeated(cluster: Cluster, moving: Move) -> None:
    same = next(name for name in named("main", 5) if name != ONE)
    await moving.leave()
    push = asyncio.ensure_future(
        cluster.push([item(queue, n) for n, queue in enumerate((ONE, same, TWO, THREE, ONE))])
    )

    async def others_are_stored() -> bool:
        return (await cluster.queues([same])).keys() == {same}

    await until(others_are_stored)
    assert not push.done()
    await moving.run()

    assert [each.status for each in await push] == ["queued"] * 5
    assert await pop(cluster, ONE) == [0, 0, 4]
    assert await pop(cluster, same) == [1]
    assert await pop(cluster, TWO) == [2]


async def test_a_long_poll_continues_at_the_new_database(cluster: Cluster, moving: Move) -> None:
    assert await pop(cluster, ONE) == [0]
    request = PopRequest(queue=ONE, wait=True, timeout_seconds=20, consumer_group=None)
    waiting = [asyncio.create_task(cluster.pop(request)) for _ in range(3)]
    await waits(lambda: cluster.engines["main"].waiting == 3)

    await moving.run()
    await waits(lambda: cluster.engines["two"].waiting == 3)
    for n in range(1, 4):
        await cluster.push([item(ONE, n, partition=f"p{n}")])

    async with asyncio.timeout(5):
        found = [values(each.deliveries) for each in await asyncio.gather(*waiting)]
    assert sorted(found) == [[1], [2], [3]]


async def test_a_long_poll_ends_in_time_while_its_slot_is_leaving(
    cluster: Cluster, moving: Move
) -> None:
    assert await pop(cluster, ONE) == [0]
    await moving.leave()

    async with asyncio.timeout(3):
        popped = await cluster.pop(PopRequest(queue=ONE, wait=True, timeout_seconds=0.3))
    assert popped.deliveries == []


async def test_deliveries_from_before_a_move_are_settled_after_it(
    cluster: Cluster, moving: Move
) -> None:
    await cluster.push([item(ONE, n, partition=f"p{n}") for n in range(1, 6)])
    found = await cluster.pop(PopRequest(queue=ONE, batch=6, partitions=6))
    first, second, third, fourth, *rest = found.deliveries
    await moving.run()

    def done(*some: object, **fields: str) -> list[Acknowledgment]:
        return [
            Acknowledgment(lease_id=each.lease_id, id=message(each, 0).id, **fields)  # pyright: ignore
            for each in some
        ]

    assert [each.success for each in await cluster.acknowledge(done(first))] == [True]
    assert await cluster.ack(lease(second)) == 1
    await cluster.release(lease(third))
    acknowledged, popped = await cluster.pop_and_acknowledge(PopRequest(queue=ONE), done(fourth))
    assert acknowledged[0].success
    assert values(popped.deliveries) == values([third])
    await cluster.give_back(popped._replace(deliveries=rest))
    again = await cluster.pop(PopRequest(queue=ONE, batch=6, partitions=6))
    assert sorted(values(again.deliveries)) == sorted(values(rest))


async def test_messages_named_without_an_id_are_found_after_a_move(
    cluster: Cluster, moving: Move
) -> None:
    await pop(cluster, ONE)
    await cluster.push([item(ONE, 1, transaction_id="order-7", partition="p")])
    (delivery,) = (await cluster.pop(PopRequest(queue=ONE))).deliveries
    await moving.run()

    (result,) = await cluster.acknowledge(
        [Acknowledgment(lease_id=delivery.lease_id, transaction_id="order-7")]
    )

    assert result.success


async def test_a_queue_without_rows_is_searched_at_its_new_database(
    databases: dict[str, str], cluster: Cluster, moving: Move
) -> None:
    """The former database has deleted the queue, so it rejects it as unknown."""
    await moving.run()
    engine = cluster.engines["main"]
    engine.signals.on_server_replaced()
    engine.catalogue.forget()

    assert (await cluster.queues([ONE])).keys() == {ONE}
    assert await pop(cluster, ONE) == [0]
    with pytest.raises(errors.QueueNotFound):
        await pop(cluster, "absent")


async def test_a_queue_can_be_created_after_a_move(
    databases: dict[str, str], cluster: Cluster
) -> None:
    await cluster.places.claim({ONE: ""})
    await move(databases, ONE, "main", "three").run()

    assert (await cluster.push([item(ONE, 1)]))[0].status == "queued"
    assert await pop(cluster, ONE) == [1]


async def test_a_slot_moves_there_and_back(
    databases: dict[str, str], cluster: Cluster, moving: Move
) -> None:
    await moving.run()
    await cluster.push([item(ONE, 1)])
    await move(databases, ONE, "two", "three").run()
    await cluster.push([item(ONE, 2)])
    await move(databases, ONE, "three", "main").run()
    await cluster.push([item(ONE, 3)])

    assert await pop(cluster, ONE) == [0, 1, 2, 3]


async def test_the_owner_has_the_highest_epoch(cluster: Cluster, moving: Move) -> None:
    await moving.leave()
    await moving.arrive()
    await cluster.push([item(ONE, 1)])
    await moving.give_up()  # By a database that was restored from a backup.

    await cluster.owners.load()

    assert await cluster.of_queue(ONE) is cluster.engines["two"]


async def test_waiting_requests_share_the_queries_for_the_map(
    cluster: Cluster, moving: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pop(cluster, ONE)
    homes = cluster.engines["two"].store.homes
    owned, count = homes.owned, 0

    async def counted() -> list[tuple[int, int]]:
        nonlocal count
        count += 1
        return await owned()

    monkeypatch.setattr(homes, "owned", counted)
    await moving.leave()
    waiting = [
        asyncio.ensure_future(cluster.push([item(ONE, n, partition=f"p{n % 7}")]))
        for n in range(500)
    ]
    await waits(lambda: cluster.owners.is_leaving(hashed(ONE)))
    await waits(lambda: count > 5)
    await moving.arrive()

    results = await asyncio.gather(*waiting)
    assert {each.status for result in results for each in result} == {"queued"}
    assert count < 20


async def test_a_database_that_is_down_keeps_its_slots(
    cluster: Cluster, moving: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    await moving.run()
    await cluster.owners.load()

    async def down() -> list[tuple[int, int]]:
        raise errors.DatabaseUnavailable

    for name in ("two", "main"):
        with monkeypatch.context() as patch:
            patch.setattr(cluster.engines[name].store.homes, "owned", down)
            await cluster.owners.load()
        assert await cluster.of_queue(ONE) is cluster.engines["two"]
        assert not cluster.owners.is_leaving(1)


async def test_a_process_that_starts_without_a_database_knows_its_slots(
    stranger: Cluster, moving: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    await moving.run()

    async def down() -> list[tuple[int, int]]:
        raise errors.DatabaseUnavailable

    monkeypatch.setattr(stranger.engines["two"].store.homes, "owned", down)
    await stranger.start()

    assert await stranger.of_queue(ONE) is stranger.engines["two"]


@pytest.mark.parametrize("auto_ack", [False, True])
async def test_a_pop_by_task_survives_moves(
    cluster: Cluster, moving: Move, *, auto_ack: bool
) -> None:
    await pop(cluster, ONE)
    for queue in (ONE, TWO):
        engine = await cluster.of_new_queue(queue)
        await engine.queues.configure(queue, task="mail")
    request = PopRequest(task="mail", wait=True, timeout_seconds=20, auto_ack=auto_ack)
    waiting = asyncio.create_task(cluster.pop(request))
    await waits(lambda: any(each.waiting for each in cluster.engines.values()))

    await moving.leave()
    await moving.arrive()
    await moving.close()
    await cluster.push([item(ONE, 1, partition="p")])

    async with asyncio.timeout(10):
        assert values((await waiting).deliveries) == [1]
