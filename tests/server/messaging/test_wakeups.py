"""Messages released by one server process wake a client that waits at another."""

import asyncio
import time

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
