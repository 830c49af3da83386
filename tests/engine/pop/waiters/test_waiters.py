"""Every event that may bring a message to a waiting pop wakes it."""

import asyncio

import pytest

from queen.engine.engine import Engine
from queen.errors import QueueNotFound
from queen.settings import Settings
from queen.wire.messages import Acknowledgment
from tests.engine.helpers import (
    PATIENT,
    ack,
    asleep,
    dead_letters,
    item,
    lease,
    listening,
    pop,
    pop_later,
    pop_one,
    push,
    settle,
    values,
    woken_within,
)


async def test_a_push_of_the_same_process_wakes_a_waiter(patient: Engine) -> None:
    await patient.queues.configure("orders")
    waiter = asyncio.create_task(pop_later(patient, "orders", seconds=1))
    await asleep(patient, 1)

    await push(patient, "orders", "a")

    assert values(await waiter) == ["a"]
    await asleep(patient, 0)


async def test_an_ack_that_frees_a_partition_wakes_a_waiter(patient: Engine) -> None:
    await push(patient, "orders", "a", "b")
    held = await pop_one(patient, "orders")
    waiter = asyncio.create_task(pop_later(patient, "orders", seconds=1))
    await asleep(patient, 1)

    await ack(patient, held)

    assert values(await waiter) == ["b"]


@pytest.mark.parametrize("how", ["release", "retry", "failed", "dlq"])
async def test_a_returned_message_wakes_a_waiter(patient: Engine, how: str) -> None:
    await patient.queues.configure("orders", {"retry_delay_ms": 100})
    await push(patient, "orders", "a", "b")
    held = await pop_one(patient, "orders")
    waiter = asyncio.create_task(pop_later(patient, "orders", seconds=1.5))
    await asleep(patient, 1)

    if how == "release":
        await patient.release(lease(held))
    else:
        await settle(patient, held, status=how)

    assert values(await waiter) == ["b" if how == "dlq" else "a"]


async def test_a_transaction_wakes_waiters_of_its_acks_and_pushes(patient: Engine) -> None:
    await push(patient, "source", "a", "b")
    held = await pop_one(patient, "source")
    waiters = [
        asyncio.create_task(pop_later(patient, queue, seconds=1)) for queue in ("source", "sink")
    ]
    await asleep(patient, 2)

    await patient.transact(
        acknowledgments=[Acknowledgment(id=next(held.messages()).id, lease_id=lease(held))],
        items=[item("sink", "x")],
    )

    assert [values(each) for each in await asyncio.gather(*waiters)] == [["b"], ["x"]]


@pytest.mark.parametrize("how", ["message", "queue", "window", "backoff", "lease", "rate"])
async def test_a_message_that_becomes_due_wakes_a_waiter(patient: Engine, how: str) -> None:
    options = {
        "queue": {"delay_seconds": 0.3},
        "window": {"window_seconds": 0.3},
        "backoff": {"retry_delay_ms": 300},
        "lease": {"retry_delay_ms": 0},
        "rate": {"rate_max": 1, "rate_ms": 300, "rate_per": "queue"},
    }
    await patient.queues.configure("orders", options.get(how, {}))
    if how == "rate":
        await push(patient, "orders", "first")
        await ack(patient, await pop_one(patient, "orders"))
    await push(patient, "orders", "a", delay_seconds=0.3 if how == "message" else None)
    if how in ("backoff", "lease"):
        held = await pop_one(patient, "orders", lease_seconds=0.3 if how == "lease" else None)
        if how == "backoff":
            await settle(patient, held, status="failed")

    assert await pop(patient, "orders") == []
    assert values(await pop_later(patient, "orders", seconds=2)) == ["a"]


async def test_a_redriven_message_wakes_a_waiter(patient: Engine) -> None:
    await push(patient, "orders", "a")
    await settle(patient, await pop_one(patient, "orders"), status="dlq")
    waiter = asyncio.create_task(pop_later(patient, "orders", seconds=1))
    await asleep(patient, 1)

    (letter,) = await dead_letters(patient, "orders")
    await patient.dead_letters.redrive([letter["id"]])

    assert values(await waiter) == ["a"]


async def test_each_of_many_waiters_gets_one_message(patient: Engine) -> None:
    await patient.queues.configure("jobs", {"ordered": False})
    waiters = [asyncio.create_task(pop_later(patient, "jobs", seconds=3)) for _ in range(40)]
    await asleep(patient, 40)

    await push(patient, "jobs", *range(40))

    got = [value for each in await asyncio.gather(*waiters) for value in values(each)]
    assert sorted(got) == list(range(40))


async def test_the_longest_waiters_are_served_first(patient: Engine) -> None:
    await patient.queues.configure("orders")
    waiters: list[asyncio.Task[list[object]]] = []
    for count in range(3):
        waiters.append(asyncio.create_task(pop_values(patient)))
        await asleep(patient, count + 1)

    for value in range(3):
        await push(patient, "orders", value, partition=str(value))

    assert await asyncio.gather(*waiters) == [[0], [1], [2]]


async def test_a_waiter_receives_only_from_its_group_and_partition(patient: Engine) -> None:
    await patient.queues.configure("orders")
    mine = asyncio.create_task(pop_later(patient, "orders", seconds=2, partition="two", group="g"))
    await asleep(patient, 1)

    await push(patient, "orders", "a", partition="one")
    await push(patient, "orders", "b", partition="two")

    assert values(await mine) == ["b"]


async def test_a_wait_ends_with_an_empty_result(patient: Engine) -> None:
    await patient.queues.configure("orders")

    assert await pop(patient, "orders", wait=True, timeout_seconds=0.05) == []
    assert await pop(patient, namespace="nowhere", wait=True, timeout_seconds=0.05) == []
    await asleep(patient, 0)


async def test_a_wait_for_a_queue_that_is_never_created_ends_with_not_found(
    patient: Engine,
) -> None:
    earlier = asyncio.create_task(pop_later(patient, "orders", seconds=60))
    await asleep(patient, 1)
    # All three share their searches, and one has ended when the short wait begins.
    with pytest.raises(QueueNotFound):
        await pop(patient, "orders")

    with pytest.raises(QueueNotFound):
        await pop(patient, "orders", wait=True, timeout_seconds=0.05)

    earlier.cancel()


@pytest.mark.parametrize("is_other", [False, True])
async def test_a_queue_that_is_created_later_serves_its_waiters(
    patient: Engine, dsn: str, is_other: bool
) -> None:
    async with await Engine.open(dsn, settings=PATIENT) as other:
        await listening(patient, other)
        waiter = asyncio.create_task(pop_later(patient, "orders", seconds=2))
        await asleep(patient, 1)

        await push(other if is_other else patient, "orders", "a")

        assert values(await waiter) == ["a"]


async def test_a_queue_that_joins_a_namespace_serves_its_waiters(patient: Engine) -> None:
    waiter = asyncio.create_task(pop_later(patient, seconds=2, namespace="shop"))
    await asleep(patient, 1)

    await patient.queues.configure("orders", namespace="shop")
    await push(patient, "orders", "a")

    assert values(await waiter) == ["a"]


async def test_the_safety_poll_finds_messages_without_a_notification(dsn: str) -> None:
    """As behind PgBouncer, where the engine cannot listen."""
    settings = Settings(safety_poll_ms=100)
    async with (
        await Engine.open(dsn, settings=settings, is_pooled=True) as engine,
        await Engine.open(dsn, settings=settings, is_pooled=True) as other,
    ):
        await engine.queues.configure("orders")
        waiter = asyncio.create_task(pop_later(engine, "orders", seconds=2))
        await asleep(engine, 1)

        await push(other, "orders", "a")

        assert values(await waiter) == ["a"]


async def test_an_expired_lease_is_found_during_a_stream_of_messages(patient: Engine) -> None:
    """Wake-ups for new messages leave due messages to a search shortly afterwards."""
    await patient.queues.configure("orders")
    await push(patient, "orders", "held", partition="a")
    await pop(patient, "orders", lease_seconds=1)
    got: list[object] = []

    async def consume() -> None:
        while "held" not in got:
            for delivery in await pop(patient, "orders", wait=True, timeout_seconds=5):
                got.extend(values([delivery]))
                await patient.ack(delivery.lease_id or "")

    consumer = asyncio.create_task(consume())
    number = 0
    async with asyncio.timeout(10):
        while not consumer.done():
            number += 1
            await push(patient, "orders", number, partition=f"p{number % 5}")

    assert "held" in got


async def test_an_ack_ends_the_wait_for_a_change_of_order(patient: Engine) -> None:
    await patient.queues.configure("orders", {"ordered": False})
    await push(patient, "orders", 1, 2)
    (held,) = await pop(patient, "orders")
    await patient.queues.configure("orders", {"ordered": True})
    waiter = asyncio.create_task(pop(patient, "orders", wait=True, timeout_seconds=30))
    await asleep(patient, 1)

    await patient.ack(held.lease_id or "")

    await woken_within([waiter], 5)


async def test_an_ack_frees_a_slot_under_a_limit_that_was_set_later(patient: Engine) -> None:
    await patient.queues.configure("orders", {"ordered": False})
    await push(patient, "orders", 1, 2)
    (held,) = await pop(patient, "orders")
    await patient.queues.configure("orders", {"concurrency_limit": 1})
    waiter = asyncio.create_task(pop(patient, "orders", wait=True, timeout_seconds=30))
    await asleep(patient, 1)

    await patient.ack(held.lease_id or "")

    await woken_within([waiter], 5)


async def test_a_wait_of_zero_searches_once(patient: Engine) -> None:
    await patient.queues.configure("orders")
    assert await pop(patient, "orders", wait=True, timeout_seconds=0) == []
    await push(patient, "orders", "a")
    assert values(await pop(patient, "orders", wait=True, timeout_seconds=0)) == ["a"]
    with pytest.raises(QueueNotFound):
        await pop(patient, "others", wait=True, timeout_seconds=0)


async def test_a_wait_that_ends_before_its_first_search_does_not_report_a_missing_queue(
    patient: Engine, dsn: str
) -> None:
    await patient.queues.configure("orders")
    groups = [f"g{number}" for number in range(30)]
    answers = await asyncio.gather(
        *(pop(patient, "orders", group=group, wait=True, timeout_seconds=0.001) for group in groups)
    )
    assert answers == [[]] * len(groups)


async def pop_values(engine: Engine) -> list[object]:
    return values(await pop_later(engine, "orders"))
