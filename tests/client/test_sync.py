"""The client without ``await``."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from queen import BatchError, Queen, QueenError, SyncQueen
from tests.support.server import SOURCE, Server


@pytest.fixture
def queue_name() -> str:
    return "tasks"


async def in_thread(server: Server, work: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    def run() -> Any:  # noqa: ANN401
        with SyncQueen(server.base_url) as queen:
            return work(queen)

    return await asyncio.to_thread(run)


async def test_push_pop_and_ack(server: Server, queue_name: str) -> None:
    def work(queen: Any) -> list[Any]:  # noqa: ANN401
        queue = queen.queue(queue_name)
        queue.partition("p").push([{"data": n} for n in range(3)])
        messages = queue.batch(3).pop()
        queen.ack(messages)
        return [*(message.data for message in messages), *queue.pop()]

    assert await in_thread(server, work) == [0, 1, 2]


async def test_a_sync_function_consumes_in_a_thread(server: Server, queue_name: str) -> None:
    def work(queen: Any) -> list[Any]:  # noqa: ANN401
        seen: list[Any] = []
        queen.queue(queue_name).push([{"data": n} for n in range(3)])

        def handler(message: Any) -> None:  # noqa: ANN401
            seen.append(message["data"])

        queen.queue(queue_name).limit(3).consume(handler)
        return seen

    assert await in_thread(server, work) == [0, 1, 2]


async def test_errors_are_raised_at_the_call(server: Server) -> None:
    def work(queen: Any) -> None:  # noqa: ANN401
        with pytest.raises(QueenError, match="does not exist"):
            queen.queue("nope").pop()

    await in_thread(server, work)


async def test_receive_and_lists_work_without_await(server: Server, queue_name: str) -> None:
    def work(queen: Any) -> list[Any]:  # noqa: ANN401
        queen.queue(queue_name).push([{"data": 7}])
        with queen.queue(queue_name).receive() as message:
            data = message.data
        return [data, *(queue.name for queue in queen.admin.queues())]

    assert await in_thread(server, work) == [7, queue_name]


async def test_buffers_transactions_and_dead_letters(server: Server, queue_name: str) -> None:
    def work(queen: Any) -> list[Any]:  # noqa: ANN401
        buffered = queen.queue(queue_name).buffer(message_count=9, time_millis=60_000)
        result = buffered.push({"data": 1})
        queen.flush_all_buffers()
        result.stored()
        (message,) = queen.queue(queue_name).pop()
        queen.transaction().ack(message).queue("out").push({"data": 2}).commit()
        (out,) = queen.queue("out").pop()
        queen.ack(out, "dlq", {"error": "no"})
        return [result[0].status, out.data, queen.queue("out").dlq().get()["total"]]

    assert await in_thread(server, work) == ["buffered", 2, 1]


async def test_a_batch_handler_returns_the_failed_messages(server: Server, queue_name: str) -> None:
    def work(queen: Any) -> list[int]:  # noqa: ANN401
        queue = queen.queue(queue_name).config({"retryLimit": 0, "ordered": False})
        queue.create()
        queue.push([{"data": n} for n in range(4)])

        def handler(messages: list[Any]) -> None:
            raise BatchError({message: "odd" for message in messages if message.data % 2})

        queue.batch(4).limit(4).consume(handler)
        return sorted(letter["data"] for letter in queue.dlq().get()["messages"])

    assert await in_thread(server, work) == [1, 3]


async def test_registered_handlers_run_and_stay_plain_functions(
    server: Server, queue_name: str
) -> None:
    def work(queen: Any) -> list[Any]:  # noqa: ANN401
        seen: list[Any] = []

        @queen.queue(queue_name).handler
        def handle(message: Any) -> str:  # noqa: ANN401
            seen.append(message["data"])
            queen.stop()
            return "handled"

        queen.queue(queue_name).push({"data": 1})
        queen.run()
        return [*seen, handle({"data": 2})]

    assert await in_thread(server, work) == [1, "handled"]


async def test_consuming_in_the_background(server: Server, queue_name: str) -> None:
    def work(queen: Any) -> list[Any]:  # noqa: ANN401
        seen: list[Any] = []
        queen.queue(queue_name).push({"data": 1})

        def handler(message: Any) -> None:  # noqa: ANN401
            seen.append(message.data)

        consumption = queen.queue(queue_name).limit(1).start(handler)
        consumption.wait()
        consumption.stop()
        return seen

    assert await in_thread(server, work) == [1]


async def test_concurrency_sets_the_number_of_running_handlers(
    server: Server, queue_name: str
) -> None:
    def work(queen: Any) -> list[Any]:  # noqa: ANN401
        for number in range(40):
            queen.queue(queue_name).partition(str(number)).push({"data": number})
        barrier = threading.Barrier(40, timeout=10)
        seen: list[Any] = []

        def handler(kept: list[Any], message: Any) -> None:  # noqa: ANN401
            barrier.wait()  # Passes only if all run at the same time.
            kept.append(message.data)
            message.ack()  # A handler gets an object with sync methods, also through a partial.

        queen.queue(queue_name).concurrency(40).limit(40).consume(partial(handler, seen))
        return sorted(seen)

    assert await in_thread(server, work) == list(range(40))


FORKED = """
import os, sys
from queen import SyncQueen

with SyncQueen(sys.argv[1]) as queen:
    queue = queen.queue("forked")
    queue.push({"data": "before"})
    queue.buffer(message_count=9, time_millis=60_000).push({"data": "buffered"})
    child = os.fork()
    if child == 0:
        queue.push({"data": "child"})
        queen.flush_all_buffers()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    queue.push({"data": "parent"})
"""


async def test_a_client_survives_a_fork(server: Server) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORKED, server.base_url, env={**os.environ, "PYTHONPATH": str(SOURCE)}
    )
    async with asyncio.timeout(30):
        assert await process.wait() == 0

    async with Queen(server.base_url) as queen:
        data = [message.data for message in await queen.queue("forked").batch(10).pop()]
    assert data == ["before", "child", "parent", "buffered"]  # Buffered: once.


async def test_a_threading_event_stops_a_consumer(server: Server, queue_name: str) -> None:
    def work(queen: Any) -> str:  # noqa: ANN401
        queue = queen.queue(queue_name)
        queue.create()
        with pytest.raises(TypeError, match=r"threading\.Event"):
            queue.consume(print, signal=asyncio.Event())
        stop = threading.Event()
        threading.Timer(0.3, stop.set).start()
        queue.consume(print, signal=stop)
        return "stopped"

    async with asyncio.timeout(10):
        assert await in_thread(server, work) == "stopped"
