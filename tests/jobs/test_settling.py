"""The outcome of a job is reported, also after an outage of the server."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queen import Queen
from queen.jobs import Job, QueueManager, Worker
from tests.support.server import Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn) as server:
        yield server


async def test_an_unavailable_server_costs_no_attempt(server: Server) -> None:
    ran: list[int] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()
    async with Queen(server.base_url, retry_attempts=1) as queen:
        jobs = QueueManager(queen)

        @jobs.processor("work", attempts=1)
        async def push(job: Job[int]) -> None:
            ran.append(job.attempt)
            begun.set()
            await goes_on.wait()
            job.transaction().push("effects", {"data": job.data})

        # The lease is long, because a server may start slowly while other tests run.
        worker = Worker(jobs, lease_seconds=60)
        await worker.ready()
        running = asyncio.create_task(worker.run())
        handle = await push.add(7)
        await begun.wait()

        server.kill()
        goes_on.set()
        await server.start()

        assert (await handle.wait(timeout=30)).status == "completed"
        assert ran == [1]
        effects = await queen.queue("effects").batch(10).pop()
        assert [message.data for message in effects] == [7]
        await worker.drain()
        await running
