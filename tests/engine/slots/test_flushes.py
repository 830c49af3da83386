"""Requests of many slots share one call. If a slot has moved, only its requests fail."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec import structs

from queen import errors
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.settings import Settings
from queen.wire.messages import PopRequest
from tests.engine.helpers import drain, item, lease, message, pop, pop_one, push, says, values
from tests.engine.slots.mover import Mover

QUEUES = ("orders", "bills", "mails", "jobs", "logs")
"""Each in another slot."""
MOVED, *OTHERS = QUEUES
KEY = "0123456789abcdef" * 4


@pytest.fixture
async def popped(engine: Engine) -> dict[str, Delivery]:
    """A delivery of each queue."""
    for queue in QUEUES:
        await push(engine, queue, *range(3))
    return {queue: await pop_one(engine, queue, batch=3) for queue in QUEUES}


async def push_to_all(
    engine: Engine, *numbers: int, partition: str = "Default"
) -> dict[str, BaseException | None]:
    """Push at the same moment, so that the pushes share a flush. Returns the error per queue."""
    pushes = [push(engine, queue, *numbers, partition=partition) for queue in QUEUES]
    found = await asyncio.gather(*pushes, return_exceptions=True)
    return {
        queue: each if isinstance(each, BaseException) else None
        for queue, each in zip(QUEUES, found, strict=True)
    }


def failed(outcomes: dict[str, BaseException | None]) -> dict[str, type[BaseException]]:
    return {queue: type(each) for queue, each in outcomes.items() if each is not None}


async def test_each_queue_has_its_own_slot(engine: Engine, mover: Mover) -> None:
    await push_to_all(engine, 0)

    slots = await mover.connection.fetch("select distinct slot from queen.queues")

    assert len(slots) == len(QUEUES)


async def test_only_pushes_to_the_slot_that_moved_fail(engine: Engine, mover: Mover) -> None:
    await push_to_all(engine, 0)
    await mover.leave(MOVED, wakes=False)
    before = engine.store.database.statements

    outcomes = await push_to_all(engine, 1)

    assert failed(outcomes) == {MOVED: errors.SlotMoved}
    # The call that failed, and the one without the slot.
    assert engine.store.database.statements - before == 2
    for number in (2, 3):
        await push_to_all(engine, number)
    for queue in OTHERS:
        assert await drain(engine, queue) == [0, 1, 2, 3]
    await mover.give_up(MOVED)
    assert await drain(engine, MOVED) == [0]


async def test_only_new_partitions_of_the_slot_that_moved_fail(
    engine: Engine, mover: Mover
) -> None:
    await push_to_all(engine, 0)
    await mover.leave(MOVED, wakes=False)

    outcomes = await push_to_all(engine, 1, partition="new")

    assert failed(outcomes) == {MOVED: errors.SlotMoved}
    for queue in OTHERS:
        assert await drain(engine, queue) == [0, 1]


async def test_a_request_for_several_slots_stores_its_other_items(
    engine: Engine, mover: Mover
) -> None:
    await push_to_all(engine, 0)
    await mover.leave(MOVED, wakes=False)

    found = list(await engine.push([item(queue, 1) for queue in QUEUES]))

    assert [(each.status, each.code) for each in found] == [
        ("failed", "slot_moved"),
        *[("queued", None)] * len(OTHERS),
    ]


async def test_a_request_of_a_producer_fails_as_a_whole(engine: Engine, mover: Mover) -> None:
    await push_to_all(engine, 0)
    await mover.leave(MOVED, wakes=False)
    items = [item(queue, 1) for queue in QUEUES]

    whole, other = await asyncio.gather(
        engine.push(items, producer_id="p", sequence=1),
        push(engine, "bills", 2),
        return_exceptions=True,
    )

    assert isinstance(whole, errors.SlotMoved)
    assert not isinstance(other, BaseException)
    await mover.give_up(MOVED)
    await engine.push(items, producer_id="p", sequence=1)
    assert await drain(engine, MOVED) == [0, 1]
    assert await drain(engine, "bills") == [0, 2, 1]


async def test_a_queue_that_was_deleted_after_its_move_is_not_missing(
    dsn: str, engine: Engine, mover: Mover
) -> None:
    await push_to_all(engine, 0)
    await mover.complete(MOVED)

    assert failed(await push_to_all(engine, 1)) == {MOVED: errors.SlotMoved}
    for is_created in (True, False):
        async with await Engine.open(dsn, settings=Settings(auto_create=is_created)) as fresh:
            assert failed(await push_to_all(fresh, 2)) == {MOVED: errors.SlotMoved}
            with pytest.raises(errors.SlotMoved):
                await pop(fresh, MOVED)
            with pytest.raises(errors.SlotMoved):
                await fresh.queues.seek(MOVED, None, to_start=True)


@pytest.fixture
async def sealing(dsn: str) -> AsyncIterator[Engine]:
    async with await Engine.open(dsn, settings=Settings(encryption_key=KEY)) as engine:
        yield engine


async def test_no_data_key_is_created_in_a_slot_that_moved(sealing: Engine, mover: Mover) -> None:
    for queue in QUEUES:
        await sealing.queues.configure(queue, {"encrypted": True})
    await mover.leave(MOVED, wakes=False)

    outcomes = await push_to_all(sealing, 1)

    assert failed(outcomes) == {MOVED: errors.SlotMoved}
    keys = await mover.connection.fetch("select 1 from queen.data_keys")
    assert len(keys) == len(OTHERS)


async def test_only_acks_of_the_slot_that_moved_fail(
    engine: Engine, mover: Mover, popped: dict[str, Delivery]
) -> None:
    await mover.leave(MOVED, wakes=False)
    before = engine.store.database.statements

    found = await asyncio.gather(
        *(engine.ack(lease(popped[queue])) for queue in QUEUES), return_exceptions=True
    )

    assert isinstance(found[0], errors.SlotMoved)
    assert found[1:] == [3] * len(OTHERS)
    assert engine.store.database.statements - before == 2
    await mover.give_up(MOVED)
    assert await engine.ack(lease(popped[MOVED])) == 3


async def test_only_nacks_of_the_slot_that_moved_fail(
    engine: Engine, mover: Mover, popped: dict[str, Delivery]
) -> None:
    await mover.leave(MOVED, wakes=False)

    found = await engine.acknowledge([says(popped[queue], 0, "failed") for queue in QUEUES])

    assert [each.code for each in found] == ["slot_moved", *[None] * len(OTHERS)]


async def test_acks_without_a_message_id_are_rejected_after_the_move(
    engine: Engine, mover: Mover, popped: dict[str, Delivery]
) -> None:
    await mover.complete(MOVED)
    await mover.connection.execute("delete from queen.deliveries")
    named = message(popped[MOVED], 0).transaction_id
    by_lease = structs.replace(says(popped[MOVED], 0, "completed"), id=None, transaction_id=named)

    with pytest.raises(errors.SlotMoved):
        await engine.acknowledge([by_lease])


async def test_only_leases_of_the_slot_that_moved_are_not_extended(
    engine: Engine, mover: Mover, popped: dict[str, Delivery]
) -> None:
    leases = [lease(popped[queue]) for queue in QUEUES]
    await mover.leave(MOVED, wakes=False)

    found = await engine.extend_many(leases)

    assert [each.code for each in found] == ["slot_moved", *[None] * len(OTHERS)]
    with pytest.raises(errors.SlotMoved):
        await engine.extend_many(leases[:1])


async def test_deliveries_of_other_slots_are_given_back(
    engine: Engine, mover: Mover, popped: dict[str, Delivery]
) -> None:
    await mover.leave(MOVED, wakes=False)

    await engine.give_back(list(popped.values()))

    for queue in OTHERS:
        assert await drain(engine, queue) == [0, 1, 2]


async def test_a_pop_succeeds_although_some_of_its_acks_have_moved(
    engine: Engine, mover: Mover, popped: dict[str, Delivery]
) -> None:
    await push(engine, "bills", "next")
    await mover.leave(MOVED, wakes=False)
    acks = [says(popped[queue], 0, "completed") for queue in (MOVED, "bills")]
    acks += [says(popped["bills"], offset, "completed") for offset in (1, 2)]

    results, deliveries = await engine.pop_and_acknowledge(PopRequest(queue="bills"), acks)

    assert [each.code for each in results] == ["slot_moved", None, None, None]
    assert values(deliveries) == ["next"]


async def test_results_of_acks_survive_a_pop_of_a_slot_that_moved(
    engine: Engine, mover: Mover, popped: dict[str, Delivery]
) -> None:
    await mover.leave(MOVED, wakes=False)

    results, deliveries = await engine.pop_and_acknowledge(
        PopRequest(queue=MOVED), [says(popped["bills"], 0, "completed")]
    )

    assert ([each.success for each in results], deliveries) == ([True], [])
    with pytest.raises(errors.SlotMoved):
        await engine.pop_and_acknowledge(
            PopRequest(queue=MOVED), [says(popped[MOVED], 0, "completed")]
        )


async def test_a_pop_of_a_namespace_leaves_out_the_slot_that_moved(
    engine: Engine, mover: Mover
) -> None:
    await push_to_all(engine, 0)
    for queue in QUEUES:
        await engine.queues.configure(queue, namespace="shop")

    async def found() -> Sequence[object]:
        deliveries = await pop(engine, namespace="shop", batch=10, partitions=10)
        return sorted(each.queue for each in deliveries)

    assert await found() == sorted(QUEUES)
    await mover.leave(MOVED, wakes=False)
    await push_to_all(engine, 1)
    for queue in OTHERS:
        await push(engine, queue, 2, partition="other")

    assert await found() == sorted(OTHERS)
