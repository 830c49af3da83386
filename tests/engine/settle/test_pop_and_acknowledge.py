"""Acknowledgments and the next pop in one transaction, with one result per acknowledgment."""

import asyncio
from typing import Any

import asyncpg
import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.wire.messages import Acknowledged, Acknowledgment, PopRequest
from tests.engine.helpers import ack, asleep, lease, pop, pop_one, push, says, until, values

Both = tuple[list[Acknowledged], list[Delivery]]


async def next_one(engine: Engine, *acknowledgments: Acknowledgment, **fields: Any) -> Both:  # noqa: ANN401
    request = PopRequest(queue="orders", **fields)
    async with asyncio.timeout(20):
        return await engine.pop_and_acknowledge(request, acknowledgments)


@pytest.fixture
def calls(patient: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    sent: list[str] = []
    fetch = patient.store.database.fetch

    async def record(call: str, *arguments: object) -> Any:  # noqa: ANN401
        if call in ("push", "ack", "nack", "pop", "combine"):
            sent.append(call)
        return await fetch(call, *arguments)

    monkeypatch.setattr(patient.store.database, "fetch", record)
    return sent


async def test_an_ack_frees_the_next_message_of_its_partition_for_the_same_call(
    patient: Engine, calls: list[str]
) -> None:
    await push(patient, "orders", 1, 2)
    first = await pop_one(patient, "orders")
    calls.clear()

    (acknowledged,), (second,) = await next_one(patient, says(first, 0, "completed"))

    assert acknowledged.success
    assert acknowledged.lease_released
    assert values(second) == [2]
    assert calls == ["combine"]


async def test_each_acknowledgment_has_its_own_result(patient: Engine, calls: list[str]) -> None:
    for partition in ("a", "b", "c", "d"):
        await push(patient, "orders", partition, partition=partition)
    a, b, c = [await pop_one(patient, "orders") for _ in range(3)]
    await ack(patient, c)
    calls.clear()

    acknowledged, (popped,) = await next_one(
        patient, says(a, 0, "completed"), says(b, 0, "dlq"), says(c, 0, "completed")
    )

    assert [each.success for each in acknowledged] == [True, True, False]
    assert acknowledged[1].dlq
    assert acknowledged[2].code == errors.LeaseLost.code
    assert values(popped) == ["d"]
    assert calls[0] == "combine"
    assert "pop" not in calls


async def test_a_retried_message_can_be_popped_by_the_same_call(patient: Engine) -> None:
    await patient.queues.configure("orders", {"retry_delay_ms": 0})
    await push(patient, "orders", 1)
    first = await pop_one(patient, "orders")

    (acknowledged,), popped = await next_one(patient, says(first, 0, "failed"), wait=True)

    assert acknowledged.success
    assert [(values(each), each.attempt) for each in popped] == [([1], 2)]


async def test_a_pop_without_messages_waits_after_the_acks_are_stored(patient: Engine) -> None:
    await push(patient, "orders", 1)
    first = await pop_one(patient, "orders")
    waiting = asyncio.create_task(
        next_one(patient, says(first, 0, "completed"), wait=True, timeout_seconds=15)
    )
    await asleep(patient, 1)

    with pytest.raises(errors.LeaseLost):
        await patient.ack(lease(first))
    await push(patient, "orders", 2)
    (acknowledged,), (second,) = await waiting

    assert acknowledged.success
    assert values(second) == [2]


async def test_it_waits_for_a_lock_as_a_single_acknowledgment_does(
    dsn: str, patient: Engine, calls: list[str]
) -> None:
    await push(patient, "orders", 1, 2)
    first = await pop_one(patient, "orders")
    calls.clear()
    locking = await asyncpg.connect(dsn)
    transaction = locking.transaction()
    await transaction.start()
    await locking.execute("select from queen.deliveries for update")
    both = asyncio.create_task(next_one(patient, says(first, 0, "completed")))

    async def has_given_up_the_transaction() -> bool:
        return "ack" in calls or both.done()

    await until(has_given_up_the_transaction)
    await transaction.rollback()
    await locking.close()

    (acknowledged,), (second,) = await both
    assert acknowledged.success
    assert values(second) == [2]


async def test_without_an_accepted_acknowledgment_it_is_an_ordinary_pop(patient: Engine) -> None:
    await push(patient, "orders", 1)
    first = await pop_one(patient, "orders")
    await ack(patient, first)
    await push(patient, "orders", 2)

    (acknowledged,), (second,) = await next_one(patient, says(first, 0, "completed"))

    assert acknowledged.code == errors.LeaseLost.code
    assert values(second) == [2]


async def test_messages_of_another_queue_are_acknowledged_if_the_popped_queue_does_not_exist(
    patient: Engine,
) -> None:
    await push(patient, "orders", 1)
    first = await pop_one(patient, "orders")

    with pytest.raises(errors.QueueNotFound):
        await patient.pop_and_acknowledge(
            PopRequest(queue="missing"), [says(first, 0, "completed")]
        )

    with pytest.raises(errors.LeaseLost):
        await patient.ack(lease(first))


async def test_an_auto_ack_pop_may_follow_acknowledgments(patient: Engine) -> None:
    await push(patient, "orders", 1, 2)
    first = await pop_one(patient, "orders")

    (acknowledged,), (second,) = await next_one(patient, says(first, 0, "completed"), auto_ack=True)

    assert acknowledged.success
    assert second.lease_id is None
    assert values(second) == [2]
    assert await pop(patient, "orders") == []


@pytest.fixture
async def held(
    patient: Engine, monkeypatch: pytest.MonkeyPatch
) -> "asyncio.Queue[asyncio.Future[None]]":
    """Combined calls put a future here after their commit, and wait for it before they return."""
    held: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()
    fetch = patient.store.database.fetch

    async def hold(call: str, *arguments: object) -> Any:  # noqa: ANN401
        found = await fetch(call, *arguments)
        if call == "combine":
            future = asyncio.get_running_loop().create_future()
            held.put_nowait(future)
            await future
        return found

    monkeypatch.setattr(patient.store.database, "fetch", hold)
    return held


async def test_a_cancelled_call_returns_what_its_transaction_claimed(
    patient: Engine, held: "asyncio.Queue[asyncio.Future[None]]"
) -> None:
    await push(patient, "orders", 1, 2)
    first = await pop_one(patient, "orders")
    cancelled = asyncio.create_task(next_one(patient, says(first, 0, "completed")))
    claimed = await held.get()

    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    claimed.set_result(None)

    (second,) = await pop(patient, "orders", wait=True, timeout_seconds=15)
    assert (values(second), second.attempt) == ([2], 1)


async def test_a_cancelled_auto_ack_has_an_unknown_outcome(
    patient: Engine, held: "asyncio.Queue[asyncio.Future[None]]"
) -> None:
    await push(patient, "orders", 1, 2)
    first = await pop_one(patient, "orders")
    cancelled = asyncio.create_task(next_one(patient, says(first, 0, "completed"), auto_ack=True))
    claimed = await held.get()

    cancelled.cancel()
    with pytest.raises(errors.OutcomeUnknown):
        await cancelled
    claimed.set_result(None)


async def test_a_stopping_engine_returns_what_a_cancelled_call_claimed(
    dsn: str, patient: Engine, held: "asyncio.Queue[asyncio.Future[None]]"
) -> None:
    await push(patient, "orders", 1, 2)
    first = await pop_one(patient, "orders")
    cancelled = asyncio.create_task(next_one(patient, says(first, 0, "completed")))
    claimed = await held.get()
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)

    stopping = asyncio.create_task(patient.stop_waiting())
    await asyncio.sleep(0)
    assert not stopping.done()
    claimed.set_result(None)
    await stopping
    async with await Engine.open(dsn) as other:
        (second,) = await pop(other, "orders")
    assert (values(second), second.attempt) == ([2], 1)
