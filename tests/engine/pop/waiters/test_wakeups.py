"""Events in another process wake waiting pops."""

import asyncio

import pytest

from queen.engine.engine import Engine
from queen.settings import Settings
from tests.engine.helpers import (
    PATIENT,
    ack_all,
    asleep,
    listening,
    pop,
    pop_later,
    push,
    values,
    woken_within,
)


async def test_a_push_of_another_process_wakes_a_waiter(patient: Engine, dsn: str) -> None:
    await patient.queues.configure("orders")
    async with await Engine.open(dsn, settings=PATIENT) as other:
        await listening(patient, other)
        waiter = asyncio.create_task(pop_later(patient, "orders", seconds=1))
        await asleep(patient, 1)

        await push(other, "orders", "a")

        assert values(await waiter) == ["a"]


async def test_every_push_wakes_across_processes(patient: Engine, dsn: str) -> None:
    await patient.queues.configure("orders")
    async with await Engine.open(dsn, settings=PATIENT) as other:
        await listening(patient, other)
        for value in range(30):
            waiter = asyncio.create_task(pop_later(patient, "orders", seconds=1, auto_ack=True))
            await push(other, "orders", value)
            assert values(await waiter) == [value]


@pytest.mark.parametrize(("is_ordered", "auto_ack"), [(True, True), (False, False), (False, True)])
async def test_the_messages_that_another_process_left_in_a_partition_are_found(
    patient: Engine, dsn: str, is_ordered: bool, auto_ack: bool
) -> None:
    """
    A search that meets a pair while the other process holds it searches again shortly afterwards.
    """
    settings = Settings(safety_poll_ms=60_000)
    await patient.queues.configure("orders", {"ordered": is_ordered})
    await push(patient, "orders", 0)
    await pop(patient, "orders", auto_ack=True)
    async with await Engine.open(dsn, settings=settings) as other:
        await listening(patient)
        await listening(other)
        for _ in range(5):
            popping = [
                asyncio.create_task(
                    pop(each, "orders", wait=True, batch=2, auto_ack=auto_ack, timeout_seconds=30)
                )
                for each in (patient, other, other, patient)
            ]
            await asleep(patient, 2)
            await asleep(other, 2)
            await push(patient, "orders", *range(8))
            await woken_within(popping, 5)
            for task in popping:
                await ack_all(patient, [each for each in task.result() if each.lease_id])


async def test_partitions_freed_here_wake_waiters_elsewhere(patient: Engine, dsn: str) -> None:
    settings = Settings(safety_poll_ms=60_000)
    for number in range(5):
        await push(patient, "orders", 1, 2, partition=f"p{number}")
    held = [(await pop(patient, "orders"))[0] for _ in range(5)]
    async with await Engine.open(dsn, settings=settings) as other:
        await listening(other)
        popping = [
            asyncio.create_task(pop(each, "orders", wait=True, timeout_seconds=30))
            for each in (patient, other, other, other, other)
        ]
        await asleep(patient, 1)
        await asleep(other, 4)

        await ack_all(patient, held)

        await woken_within(popping, 5)
