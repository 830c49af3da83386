"""Handlers: sync or async, for one message or a batch, with automatic or manual acks."""

import asyncio
import threading
from typing import Any

import pytest

from queen import DeadLetter, LeaseLost, Message, Queen, errors
from tests.support.clock import Clock


async def test_a_batch_handler_may_acknowledge_single_messages(shared: Queen, name: str) -> None:
    queue = shared.queue(name).config({"ordered": False, "retryDelay": 0})
    await queue.create()
    await queue.push([{"data": n} for n in range(3)])
    seen: list[list[tuple[int, int]]] = []

    async def handler(messages: list[Message[int]]) -> None:
        seen.append(sorted((message.data, message.attempt) for message in messages))
        for message in messages:
            if (message.data, message.attempt) == (1, 1):
                await message.nack("not yet")
            elif message.data == 0:
                await message.ack()

    await queue.batch(3).idle_millis(400).consume(handler)

    assert seen == [[(0, 1), (1, 1), (2, 1)], [(1, 2)]]


async def test_a_failed_message_of_an_unordered_queue_does_not_block_the_others(
    shared: Queen, name: str
) -> None:
    queue = shared.queue(name).config({"ordered": False, "retryDelay": 60_000})
    await queue.create()
    await queue.push([{"data": n} for n in range(4)])
    seen: list[int] = []

    async def handler(message: Message[int]) -> None:
        seen.append(message.data)
        if len(seen) == 1:
            raise ValueError("the first")

    await queue.batch(4).each().idle_millis(400).consume(handler)

    assert sorted(seen) == [0, 1, 2, 3]


async def test_a_sync_function_runs_in_a_thread(shared: Queen, name: str) -> None:
    for number in range(4):
        await shared.queue(name).partition(str(number)).push({"data": number})
    barrier = threading.Barrier(4, timeout=10)
    seen: list[int] = []

    def handler(message: Message[int]) -> None:
        barrier.wait()  # Passes only if all four run at the same time.
        seen.append(message.data)

    await shared.queue(name).concurrency(4).limit(4).consume(handler)

    assert sorted(seen) == [0, 1, 2, 3]
    assert await shared.queue(name).pop() == []


async def test_a_failing_callback_has_no_effect(shared: Queen, name: str) -> None:
    await shared.queue(name).push([{"data": 1}, {"data": 2}])
    seen: list[int] = []

    async def handler(message: Message[int]) -> None:
        seen.append(message.data)

    def callback(message: Message[int]) -> None:
        raise RuntimeError("of the callback")

    await shared.queue(name).limit(2).on_success(callback).consume(handler)

    assert seen == [1, 2]


async def test_a_consumer_without_renewal_gets_lease_lost(queen: Queen, clock: Clock) -> None:
    queue = queen.queue("q")
    await queue.config({"leaseTime": 60, "retryDelay": 0}).create()
    await queue.push({"data": 1})
    begun, go_on = asyncio.Event(), asyncio.Event()
    told: list[BaseException] = []

    async def handler(message: Message[int]) -> None:
        begun.set()
        await go_on.wait()

    def failed(message: Message[int], error: BaseException) -> None:
        told.append(error)

    work = queue.limit(1).on_error(failed).start(handler)
    async with asyncio.timeout(10):
        await begun.wait()
        await clock.advance(seconds=61)
        (second,) = await queue.wait(True).pop()
        go_on.set()
        await work

    assert [type(error) for error in told] == [LeaseLost]
    assert second.attempt == 2
    await second.ack()  # The late ack did not affect it.


async def test_a_handler_can_be_notified_of_a_lost_lease_instead_of_cancelled(
    queen: Queen, clock: Clock
) -> None:
    queue = queen.queue("q")
    await queue.config({"leaseTime": 60, "retryDelay": 0}).create()
    await queue.push({"data": 1})
    begun, told = asyncio.Event(), asyncio.Event()
    went_on: list[bool] = []

    async def handler(message: Message[int]) -> None:
        begun.set()
        await told.wait()
        went_on.append(message.is_lost)

    def lost(message: Message[int]) -> None:
        told.set()

    # The renewal runs well after the second pop, because before it would succeed.
    work = queue.limit(1).renew_lease(True, 1_500).on_lease_lost(lost).start(handler)
    async with asyncio.timeout(10):
        await begun.wait()
        await clock.advance(seconds=61)
        async with queue.receive() as second:
            await work
            assert second.attempt == 2

    assert went_on == [True]


async def test_all_leases_of_a_batch_are_renewed_by_one_call(shared: Queen, name: str) -> None:
    queue = shared.queue(name)
    await queue.config({"leaseTime": 1}).create()
    for partition in "abc":
        await queue.partition(partition).push({"data": partition})
    seen: list[tuple[str, int]] = []

    async def handler(message: Message[str]) -> None:
        seen.append((message.data, message.attempt))
        await asyncio.sleep(0.7)  # The third starts after the first lease would have ended.

    await queue.batch(3).partitions(3).each().renew_lease(True).limit(3).consume(handler)

    assert sorted(seen) == [("a", 1), ("b", 1), ("c", 1)]
    assert await queue.batch(3).partitions(3).pop() == []


async def test_receive_lets_a_block_dead_letter_its_message(shared: Queen, name: str) -> None:
    await shared.queue(name).push({"data": 1})
    with pytest.raises(DeadLetter):
        async with shared.queue(name).receive():
            raise DeadLetter("hopeless")

    letters = await shared.queue(name).dlq().get()
    assert [each["errorMessage"] for each in letters["messages"]] == ["hopeless"]


async def test_a_cancelled_receive_releases_its_message(shared: Queen, name: str) -> None:
    await shared.queue(name).push({"data": 1})
    begun = asyncio.Event()

    async def block() -> None:
        async with shared.queue(name).receive():
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(block())
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    (again,) = await shared.queue(name).pop()
    assert again.attempt == 1


async def test_run_consumes_with_every_registered_handler(shared: Queen, name: str) -> None:
    one, two = shared.queue(f"{name}-1", type=int), shared.queue(f"{name}-2")
    seen: dict[str, Any] = {}

    @one.group("g").concurrency(2).handler
    async def first(message: Message[int]) -> None:
        seen["first"] = message.data
        if len(seen) == 2:
            shared.stop()

    @two.handler
    def second(message: Message[Any]) -> None:
        seen["second"] = message.data
        if len(seen) == 2:
            asyncio.run_coroutine_threadsafe(stop(), loop)

    async def stop() -> None:
        shared.stop()

    loop = asyncio.get_running_loop()
    await one.push({"data": 1})
    await two.push({"data": 2})
    async with asyncio.timeout(10):
        await shared.run()

    assert seen == {"first": 1, "second": 2}
    assert callable(first)
    assert callable(second)


async def test_run_without_handlers_raises(shared: Queen) -> None:
    with pytest.raises(errors.BadRequest, match="no handler"):
        await shared.run()


async def test_a_failed_consumer_stops_all_others_and_raises(shared: Queen, name: str) -> None:
    await shared.queue(name).create()
    await shared.queue(name).group("taken").pop()

    async def handler(message: Message[Any]) -> None: ...

    shared.queue(name).group("taken").subscription_mode("new").handler(handler)
    shared.queue(name).handler(handler)
    with pytest.raises(errors.SubscriptionConflict):
        async with asyncio.timeout(10):
            await shared.run()
