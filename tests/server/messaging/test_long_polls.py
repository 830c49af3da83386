"""A long poll waits for a message, a timeout or the end of its connection."""

import asyncio
import time

from tests.support.calls import a_queue, configure, data, pop, posted, push
from tests.support.server import Server, until


async def test_a_long_poll_of_an_unknown_queue_ends_as_not_found(shared: Server) -> None:
    reply = await shared.post(f"/pop/queue/{a_queue()}", {"wait": True, "timeout": 500})

    assert (reply.status, reply.code) == (404, "queue_not_found")


async def test_a_long_poll_gets_the_first_message_of_a_new_queue(shared: Server) -> None:
    queue = a_queue()
    waiting = asyncio.create_task(pop(shared, queue, wait=True, timeout=20_000))
    await asyncio.sleep(0)

    await push(shared, queue, "first")

    assert data(await waiting) == ["first"]


async def test_a_long_poll_ends_at_its_timeout(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue)
    started = time.monotonic()

    assert await pop(shared, queue, wait=True, timeout=200) == []

    # Event loops count in whole milliseconds.
    assert 0.19 <= time.monotonic() - started < 5


async def test_a_push_wakes_long_polls(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue)
    waiting = [asyncio.create_task(pop(shared, queue, wait=True)) for _ in range(5)]

    for number in range(5):
        await push(shared, queue, number, partition=f"p{number}")

    async with asyncio.timeout(10):
        given = [each for messages in await asyncio.gather(*waiting) for each in messages]
    assert sorted(data(given)) == list(range(5))


async def test_too_many_waiters_are_rejected(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_WAITERS": "1"}) as server:
        await configure(server, "q")
        wait = {"wait": True, "timeout": 20_000}
        both = [asyncio.create_task(server.post("/pop/queue/q", wait)) for _ in range(2)]

        (refused,), (waiting,) = await asyncio.wait(both, return_when="FIRST_COMPLETED")

        reply = refused.result()
        assert (reply.status, reply.code) == (429, "too_many_waiters")
        assert reply.body["applied"] is False
        assert "Retry-After" in reply.headers
        await push(server, "q", 1)
        assert data((await waiting).body["messages"]) == [1]


async def test_a_disconnected_waiter_gets_no_message(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue)
    body = b'{"wait":true,"timeout":30000}'
    for _ in range(3):
        _, writer = await asyncio.open_connection("127.0.0.1", shared.port)
        writer.write(posted(f"/pop/queue/{queue}", body))
        await writer.drain()
        # The long poll is registered when a later pop of the same queue has returned.
        await pop(shared, queue)
        writer.close()
        await writer.wait_closed()
    await pop(shared, queue)

    await push(shared, queue, "for somebody who is there")

    async def is_given() -> bool:
        return bool(await pop(shared, queue))

    await until(is_given, seconds=5)
    assert "Exception" not in shared.log
