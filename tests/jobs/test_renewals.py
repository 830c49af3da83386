"""Renewals of more leases and jobs than the server accepts in one call."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queen import Message, Queen
from queen.jobs import Job, QueueManager, Worker
from tests.jobs.waiting import until
from tests.support.server import Server

MOST = 40
COUNT = 150
LEASE = 10.0


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, {"QUEEN_MAX_ITEMS": str(MOST)}) as server:
        yield server


@pytest.mark.nightly
async def test_a_worker_keeps_more_jobs_than_one_renewal_contains(server: Server) -> None:
    async with Queen(server.base_url) as queen:
        jobs = QueueManager(queen)
        runs: list[int] = []
        go_on = asyncio.Event()

        @jobs.processor("work", attempts=1)
        async def step(job: Job[int]) -> None:
            runs.append(job.data)
            await go_on.wait()

        await jobs.configure(["work"])
        for first in range(0, COUNT, MOST):
            numbers = range(first, min(first + MOST, COUNT))
            await jobs.add_bulk("work", [{"name": "step", "data": n} for n in numbers])
        worker, other = (Worker(jobs, concurrency=COUNT, lease_seconds=LEASE) for _ in range(2))
        working = asyncio.create_task(worker.run())
        await until(lambda: len(runs) == COUNT, seconds=30)
        taking_over = asyncio.create_task(other.run())
        # Longer than a lease: without renewals, the other worker gets all of them.
        done, _ = await asyncio.wait([working, taking_over], timeout=LEASE + 3)
        assert not done
        go_on.set()
        await until(lambda: worker.stats.completed == COUNT, seconds=30)
        await asyncio.gather(worker.drain(), other.drain(), working, taking_over)
    assert (worker.stats.lost, other.stats.stalled) == (0, 0)
    assert sorted(runs) == list(range(COUNT))


async def test_a_consumer_keeps_more_leases_than_one_renewal_contains(server: Server) -> None:
    async with Queen(server.base_url) as queen:
        orders = queen.queue("orders")
        for n in range(COUNT):
            await orders.partition(str(n)).push({"data": n})
        messages: list[Message[int]] = []
        while len(messages) < COUNT:
            messages += await orders.lease(60).batch(MOST).partitions(MOST).pop()

        ends = await queen.extend([each.lease_id or "" for each in messages], seconds=120)

    assert len(ends) == COUNT
    assert None not in ends.values()
