"""What one server process frees, a client that waits at another gets at once."""

import asyncio

from tests.server.calls import data, pop, pop_one, push, says
from tests.server.server import Server, until

PATIENT = {"QUEEN_SAFETY_POLL_MS": "600000"}


async def test_the_acks_of_a_transaction_wake_a_waiter_of_another_process(dsn: str) -> None:
    async with Server(dsn, PATIENT) as one, Server(dsn, PATIENT) as other:
        await push(one, "q", 1, 2)
        held = await pop_one(one, "q")
        waiting = asyncio.create_task(pop(other, "q", wait=True, timeout=20_000))

        async def is_asleep() -> bool:
            return b"\nqueen_waiters{" in (await other.get("/metrics")).body

        await until(is_asleep)
        done = {"type": "ack", **says(held)}
        reply = await one.post("/transaction", {"operations": [done]})

        assert reply.status == 200, reply
        assert data(await asyncio.wait_for(waiting, 10)) == [2]
