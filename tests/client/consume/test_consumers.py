"""Consumers: the effects of their handlers' outcomes, and how they stop."""

import asyncio
import contextlib
import threading
from typing import Any

import msgspec
import pytest

from queen import BatchError, DeadLetter, LeaseLost, Message, PushError, Queen, Retry, errors
from tests.client.faults import Faulty
from tests.support.clock import Clock


class Order(msgspec.Struct):
    id: int


async def test_a_failed_message_is_redelivered_and_the_others_continue(queen: Queen) -> None:
    orders = queen.queue("orders")
    await orders.config({"retryDelay": 0}).create()
    await orders.push([{"data": n} for n in range(3)])
    seen: list[tuple[int, int]] = []

    async def handler(message: Message[int]) -> None:
        seen.append((message.data, message.attempt))
        if message.data == 1 and message.attempt == 1:
            raise ValueError("once")

    await orders.limit(4).consume(handler)

    assert seen == [(0, 1), (1, 1), (1, 2), (2, 1)]


async def test_each_skips_the_rest_of_a_delivery_after_a_failure(queen: Queen) -> None:
    orders = queen.queue("orders")
    await orders.config({"retryDelay": 0}).create()
    await orders.push([{"data": n} for n in range(3)])
    seen: list[int] = []

    async def handler(message: Message[int]) -> None:
        seen.append(message.data)
        if seen == [0]:
            raise ValueError("the first")

    await orders.batch(3).each().idle_millis(500).consume(handler)

    assert seen == [0, 0, 1, 2]


@pytest.mark.parametrize("is_ordered", [True, False])
async def test_each_skips_the_rest_after_a_nack_in_a_transaction(
    queen: Queen, is_ordered: bool
) -> None:
    orders = queen.queue("orders")
    await orders.config({"retryDelay": 0, "ordered": is_ordered}).create()
    await orders.push([{"data": n} for n in range(4)])
    seen: list[tuple[int, int]] = []

    async def handler(message: Message[int]) -> None:
        seen.append((message.data, message.attempt))
        if message.data == 1 and message.attempt == 1:
            await queen.transaction().ack(message, False, {"error": "no"}).commit()

    await orders.batch(4).each().idle_millis(1_000).consume(handler)

    assert sorted(seen) == [(0, 1), (1, 1), (1, 2), (2, 1), (3, 1)]
    if is_ordered:
        assert seen.index((1, 2)) < seen.index((2, 1))


@pytest.mark.parametrize("waits", [True, False])
async def test_an_idle_consumer_of_a_missing_queue_raises(queen: Queen, waits: bool) -> None:
    async def handler(message: Message[Any]) -> None: ...

    with pytest.raises(errors.QueueNotFound):
        async with asyncio.timeout(10):
            await queen.queue("nobody-made-this").wait(waits).idle_millis(300).consume(handler)


async def test_a_consumer_may_start_before_its_queue_exists(queen: Queen) -> None:
    orders = queen.queue("orders")
    seen: list[int] = []

    async def handler(message: Message[int]) -> None:
        seen.append(message.data)

    work = orders.idle_millis(2_000).start(handler)
    await orders.push([{"data": 1}])
    await work

    assert seen == [1]


async def test_an_idle_consumer_with_an_unavailable_server_raises() -> None:
    async def handler(message: Message[Any]) -> None: ...

    # Three attempts take longer than the idle time.
    async with Queen("http://127.0.0.1:9", retry_delay_millis=1_000) as queen:
        with pytest.raises(errors.ServerUnreachable):
            await queen.queue("orders").idle_millis(1).consume(handler)


async def test_an_idle_consumer_whose_last_pop_failed_raises(
    queen: Queen,
) -> None:
    async def handler(message: Message[Any]) -> None: ...

    queen.transport = faulty = Faulty(queen.transport)
    faulty.is_down = True
    with pytest.raises(errors.ServerUnreachable):
        await queen.queue("orders").idle_millis(300).consume(handler)


@pytest.mark.parametrize("failure", [ValueError("\ud800"), asyncio.CancelledError()])
async def test_any_exception_of_a_handler_fails_its_message(
    queen: Queen, failure: BaseException
) -> None:
    orders = queen.queue("orders")
    await orders.config({"retryDelay": 0, "retryLimit": 1}).create()
    await orders.push([{"data": 0}, {"data": 1}])
    seen: list[tuple[int, int]] = []

    async def handler(message: Message[int]) -> None:
        seen.append((message.data, message.attempt))
        if message.data == 0:
            raise failure

    def failed(message: Message[int], error: BaseException) -> None: ...

    async with asyncio.timeout(20):
        await orders.limit(3).on_error(failed).consume(handler)

    assert seen == [(0, 1), (0, 2), (1, 1)]
    assert (await orders.dlq().get())["total"] == 1


async def test_a_limit_is_shared_by_all_workers(queen: Queen) -> None:
    orders = queen.queue("orders")
    for number in range(4):
        await orders.partition(str(number)).push([{"data": number}])
    together = asyncio.Barrier(4)

    async def handler(messages: list[Message[int]]) -> None:
        async with asyncio.timeout(10):
            await together.wait()  # Passes only if all four run at the same time.

    await orders.batch(4).concurrency(4).limit(4).consume(handler)

    assert not together.broken
    assert await orders.batch(4).partitions(4).pop() == []


async def test_a_handler_can_request_a_retry_or_a_dead_letter(queen: Queen) -> None:
    orders = queen.queue("orders").config({"ordered": False})
    await orders.create()
    await orders.push([{"data": "again"}, {"data": "never"}])
    seen: list[tuple[str, int]] = []

    async def handler(message: Message[str]) -> None:
        seen.append((message.data, message.attempt))
        if message.data == "never":
            raise DeadLetter("hopeless")
        if len([each for each in seen if each[0] == "again"]) == 1:
            raise Retry("not yet", delay="10ms")

    await orders.limit(3).consume(handler)

    assert sorted(seen) == [("again", 1), ("again", 1), ("never", 1)]


async def test_an_invalid_delay_is_a_failure_of_the_handler(queen: Queen) -> None:
    orders = queen.queue("orders").config({"ordered": False, "retryLimit": 0})
    await orders.create()
    await orders.push([{"data": "wrong"}, {"data": "right"}])
    seen: list[str] = []

    async def handler(message: Message[str]) -> None:
        seen.append(message.data)
        if message.data == "wrong":
            raise Retry(delay="soon")

    await orders.idle_millis(500).consume(handler)

    assert sorted(seen) == ["right", "wrong"]
    (letter,) = [each async for each in queen.admin.dead_letters(queue="orders")]
    assert "is not a duration" in (letter.error_message or "")


async def test_a_batch_handler_returns_the_failed_messages(queen: Queen) -> None:
    orders = queen.queue("orders").config({"ordered": False, "retryDelay": 0})
    await orders.create()
    await orders.push([{"data": n} for n in range(4)])
    seen: list[list[int]] = []

    async def handler(messages: list[Message[int]]) -> None:
        seen.append(sorted(message.data for message in messages))
        if len(seen) == 1:
            raise BatchError({m: ValueError("odd") for m in messages if m.data % 2})

    await orders.batch(4).idle_millis(500).consume(handler)

    assert seen[0] == [0, 1, 2, 3]
    assert sorted(n for batch in seen[1:] for n in batch) == [1, 3]


async def test_callbacks_do_not_affect_acks(queen: Queen) -> None:
    orders = queen.queue("orders").config({"retryLimit": 0})
    await orders.create()
    await orders.push([{"data": "good"}, {"data": "bad"}])
    told: list[tuple[str, str]] = []

    async def handler(message: Message[str]) -> None:
        if message.data == "bad":
            raise ValueError("bad")

    def succeeded(message: Message[str]) -> None:
        told.append(("done", message.data))

    def failed(message: Message[str], error: BaseException) -> None:
        told.append((str(error), message.data))

    await orders.limit(2).on_success(succeeded).on_error(failed).consume(handler)

    assert told == [("done", "good"), ("bad", "bad")]
    assert await orders.pop() == []


async def test_the_limit_counts_for_all_workers_together(queen: Queen) -> None:
    orders = queen.queue("orders")
    for number in range(20):
        await orders.partition(str(number)).push([{"data": number}])
    seen: list[int] = []

    async def handler(message: Message[int]) -> None:
        seen.append(message.data)
        await asyncio.sleep(0)

    await orders.concurrency(8).limit(7).consume(handler)

    assert len(seen) == 7


async def test_stopping_ends_the_long_poll_immediately(queen: Queen) -> None:
    await queen.queue("orders").create()
    stop = asyncio.Event()

    async def handler(message: Message[Any]) -> None: ...

    work = asyncio.create_task(queen.queue("orders").consume(handler, signal=stop))
    asyncio.get_running_loop().call_later(0.3, stop.set)
    async with asyncio.timeout(8):
        await work


async def test_a_threading_event_stops_a_consumer(queen: Queen) -> None:
    await queen.queue("orders").create()
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()

    async def handler(message: Message[Any]) -> None: ...

    async with asyncio.timeout(8):
        await queen.queue("orders").consume(handler, signal=stop)


async def test_a_consumer_ends_when_it_cannot_renew_its_leases(
    queen: Queen, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = queen.queue("orders")
    await orders.push([{"data": 1}])

    has_failed = asyncio.Event()

    async def fail(*_: object, **__: object) -> None:
        has_failed.set()
        raise ZeroDivisionError

    monkeypatch.setattr(queen, "extend", fail)

    async def handler(message: Message[Any]) -> None:
        await has_failed.wait()

    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(20):
            await orders.renew_lease(interval_millis="100ms").consume(handler)


async def test_unstarted_messages_are_released_when_stopped(queen: Queen) -> None:
    orders = queen.queue("orders")
    await orders.push([{"data": n} for n in range(5)])
    stop = asyncio.Event()
    seen: list[int] = []

    async def handler(message: Message[int]) -> None:
        seen.append(message.data)
        stop.set()

    await orders.batch(5).each().consume(handler, signal=stop)
    rest = await orders.batch(5).pop()

    assert seen == [0]
    assert [(message.data, message.attempt) for message in rest] == [(n, 1) for n in range(1, 5)]


async def test_manual_acks_are_left_to_the_handler(queen: Queen) -> None:
    orders = queen.queue("orders")
    await orders.push([{"data": 1}])

    async def handler(message: Message[int]) -> None: ...

    await orders.auto_ack(False).limit(1).consume(handler)

    assert await orders.pop() == []  # The lease is still valid.


async def test_an_undecodable_payload_becomes_a_dead_letter(queen: Queen) -> None:
    orders = queen.queue("orders", type=Order)
    await orders.push([{"data": {"id": "seven"}}, {"data": Order(id=8)}])
    seen: list[int] = []

    async def handler(message: Message[Order]) -> None:
        seen.append(message.data.id)

    await orders.idle_millis(500).consume(handler)

    assert seen == [8]


async def test_renewal_extends_a_lease_beyond_its_time(queen: Queen) -> None:
    orders = queen.queue("orders")
    await orders.config({"leaseTime": 1}).create()
    await orders.push([{"data": "long"}])
    seen: list[int] = []

    async def handler(message: Message[str]) -> None:
        seen.append(message.attempt)
        await asyncio.sleep(3.2)  # Takes as long as three leases.

    await orders.renew_lease(True).limit(1).consume(handler)

    assert seen == [1]
    assert await orders.pop() == []


async def test_a_late_ack_raises_a_typed_error(queen: Queen, clock: Clock) -> None:
    orders = queen.queue("orders")
    await orders.config({"leaseTime": 60, "retryDelay": 0}).create()
    await orders.push([{"data": 1}])
    (first,) = await orders.pop()

    await clock.advance(seconds=61)
    (second,) = await orders.pop()

    assert second.attempt == 2
    with pytest.raises(LeaseLost):
        await first.ack()
    with pytest.raises(LeaseLost):
        await queen.renew(first)
    await second.ack()


async def test_a_lost_lease_cancels_the_handler(queen: Queen, clock: Clock) -> None:
    orders = queen.queue("orders")
    await orders.config({"leaseTime": 60, "retryDelay": 0}).create()
    await orders.push([{"data": 1}])
    begun, ended = asyncio.Event(), asyncio.Event()

    async def handler(message: Message[int]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            raise

    # The renewal runs well after the second pop, because before it would succeed.
    work = orders.renew_lease(True, 1_500).limit(1).start(handler)
    async with asyncio.timeout(10):
        await begun.wait()
        await clock.advance(seconds=61)
        # This pop takes the lease from the first.
        async with orders.receive() as second:
            assert second.attempt == 2
        await ended.wait()
    await work.stop()


async def test_receive_acks_or_nacks(queen: Queen) -> None:
    orders = queen.queue("orders")
    await orders.config({"retryDelay": 0}).create()
    await orders.push([{"data": 1}])

    with contextlib.suppress(ValueError):
        async with orders.receive() as message:
            raise ValueError("no")
    async with orders.receive() as message:
        assert message.attempt == 2

    assert await orders.pop() == []


async def test_a_consumer_that_does_not_wait_pauses_between_empty_pops(queen: Queen) -> None:
    await queen.queue("orders").create()
    queen.transport = faulty = Faulty(queen.transport)

    async def handler(message: Message[Any]) -> None: ...

    await queen.queue("orders").wait(False).idle_millis(700).consume(handler)

    assert 2 <= len(faulty.sent) <= 20


async def test_a_large_push_reports_which_part_is_stored(queen: Queen) -> None:
    queen.transport = faulty = Faulty(queen.transport)
    pushes = 0

    def before(method: str, path: str) -> None:
        nonlocal pushes
        pushes += 1
        faulty.is_down = pushes > 1

    faulty.before = before
    with pytest.raises(PushError) as caught:
        await queen.queue("orders").push([{"data": n} for n in range(5_003)])

    assert len(caught.value.stored) == 5_000
    assert [each.code for each in caught.value.failed] == ["server_unreachable"] * 3
