"""Messages released by one server process wake a client that waits at another."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from tests.support.calls import data, pop, pop_one, push, says
from tests.support.server import Server, until

PATIENT = {"QUEEN_SAFETY_POLL_MS": "600000"}


async def test_the_acks_of_a_transaction_wake_a_waiter_of_another_process(dsn: str) -> None:
    async with Server(dsn, PATIENT) as one, Server(dsn, PATIENT) as other:
        await push(one, "q", 1, 2)
        held = await pop_one(one, "q")
        waiting = asyncio.create_task(pop(other, "q", wait=True, timeout=20_000))

        async def is_waiting() -> bool:
            return b"\nqueen_waiters{" in (await other.get("/metrics")).body

        await until(is_waiting)
        done = {"type": "ack", **says(held)}
        reply = await one.post("/transaction", {"operations": [done]})

        assert reply.status == 200, reply
        assert data(await asyncio.wait_for(waiting, 10)) == [2]


async def test_maintenance_is_applied_before_the_next_heartbeat(dsn: str) -> None:
    async with Server(dsn) as one, Server(dsn) as other:

        async def is_applied() -> bool:
            reply = await other.get("/pop/queue/q")
            return reply.headers.get("Queen-Reason") == "maintenance"

        await push(one, "q", 1)
        seconds: list[float] = []
        for is_on in (True, False, True, False):
            await one.post("/system/maintenance/pop", {"enabled": is_on})
            began = time.monotonic()
            while await is_applied() != is_on and time.monotonic() < began + 10:
                pass
            seconds.append(time.monotonic() - began)

        assert sorted(seconds)[2] < 1.0, seconds


@pytest.mark.nightly
async def test_a_server_that_was_killed_is_woken_by_pushes_after_its_restart(dsn: str) -> None:
    """Meanwhile the other process has noticed that it is the only one, and doesn't notify."""
    async with Server(dsn, PATIENT) as one, Server(dsn, PATIENT) as other:
        async with notifications(dsn) as heard:

            async def is_notified() -> bool:
                """Whether a push is followed by its notification, or by a regular sign of life."""
                await drained(heard)
                await push(one, "q", 0)
                return await heard.get() != "?"

            async def is_alone() -> bool:
                return not await is_notified()

            await until(is_notified)
            other.kill()
            await until(is_alone, seconds=30)
        await other.start()
        await pop(other, "q", batch=10_000, autoAck=True)
        for number in range(3):
            waiting = asyncio.create_task(pop(other, "q", wait=True, timeout=20_000, autoAck=True))
            await push(one, "q", number)

            assert data(await asyncio.wait_for(waiting, 10)) == [number]


@contextlib.asynccontextmanager
async def notifications(dsn: str) -> AsyncGenerator[asyncio.Queue[object]]:
    """The payloads of all notifications."""
    heard: asyncio.Queue[object] = asyncio.Queue()

    def note(connection: object, pid: int, channel: str, payload: object) -> None:
        del connection, pid, channel
        heard.put_nowait(payload)

    connection = await asyncpg.connect(dsn)
    try:
        await connection.add_listener("queen", note)
        yield heard
    finally:
        await connection.close()


async def drained(heard: asyncio.Queue[object]) -> None:
    """Forget the notifications until now."""
    while not heard.empty():
        await heard.get()
