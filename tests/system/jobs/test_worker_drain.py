"""SIGTERM of busy workers: a job that has not begun is released, and no attempt is counted."""

import asyncio
import os
import random
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import msgspec
import pytest

from queen import Queen
from queen.jobs import Job, QueueManager
from tests.support.server import SOURCE, Server, until
from tests.system.jobs.drained_worker import Task

ROOT = Path(__file__).parents[3]
QUEUE = "work"
AT_ONCE = 3
"""Workers that run at the same time."""
MOST_JOBS = 20
"""Jobs per add. Few, so that workers mostly wait for the next job when they get SIGTERM."""


async def terminate(server: Server, log: Path, kills: int, seed: int) -> list[int]:
    """Terminate `kills` workers one after the other, and return their exit codes."""
    task = Task(url=server.base_url, queue=QUEUE, log=str(log), kills=kills, seed=seed)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.system.jobs.drained_worker",
        msgspec.json.encode(task).decode(),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT}"},
        stdout=PIPE,
    )
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return [int(line) for line in out.split()]


async def feed(jobs: QueueManager, terminating: "asyncio.Future[Any]", seed: int) -> int:
    """Add jobs while workers are terminated, and return their number."""
    chance = random.Random(seed)
    count = 0
    while not terminating.done():
        more = chance.randint(1, MOST_JOBS)
        bulk = [{"name": "note", "data": n} for n in range(count, count + more)]
        await jobs.add_bulk(QUEUE, bulk)
        count += more
        await asyncio.wait([terminating], timeout=chance.uniform(0, 0.02))
    return count


async def drain_often(dsn: str, tmp_path: Path, *, kills: int) -> None:
    log = tmp_path / "ran"
    async with Server(dsn) as server, Queen(server.base_url) as queen:
        jobs = QueueManager(queen)

        @jobs.processor(QUEUE, attempts=1)
        async def note(job: Job[int]) -> None:
            await asyncio.to_thread(append, log, job.data)

        began = time.monotonic()
        await jobs.configure([QUEUE])
        shares = [kills // AT_ONCE + (at < kills % AT_ONCE) for at in range(AT_ONCE)]
        terminating = asyncio.gather(
            *(terminate(server, log, share, seed) for seed, share in enumerate(shares))
        )
        count = await feed(jobs, terminating, seed=kills)
        codes = [code for some in await terminating for code in some]
        seconds = time.monotonic() - began

        await jobs.start_workers(concurrency=10)

        async def is_done() -> bool:
            metrics = await jobs.get_queue_metrics(QUEUE)
            counts = (metrics.waiting, metrics.active, metrics.delayed, metrics.stalled)
            return counts == (0, 0, 0, 0)

        await until(is_done, seconds=120)
        found = [job async for job in jobs.list_jobs(QUEUE, status="failed")]
        failed = {int(msgspec.json.decode(job.data)): job.error for job in found}
        await jobs.shutdown()
    ran = {int(line) for line in log.read_text().split()}
    print(f"{kills} SIGTERMs in {seconds:.0f} s, {count} jobs, {len(failed)} failed")
    assert codes == [0] * kills
    assert {data: why for data, why in failed.items() if data not in ran} == {}
    assert failed == {}  # Each job had enough time to end.
    assert ran == set(range(count))


def append(log: Path, number: int) -> None:
    with log.open("a") as file:
        file.write(f"{number}\n")


@pytest.mark.nightly
@pytest.mark.timeout(180)
async def test_a_terminated_worker_releases_the_jobs_that_it_has_not_begun(
    dsn: str, tmp_path: Path
) -> None:
    await drain_often(dsn, tmp_path, kills=50)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_a_thousand_terminated_workers_release_the_jobs_that_they_have_not_begun(
    dsn: str, tmp_path: Path
) -> None:
    await drain_often(dsn, tmp_path, kills=1_000)
