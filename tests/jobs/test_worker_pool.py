"""`WorkerManager`: a pool of real processes, scaled manually and by load."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queen import errors
from queen.jobs import QueueManager, WorkerManager
from tests.jobs.lines import lines
from tests.jobs.waiting import until
from tests.support.server import Server

APP = "tests.jobs.application:jobs"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(process: Server, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of the processes, which load the application for this test's queue."""
    path = tmp_path / "jobs.log"
    monkeypatch.setenv("QUEEN_BASE_URL", process.base_url)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    monkeypatch.setenv("JOBS_LOG", str(path))
    monkeypatch.setenv("JOBS_QUEUE", queue)
    monkeypatch.chdir(ROOT)
    monkeypatch.delitem(sys.modules, "tests.jobs.application", raising=False)
    return path


@pytest.fixture
async def workers(log: Path) -> AsyncIterator[WorkerManager]:
    """A manager for an idle machine, because other programs use the real one."""
    del log
    workers = WorkerManager(
        max_workers=3, scale_up_threshold=20, scale_down_threshold=5, cpu_threshold=1.0
    )
    yield workers
    await workers.shutdown(now=True)


async def test_a_pool_is_scaled_manually(
    workers: WorkerManager, jobs: QueueManager, queue: str, log: Path
) -> None:
    await workers.initialize_worker_pool(APP, concurrency=1)
    assert (workers.workers, len(workers.pids)) == (1, 1)
    first = workers.pids
    await workers.scale_workers(2)
    await jobs.add_bulk(queue, [{"name": "pause", "data": 0.5} for _ in range(2)])
    await until(lambda: len({line.pid for line in lines(log, "began")}) == 2)

    await workers.scale_workers(1)

    assert workers.pids == first
    await until(lambda: len(lines(log, "ended")) == 2)  # The process was drained.


async def test_draining_processes_are_stopped_with_the_others(
    workers: WorkerManager, jobs: QueueManager, queue: str, log: Path
) -> None:
    await workers.initialize_worker_pool(APP, workers=2, concurrency=1)
    await jobs.add_bulk(queue, [{"name": "pause", "data": 600} for _ in range(2)])
    await until(lambda: len(lines(log, "began")) == 2)
    await workers.scale_workers(1)

    async with asyncio.timeout(15):
        await workers.shutdown(now=True)

    assert len(lines(log, "cancelled")) == 2


async def test_an_uncounted_backlog_counts_as_large(
    workers: WorkerManager, jobs: QueueManager, queue: str
) -> None:
    await jobs.add_job(queue, "note", 0)
    await jobs.pause_queue(queue)
    await jobs.add_bulk(
        queue, [{"name": "note", "data": n, "options": {"key": f"k{n}"}} for n in range(10_001)]
    )
    await workers.initialize_worker_pool(APP)
    assert (await jobs.get_queue_metrics(queue)).waiting is None

    workers.start_auto_scaling("100ms")

    await until(lambda: workers.looks and workers.looks[-1].seen.backlog >= 10_000, seconds=30)


async def test_a_process_that_dies_is_restarted(workers: WorkerManager) -> None:
    await workers.initialize_worker_pool(APP)
    (pid,) = workers.pids
    os.kill(pid, signal.SIGKILL)
    await until(lambda: workers.pids and workers.pids != [pid])
    assert workers.workers == 1


@pytest.mark.parametrize(
    ("count", "most"),
    [
        (400, 3),
        pytest.param(10_000, 8, marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    ],
)
async def test_a_burst_scales_the_pool_to_its_maximum_and_back(
    jobs: QueueManager, queue: str, log: Path, count: int, most: int
) -> None:
    workers = WorkerManager(
        max_workers=most, scale_up_threshold=20, scale_down_threshold=5, cpu_threshold=1.0
    )
    await workers.initialize_worker_pool(APP, concurrency=4)
    workers.start_auto_scaling("500ms")
    try:
        await jobs.add_bulk(queue, [{"name": "pause", "data": 0.1} for _ in range(count)])
        await until(lambda: workers.workers == most, seconds=60)
        await until(lambda: len(lines(log, "ended")) == count, seconds=150)
        await until(lambda: workers.workers == 1, seconds=60)
    finally:
        await workers.shutdown(now=True)

    counts = [look.decision.workers for look in workers.looks]
    top = counts.index(most)
    assert counts[:top] == sorted(counts[:top])
    assert counts[top:] == sorted(counts[top:], reverse=True)
    assert len(lines(log, "began")) == count  # Each job ran once: removed processes were drained.


async def test_jobs_delayed_by_a_rate_limit_start_no_workers(
    workers: WorkerManager,
    jobs: QueueManager,
    queue: str,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JOBS_RATE", "5")
    await workers.initialize_worker_pool(APP)
    workers.start_auto_scaling("200ms")
    await jobs.add_bulk(queue, [{"name": "note", "data": n} for n in range(200)])
    await until(lambda: len(lines(log, "began")) > 10, seconds=30)

    assert {look.decision.workers for look in workers.looks} == {1}
    assert max(look.seen.backlog for look in workers.looks) > 100


async def test_invalid_pools_are_rejected_with_a_reason(workers: WorkerManager, queue: str) -> None:
    with pytest.raises(errors.BadRequest, match="call initialize_worker_pool first"):
        await workers.scale_workers(2)
    with pytest.raises(errors.BadRequest, match="module nowhere is neither"):
        await workers.initialize_worker_pool("nowhere:jobs")
    with pytest.raises(errors.BadRequest, match="no processor for queue other"):
        await workers.initialize_worker_pool(APP, queues=[queue, "other"])
    await workers.initialize_worker_pool(APP, queues=[queue])
    for count in (0, -1):
        with pytest.raises(errors.BadRequest, match="at least one worker"):
            await workers.scale_workers(count)
