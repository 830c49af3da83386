"""A waiting pop costs no statements, and a wait that ends leaves no state."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from queen.engine.engine import Engine
from queen.errors import DatabaseUnavailable, Draining, OutcomeUnknown, TooManyWaiters
from queen.settings import Settings
from queen.store import messages as rows
from tests.engine.helpers import (
    asleep,
    item,
    lease,
    listening,
    pop,
    pop_later,
    pop_one,
    push,
    says,
    until,
    values,
)

OF_POPS = ("find_groups", "subscribe", "fill", "pop", "segments", "ready_groups")
"""Calls of a search. Background tasks send others at any time."""


@pytest.fixture
def sent(patient: Engine, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls that the engine sends, by name."""
    calls, fetch = Counter[str](), patient.store.database.fetch

    async def count(call: str, *arguments: object) -> list[rows.Record]:
        calls[call] += 1
        return await fetch(call, *arguments)

    monkeypatch.setattr(patient.store.database, "fetch", count)
    return calls


async def test_a_cancelled_waiter_gets_no_message(patient: Engine) -> None:
    await patient.queues.configure("orders")
    gone = asyncio.create_task(pop_later(patient, "orders"))
    stays = asyncio.create_task(pop_later(patient, "orders"))
    await asleep(patient, 2)

    gone.cancel()
    await push(patient, "orders", "a")

    (delivery,) = await stays
    assert (values(delivery), delivery.attempt) == (["a"], 1)


async def test_messages_claimed_for_a_cancelled_waiter_go_to_the_next(
    patient: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pops of queues with a limit are not combined with the push.
    await patient.queues.configure("orders", {"concurrency_limit": 100})
    claim, is_claimed = patient.store.messages.pop, asyncio.Event()
    go_on = asyncio.Event()

    async def hold(request: rows.Pop) -> list[rows.Record]:
        claimed = await claim(request)
        if any(row["request"] is not None for row in claimed):
            is_claimed.set()
            await go_on.wait()
        return claimed

    gone = asyncio.create_task(pop_later(patient, "orders"))
    await asleep(patient, 1)
    monkeypatch.setattr(patient.store.messages, "pop", hold)
    await push(patient, "orders", "a")
    await is_claimed.wait()
    gone.cancel()
    monkeypatch.setattr(patient.store.messages, "pop", claim)
    next_one = asyncio.create_task(pop_later(patient, "orders", seconds=2))
    with contextlib.suppress(asyncio.CancelledError):
        await gone
    go_on.set()

    (delivery,) = await next_one
    assert (values(delivery), delivery.attempt) == (["a"], 1)


async def test_cancelling_a_pop_that_may_have_acknowledged_has_an_unknown_outcome(
    patient: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await patient.queues.configure("orders")
    await push(patient, "orders", "a")
    claim, is_claimed, go_on = patient.store.messages.pop, asyncio.Event(), asyncio.Event()

    async def hold(request: rows.Pop) -> list[rows.Record]:
        claimed = await claim(request)
        is_claimed.set()
        await go_on.wait()
        return claimed

    monkeypatch.setattr(patient.store.messages, "pop", hold)
    gone = asyncio.create_task(pop(patient, "orders", auto_ack=True))
    await is_claimed.wait()

    gone.cancel()
    go_on.set()

    with pytest.raises(OutcomeUnknown):
        await gone


async def test_the_number_of_waiters_per_process_is_bounded(dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(max_waiters=2)) as engine:
        await engine.queues.configure("orders")
        waiters = [asyncio.create_task(pop_later(engine, "orders")) for _ in range(2)]
        await asleep(engine, 2)

        with pytest.raises(TooManyWaiters):
            await pop(engine, "orders", wait=True)

        await push(engine, "orders", "a", partition="one")
        await push(engine, "orders", "b", partition="two")
        got = [value for each in await asyncio.gather(*waiters) for value in values(each)]
        assert sorted(got) == ["a", "b"]


async def test_closing_the_engine_ends_all_waits(dsn: str) -> None:
    engine = await Engine.open(dsn)
    await engine.queues.configure("orders")
    waiter = asyncio.create_task(pop_later(engine, "orders"))
    await asleep(engine, 1)

    await engine.close()

    assert await waiter == []
    with pytest.raises(Draining):
        await pop(engine, "orders")
    with pytest.raises(Draining):
        await push(engine, "orders", "a")


async def test_a_waiter_searches_once_and_then_sleeps(
    patient: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await patient.queues.configure("orders")
    await listening(patient)
    claim = patient.store.messages.pop
    searches: list[rows.Pop] = []

    async def count(request: rows.Pop) -> list[rows.Record]:
        searches.append(request)
        return await claim(request)

    monkeypatch.setattr(patient.store.messages, "pop", count)

    assert await pop(patient, "orders", wait=True, timeout_seconds=0.5) == []

    assert len(searches) == 1


async def test_a_new_waiter_beside_sleeping_ones_sends_no_statement(
    patient: Engine, sent: Counter[str]
) -> None:
    await patient.queues.configure("orders")
    await listening(patient)
    waiters = [asyncio.create_task(pop(patient, "orders", wait=True))]
    await asleep(patient, 1)
    # Once this pop returns, the search for the first waiter is done.
    assert await pop(patient, "orders") == []
    before = total(sent, OF_POPS)

    for number in range(100):
        waiters.append(asyncio.create_task(pop(patient, "orders", wait=True)))
        await asleep(patient, number + 2)

    # From the end of the first search, and from the search for due messages after it.
    assert total(sent, OF_POPS) - before < 10
    await push(patient, "orders", *range(3), partition="a")
    done, _ = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    assert values(done.pop().result()) == [0]
    await cancel(waiters)


async def test_an_ack_of_the_last_message_starts_no_search(
    patient: Engine, sent: Counter[str]
) -> None:
    partitions = [f"p{number}" for number in range(20)]
    for partition in partitions:
        await push(patient, "orders", "a", partition=partition)
    held = [await pop_one(patient, "orders", partition=each) for each in partitions]
    waiter = asyncio.create_task(pop(patient, "orders", wait=True))
    await asleep(patient, 1)
    before = total(sent, OF_POPS)

    for delivery in held:
        await patient.ack(lease(delivery))
        # Any waiter that it woke has searched by now.
        await patient.store.database.fetch("now")

    # From the search for due messages.
    assert total(sent, OF_POPS) - before < len(held) // 2
    await cancel([waiter])


async def test_a_pop_without_wait_returns_even_behind_many_waiters(patient: Engine) -> None:
    await patient.queues.configure("orders")
    waiters = [asyncio.create_task(pop(patient, "orders", wait=True)) for _ in range(300)]
    await asleep(patient, 300)

    async with asyncio.timeout(5):
        assert await pop(patient, "orders") == []

    await cancel(waiters)


async def test_a_delivery_for_a_cancelled_pop_is_released(patient: Engine) -> None:
    await patient.queues.configure("orders")

    async def first_wins() -> object:
        got = values(await pop(patient, "orders", wait=True))
        second.cancel()
        return got

    first = asyncio.create_task(first_wins())
    await asleep(patient, 1)
    second = asyncio.create_task(pop(patient, "orders", wait=True))
    await asleep(patient, 2)

    # Both get their result in one iteration of the loop, and the first cancels the second before
    # it wakes.
    await patient.push([item("orders", 1, partition="a"), item("orders", 2, partition="b")])

    assert await first == [1]
    with pytest.raises(asyncio.CancelledError):
        await second
    (again,) = await pop_later(patient, "orders", seconds=3)
    assert (values(again), again.attempt) == ([2], 1)


async def test_claimed_messages_that_cannot_be_read_are_released(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await Engine.open(dsn, settings=Settings(segment_cache_bytes=1)) as engine:
        await push(engine, "orders", "a")

        async def fail(*_: object) -> list[rows.Record]:
            raise DatabaseUnavailable("no connection")

        with monkeypatch.context() as patch:
            patch.setattr(engine.store.messages, "segments", fail)
            with pytest.raises(DatabaseUnavailable):
                await pop(engine, "orders")

        again = await pop_one(engine, "orders")
        assert (values(again), again.attempt) == (["a"], 1)


async def test_cancelled_pops_leave_no_state(patient: Engine) -> None:
    await patient.queues.configure("orders")
    tasks = [asyncio.create_task(pop(patient, f"m{n}", wait=True)) for n in range(20)]
    tasks += [
        asyncio.create_task(pop(patient, "orders", partition=f"p{n}", wait=True)) for n in range(20)
    ]
    await asleep(patient, 40)

    await cancel(tasks)

    waiters = patient._popper.waiters  # pyright: ignore[reportPrivateUsage]

    async def are_forgotten() -> bool:
        return not (waiters.missing_queues or waiters.group_ids or waiters.all_units())

    await until(are_forgotten)
    assert patient.waiting == 0


async def test_many_waits_that_end_together_do_not_block_the_loop(patient: Engine) -> None:
    await patient.queues.configure("orders")
    count = 4_000
    waiters = [
        asyncio.create_task(pop(patient, "orders", wait=True, timeout_seconds=1.5))
        for _ in range(count)
    ]
    await asleep(patient, count)
    # Only the CPU time of the loop between two iterations, because the machine may be busy.
    worst, last = 0.0, time.thread_time()

    while patient.waiting:
        await asyncio.sleep(0.001)
        worst, last = max(worst, time.thread_time() - last), time.thread_time()

    assert await asyncio.gather(*waiters) == [[]] * count
    assert worst < 0.4


async def test_a_failed_message_that_waits_sets_no_separate_timer(
    patient: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await patient.queues.configure("jobs", {"ordered": False})
    await push(patient, "jobs", *range(50))
    held = await pop_one(patient, "jobs", batch=50)
    waiter = asyncio.create_task(pop(patient, "jobs", wait=True))
    await asleep(patient, 1)
    loop = asyncio.get_running_loop()
    call_later, delays = loop.call_later, list[float]()

    def note(delay: float, *arguments: Any, **options: Any) -> asyncio.TimerHandle:  # noqa: ANN401
        delays.append(delay)
        return call_later(delay, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "call_later", note)
        failures = [says(held, each, "failed", delay_seconds=86_400.0) for each in held.offsets]
        await patient.acknowledge(failures)

    assert sum(delay > 80_000 for delay in delays) <= 1
    await cancel([waiter])


def total(sent: Counter[str], calls: Collection[str]) -> int:
    return sum(sent[call] for call in calls)


async def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
