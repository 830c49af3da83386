"""Clients pause after pops that return empty without waiting."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from queen import Message, Queen
from queen.client.queue import Queue
from queen.jobs import Job, QueueManager
from tests.client.faults import Faulty
from tests.support.server import Server, until

SECONDS = 1.5
MOST_POPS = 10
"""In that time, per loop. Without a pause there is one pop per round trip: several hundred."""


async def receive(queue: "Queue[Any]") -> None:
    async with queue.receive():
        pass


async def consume(queue: "Queue[Any]") -> None:
    async def handle(message: Message[Any]) -> None:
        pass

    await queue.limit(1).consume(handle)


async def work(queue: "Queue[Any]") -> None:
    assert isinstance(queue.queen, Queen)
    jobs = QueueManager(queue.queen)
    ran = asyncio.Event()

    @jobs.processor(queue.name or "")
    async def step(job: Job[int]) -> None:
        ran.set()

    await jobs.start_workers(concurrency=1)
    try:
        await ran.wait()
    finally:
        await jobs.shutdown()


async def send(queue: "Queue[Any]", is_job: bool) -> None:
    if is_job:
        assert isinstance(queue.queen, Queen)
        await QueueManager(queue.queen).add_job(queue.name or "", "step", 1)
    else:
        await queue.push({"data": 1})


@pytest.mark.parametrize("consumer", [receive, consume, work])
async def test_pop_maintenance_slows_down_every_kind_of_consumer(
    server: Server, queen: Queen, name: str, consumer: "Callable[..., Coroutine[Any, Any, None]]"
) -> None:
    queen.transport = faulty = Faulty(queen.transport)
    queue = queen.queue(name)
    await send(queue, consumer is work)
    await queen.admin.set_maintenance(True, of_pops=True)

    def pops() -> int:
        return sum("/pop/" in path for _, path, _ in faulty.sent)

    async def has_popped() -> bool:
        return pops() > 0

    consuming = asyncio.create_task(consumer(queue))
    await until(has_popped)
    before = pops()
    done, _ = await asyncio.wait([consuming], timeout=SECONDS)
    assert not done
    assert pops() - before <= MOST_POPS

    await queen.admin.set_maintenance(False, of_pops=True)
    async with asyncio.timeout(20):
        await consuming


async def test_a_client_obeys_retry_after(server: Server) -> None:
    await server.post("/system/maintenance/pop", {"enabled": True})
    reply = await server.get("/pop/queue/orders")
    assert (reply.status, reply.headers["Queen-Reason"]) == (204, "maintenance")
    assert reply.headers["Retry-After"] == "1"
