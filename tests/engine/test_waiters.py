"""A waiting pop costs no statements, and every event that may bring it a message wakes it."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any

import pytest

from queen.engine.engine import Engine
from queen.errors import DatabaseUnavailable, Draining, QueueNotFound, TooManyWaiters
from queen.settings import Settings
from queen.store import messages as rows
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
    says,
    settle,
    until,
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
    with pytest.raises(QueueNotFound):
        await pop(patient, "orders", wait=True, timeout_seconds=0.05)


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
    await patient.queues.configure("orders")
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


async def test_a_sleeping_waiter_sends_no_statement(patient: Engine) -> None:
    await patient.queues.configure("orders")
    waiter = asyncio.create_task(pop(patient, "orders", wait=True, timeout_seconds=0.5))
    await asleep(patient, 1)
    await listening(patient)
    before = patient.store.database.statements

    assert await waiter == []

    assert patient.store.database.statements - before <= 1


async def test_a_new_waiter_beside_sleeping_ones_sends_no_statement(patient: Engine) -> None:
    await patient.queues.configure("orders")
    await listening(patient)
    waiters = [asyncio.create_task(pop(patient, "orders", wait=True))]
    await asleep(patient, 1)
    # Once this pop returns, the search for the first waiter is done.
    assert await pop(patient, "orders") == []
    before = patient.store.database.statements

    for number in range(20):
        waiters.append(asyncio.create_task(pop(patient, "orders", wait=True)))
        await asleep(patient, number + 2)

    assert patient.store.database.statements - before < 5  # From the slow poll and the outbox.
    await push(patient, "orders", *range(3), partition="a")
    done, _ = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    assert values(done.pop().result()) == [0]
    await cancel(waiters)


async def test_an_ack_of_the_last_message_starts_no_search(patient: Engine) -> None:
    partitions = [f"p{number}" for number in range(20)]
    for partition in partitions:
        await push(patient, "orders", "a", partition=partition)
    held = [await pop_one(patient, "orders", partition=each) for each in partitions]
    waiter = asyncio.create_task(pop(patient, "orders", wait=True))
    await asleep(patient, 1)
    before = patient.store.database.statements

    for delivery in held:
        await patient.ack(lease(delivery))
        # Any waiter that it woke has searched by now.
        await patient.store.database.fetch("now")

    # One ack and one check each, and the occasional background statements of the engine.
    assert patient.store.database.statements - before <= 2 * len(held) + 5
    await cancel([waiter])


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


async def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def pop_values(engine: Engine) -> list[object]:
    return values(await pop_later(engine, "orders"))
