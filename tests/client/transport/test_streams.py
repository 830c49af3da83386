"""Streams of the SDK: when it uses one, when it uses HTTP instead, and what a lost one means."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from queen import Message, Queen, errors
from queen.client.consume.pop import pop_runs
from queen.client.transport.long_poll import LongPoll
from queen.client.transport.stream import StreamPool
from tests.support.server import Server, until

Paths = list[str]


@pytest.fixture
async def streaming(server: Server) -> AsyncGenerator[Queen]:
    async with Queen(server.base_url, retry_delay_millis=50, stream=True) as queen:
        yield queen


async def count(server: Server, pattern: str) -> int:
    """The sum of the metrics that match."""
    text = (await server.get("/metrics")).body.decode()
    return sum(int(float(each)) for each in re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE))


async def http_requests(server: Server) -> int:
    """Pushes, pops and acks over HTTP."""
    return await count(
        server, r'queen_http_request_seconds_count\{.*route="/api/v1/(?:push|pop|ack|lease).*\}'
    )


@asynccontextmanager
async def proxy(status: int | None, paths: Paths) -> AsyncGenerator[str]:
    """A proxy that rejects handshakes with a status, or closes them; requests return 204."""

    async def handle(request: web.Request) -> web.Response:
        paths.append(request.path)
        if request.path != "/api/v1/stream":
            return web.Response(status=204)
        if status is None:
            assert request.transport is not None
            request.transport.close()
        return web.Response(status=status or 500)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def relay(server: Server) -> AsyncGenerator[tuple[str, Callable[[], None]]]:
    """A port that leads to the server, and a function that cuts its connections."""
    writers: list[asyncio.StreamWriter] = []
    passing: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other = await asyncio.open_connection("127.0.0.1", server.port)
        writers.extend((writer, other))
        for each in (copy(reader, other), copy(other_reader, writer)):
            passing.add(task := asyncio.create_task(each))
            task.add_done_callback(passing.discard)

    def cut() -> None:
        for writer in writers:
            writer.transport.abort()
        writers.clear()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", cut
    finally:
        listener.close()
        cut()
        await asyncio.gather(*passing, return_exceptions=True)


async def test_messages_are_pushed_popped_and_acked_without_requests(
    server: Server, streaming: Queen
) -> None:
    queue = streaming.queue("q")
    await queue.push([{"data": n} for n in range(3)])
    done = asyncio.Event()

    async def handle(message: Message[int]) -> None:
        if message.data == 2:
            done.set()

    work = queue.start(handle)
    await asyncio.wait_for(done.wait(), 20)
    await work.stop()
    assert await http_requests(server) == 0
    assert await count(server, r"queen_stream_connections") == 1
    assert await queue.pop() == []


async def test_without_streams_a_client_uses_requests(server: Server) -> None:
    async with Queen(server.base_url, stream=False) as queen:
        await queen.queue("q").push([{"data": 1}])
        (message,) = await queen.queue("q").pop()
        await queen.ack(message)
    assert await http_requests(server) == 3
    assert await count(server, r"queen_stream_connections") == 0


@pytest.mark.parametrize("status", [404, 426, 401, 502, None])
async def test_a_client_remembers_a_proxy_without_streams(status: int | None) -> None:
    paths: Paths = []
    async with proxy(status, paths) as url, Queen(url, stream=True) as queen:
        for _ in range(3):
            assert await queen.queue("q").pop() == []
    assert paths == ["/api/v1/stream", *["/api/v1/pop/queue/q"] * 3]


async def test_large_pushes_use_requests(server: Server, streaming: Queen) -> None:
    await streaming.queue("q").push([{"data": "x" * 300_000}])
    assert await http_requests(server) == 1


async def test_a_push_whose_stream_is_lost_is_stored_once(server: Server) -> None:
    async with (
        relay(server) as (url, cut),
        Queen(url, retry_delay_millis=10, retry_attempts=5, stream=True) as queen,
    ):
        await queen.queue("q").push([{"data": 0}])
        for number in range(1, 20):
            push = asyncio.create_task(queen.queue("q").push([{"data": number}]))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            cut()
            await push
        found = await queen.queue("q").batch(100).pop()
    assert [message.data for message in found] == list(range(20))


async def test_a_drained_server_is_left_without_an_error(dsn: str) -> None:
    async with (
        Server(dsn) as one,
        Server(dsn) as two,
        Queen([one.base_url, two.base_url], retry_delay_millis=10, stream=True) as queen,
    ):
        handled: list[int] = []

        async def handle(message: Message[int]) -> None:
            handled.append(message.data)

        queue = queen.queue("q")
        await queue.create()
        work = queue.concurrency(4).start(handle)
        for number in range(60):
            await queue.partition(f"p{number}").push([{"data": number}])
            if number == 20:
                os.kill(one.pid, signal.SIGTERM)

        async def is_done() -> bool:
            return len(handled) >= 60

        await until(is_done, seconds=30)
        await work.stop()
    assert sorted(handled) == list(range(60))


async def test_a_stopped_consumer_leaves_no_message_behind(streaming: Queen) -> None:
    queue = streaming.queue("q")
    await queue.create()
    handled: list[int] = []

    async def handle(message: Message[int]) -> None:
        handled.append(message.data)

    for number in range(10):
        work = queue.start(handle)
        push = asyncio.create_task(queue.push([{"data": number}]))
        await work.stop()
        await push
    found = [message.data for message in await queue.batch(100).pop()]
    assert sorted(handled + found) == list(range(10))


async def test_a_cancelled_pop_gives_its_message_back(streaming: Queen) -> None:
    queue = streaming.queue("q")
    await queue.create()
    for number in range(5):
        pop = asyncio.create_task(queue.wait(True).pop())
        await asyncio.sleep(0)
        push = asyncio.create_task(queue.push([{"data": number}]))
        await asyncio.sleep(0)
        pop.cancel()
        await asyncio.gather(pop, return_exceptions=True)
        await push

    # A message that was given back is redelivered in a delivery of its own.
    received: list[object] = []

    async def all_were_received() -> bool:
        messages = await queue.batch(10).pop()
        received.extend(message.data for message in messages)
        if messages:
            await streaming.ack(messages)
        return len(received) >= 5

    await until(all_were_received)
    assert sorted(received, key=str) == [0, 1, 2, 3, 4]


async def waiting_pop(server: Server, queen: Queen) -> tuple[LongPoll, asyncio.Task[Any]]:
    """Start a pop, and return when it waits on the server."""
    await queen.queue("q").create()
    poll = LongPoll()
    task = poll.start(pop_runs(queen, queen.queue("q").wait(True).pop_request))

    async def is_waiting() -> bool:
        return await count(server, r"queen_waiters\{.*\}") == 1

    await until(is_waiting)
    return poll, task


async def test_a_pop_that_continues_over_http_can_be_hung_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        relay(server) as (url, cut),
        Queen(url, retry_delay_millis=10, retry_attempts=5, stream=True) as queen,
    ):
        poll, task = await waiting_pop(server, queen)

        async def uses_http() -> bool:
            return poll.connection is not None

        async def no_stream(*_: object) -> None: ...

        monkeypatch.setattr(StreamPool, "_stream", no_stream)
        cut()
        await until(uses_http)
        assert poll.hang_up()
        async with asyncio.timeout(3):
            await asyncio.wait([task])


async def test_a_pop_is_not_repeated_after_it_was_hung_up(server: Server) -> None:
    async with (
        relay(server) as (url, cut),
        Queen(url, retry_delay_millis=10, retry_attempts=5, stream=True) as queen,
    ):
        poll, task = await waiting_pop(server, queen)
        assert poll.hang_up()
        cut()
        async with asyncio.timeout(3):
            await asyncio.wait([task])
        assert task.cancelled()


async def test_a_rejected_key_is_reported(dsn: str) -> None:
    async with (
        Server(dsn, {"QUEEN_AUTH": "keys", "HOST": "127.0.0.1"}) as server,
        Queen(server.base_url, bearer_token="qk_none", stream=True) as queen,
    ):
        with pytest.raises(errors.Unauthorized):
            await queen.queue("q").push([{"data": 1}])
