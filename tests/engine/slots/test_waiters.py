"""Pops that wait for a queue whose slot leaves fail promptly, so that they continue elsewhere."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.settings import Settings
from tests.engine.helpers import (
    PATIENT,
    asleep,
    drain,
    listening,
    pop_later,
    push,
    values,
    woken_within,
)
from tests.engine.slots.mover import Mover

POLLING = Settings(safety_poll_ms=50)


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[Engine]:
    """A second server process."""
    async with await Engine.open(dsn, settings=PATIENT) as engine:
        yield engine


@pytest.fixture
async def patient(dsn: str) -> AsyncIterator[Engine]:
    async with await Engine.open(dsn, settings=PATIENT) as engine:
        yield engine


@pytest.fixture
async def polling(dsn: str) -> AsyncIterator[Engine]:
    async with await Engine.open(dsn, settings=POLLING) as engine:
        yield engine


async def fails(popping: "asyncio.Task[object]") -> None:
    with pytest.raises(errors.SlotMoved):
        async with asyncio.timeout(5):
            await popping


async def test_waiters_of_the_slot_fail_in_every_process(
    patient: Engine, other: Engine, mover: Mover
) -> None:
    await patient.queues.configure("orders")
    await patient.queues.configure("bills")
    engines = (patient, other)
    await listening(*engines)
    waiting = [asyncio.create_task(pop_later(each, "orders", seconds=30)) for each in engines]
    staying = [asyncio.create_task(pop_later(each, "bills", seconds=30)) for each in engines]
    for each in engines:
        await asleep(each, 2)

    await mover.leave("orders")

    for each in waiting:
        await fails(each)
    for each in engines:
        await asleep(each, 1)
    await push(patient, "bills", 1, 2, partition="a")
    await push(patient, "bills", 1, 2, partition="b")
    await woken_within(staying, 5)


async def test_waiters_of_a_paused_queue_fail(patient: Engine, mover: Mover) -> None:
    await patient.queues.configure("orders", {"paused": True})
    await listening(patient)
    waiting = asyncio.create_task(pop_later(patient, "orders", seconds=30))
    await asleep(patient, 1)

    await mover.leave("orders")

    await fails(waiting)


async def test_waiters_notice_a_lost_notification(polling: Engine, mover: Mover) -> None:
    await polling.queues.configure("orders", {"paused": True})
    await polling.queues.configure("bills")
    waiting = [
        asyncio.create_task(pop_later(polling, queue, seconds=30)) for queue in ("orders", "bills")
    ]
    await asleep(polling, 2)

    await mover.leave("orders", wakes=False)
    await mover.complete("bills")

    for each in waiting:
        await fails(each)


async def test_waiters_of_a_deleted_queue_notice_that_its_slot_has_moved(
    polling: Engine, mover: Mover
) -> None:
    await polling.queues.configure("orders")
    await mover.connection.execute(
        "insert into queen.homes (name, slot) select name, slot from queen.queues"
    )
    await polling.queues.delete("orders")
    waiting = asyncio.create_task(pop_later(polling, "orders", seconds=30))
    await asleep(polling, 1)

    await mover.leave("orders", wakes=False)

    await fails(waiting)


async def test_waiters_of_a_namespace_stay_for_its_other_queues(
    patient: Engine, mover: Mover
) -> None:
    for queue in ("orders", "bills"):
        await push(patient, queue, 0)
        await drain(patient, queue)
        await patient.queues.configure(queue, namespace="shop")
    await listening(patient)
    waiting = asyncio.create_task(pop_later(patient, seconds=30, namespace="shop"))
    await asleep(patient, 1)
    await mover.leave("orders")
    await push(patient, "bills", "b")
    assert values(await waiting) == ["b"]

    again = asyncio.create_task(pop_later(patient, seconds=30, namespace="shop"))
    await asleep(patient, 1)
    await mover.give_up("orders")
    await push(patient, "orders", "o")

    assert values(await again) == ["o"]


async def test_a_slot_with_many_queues_wakes_all_of_them(patient: Engine, mover: Mover) -> None:
    await patient.queues.configure("orders")
    await mover.connection.execute(
        """
        insert into queen.queues overriding system value
        select (jsonb_populate_record(q, jsonb_build_object('id', q.id + n, 'name', 'q' || n))).*
        from queen.queues q cross join generate_series(1, 1000) n
        """
    )
    await listening(patient)
    names = ("orders", "q1", "q349", "q350", "q700", "q1000")
    waiting = [asyncio.create_task(pop_later(patient, name, seconds=30)) for name in names]
    await asleep(patient, len(names))

    await mover.leave("orders")

    for each in waiting:
        await fails(each)
