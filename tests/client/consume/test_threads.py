"""Sync handlers run in threads, which cannot be cancelled, so they keep their messages."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queen import Message, Queen, SyncQueen
from tests.support.server import Server


class Slow:
    """A sync handler that runs until its event is set."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = threading.Event()
        self.seen: list[Any] = []
        self._loop = asyncio.get_running_loop()

    def __call__(self, message: Message[Any]) -> None:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.go_on.wait(30)
        self.seen.append(message.data)


async def done(queen: Queen, name: str) -> int:
    return len([each async for each in queen.admin.messages(name, status="completed")])


@pytest.fixture
async def slow() -> AsyncIterator[Slow]:
    slow = Slow()
    yield slow
    slow.go_on.set()


@pytest.fixture
async def hasty(process: Server) -> AsyncIterator[Queen]:
    """A client with a very short close timeout."""
    async with Queen(process.base_url, shutdown_timeout=0.1, close_timeout=10) as queen:
        yield queen


async def test_a_running_thread_keeps_its_message_after_the_timeout_and_acks_it(
    hasty: Queen, name: str, slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    queue = hasty.queue(name)
    await queue.config({"leaseTime": 1, "retryDelay": 0}).create()
    await queue.push({"data": 1})
    work = queue.start(slow)
    async with asyncio.timeout(10):
        await slow.begun.wait()
        await work.stop()
    assert "consume.still_working" in caplog.text

    # Longer than the lease: the message is neither released nor does its lease expire.
    assert await queue.wait(True).timeout_millis(1_600).pop() == []
    slow.go_on.set()
    await hasty.close()

    assert slow.seen == [1]
    async with hasty:
        assert await queue.wait(True).timeout_millis(1_200).pop() == []
        assert await done(hasty, name) == 1


async def test_messages_waiting_for_a_thread_are_released_when_it_ends(
    hasty: Queen, name: str, slow: Slow
) -> None:
    queue = hasty.queue(name)
    await queue.push([{"data": n} for n in range(3)])
    work = queue.batch(3).each().start(slow)
    async with asyncio.timeout(10):
        await slow.begun.wait()
        await work.stop()
    assert await queue.pop() == []
    slow.go_on.set()

    rest = await queue.batch(3).wait(True).timeout_millis(10_000).pop()

    assert slow.seen == [0]
    assert [(message.data, message.attempt) for message in rest] == [(1, 1), (2, 1)]


async def test_close_does_not_wait_forever_for_a_thread(
    process: Server, shared: Queen, name: str, slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with (
        asyncio.timeout(10),
        Queen(process.base_url, shutdown_timeout=0.1, close_timeout=0.1) as queen,
    ):
        await queen.queue(name).push({"data": 1})
        queen.queue(name).start(slow)
        await slow.begun.wait()
    assert "consume.left_working" in caplog.text
    assert await shared.queue(name).pop() == []  # Until its lease has expired.


async def test_a_sync_client_keeps_the_messages_of_its_threads(
    process: Server, shared: Queen, name: str, slow: Slow
) -> None:
    await shared.queue(name).push({"data": 1})

    def work() -> list[Any]:
        with SyncQueen(process.base_url, shutdown_timeout=0.1) as queen:
            consumption = queen.queue(name).start(slow)
            asyncio.run_coroutine_threadsafe(slow.begun.wait(), loop).result(10)
            consumption.stop()
            found = queen.queue(name).pop()
            slow.go_on.set()
        return found

    loop = asyncio.get_running_loop()
    assert await asyncio.to_thread(work) == []
    assert slow.seen == [1]
    assert await done(shared, name) == 1
