"""Running jobs: threads, processes, progress, cancellation, leases, draining."""

import asyncio
import os
import re
import sys
import threading
from pathlib import Path

import pytest

from queen import Queen, errors
from queen.jobs import Job, QueueManager, Rate, Worker
from queen.wire.job_queues import RunningJobs
from tests.jobs import processors
from tests.jobs.waiting import until
from tests.support.server import Server


async def test_a_sync_function_runs_in_a_thread(jobs: QueueManager, queue: str) -> None:
    together = threading.Barrier(3, timeout=10)

    @jobs.processor(queue)
    def wait(job: Job[int]) -> str:
        together.wait()
        job.report_progress(job.data)
        return threading.current_thread().name

    await jobs.start_workers(concurrency=3)
    handles = [await wait.add(n) for n in range(3)]

    names = {await handle.result(timeout=10) for handle in handles}
    assert len(names) == 3
    assert await handles[2].progress() == 2


async def test_each_queue_has_its_own_threads(jobs: QueueManager, queue: str) -> None:
    together = threading.Barrier(2, timeout=10)

    def wait(job: Job[None]) -> str:
        together.wait()
        return "done"

    queues = [queue, f"{queue}-other"]
    for each in queues:
        jobs.register_processor(each, wait, name="wait", attempts=1)
    await jobs.start_workers(concurrency=1)
    handles = [await jobs.add_job(each, "wait") for each in queues]

    assert [await handle.result(timeout=15) for handle in handles] == ["done", "done"]


async def test_a_thread_that_runs_after_its_timeout_does_not_block_others(
    jobs: QueueManager, queue: str
) -> None:
    told, ends = threading.Event(), threading.Event()

    @jobs.processor(queue, attempts=1, timeout=0.2)
    def endless(job: Job[None]) -> None:
        while not ends.wait(0.01):
            if job.is_cancelled:
                told.set()

    @jobs.processor(queue, attempts=1)
    def quick(job: Job[None]) -> str:
        return "done"

    await jobs.start_workers(concurrency=1)
    try:
        with pytest.raises(errors.JobFailed, match="TimeoutError"):
            await (await endless.add(None)).result(timeout=15)
        assert await (await quick.add(None)).result(timeout=15) == "done"
        assert told.wait(5)
    finally:
        ends.set()


async def test_a_process_that_runs_after_its_timeout_does_not_block_others(
    jobs: QueueManager, queue: str
) -> None:
    processors.register(jobs, queue)
    await jobs.start_workers(concurrency=1)

    with pytest.raises(errors.JobFailed, match="TimeoutError"):
        await (await jobs.add_job(queue, "sleep", 30, timeout=1, attempts=1)).result(timeout=20)

    assert (await (await jobs.add_job(queue, "cube", 2)).result(timeout=20))[0] == 8


async def test_a_process_that_would_lose_its_pushes_raises(jobs: QueueManager, queue: str) -> None:
    processors.register(jobs, queue)
    await jobs.start_workers(concurrency=1)

    handle = await jobs.add_job(queue, "follow")

    with pytest.raises(errors.JobFailed, match="no transaction"):
        await handle.result(timeout=30)


async def test_a_function_can_run_in_a_separate_process(jobs: QueueManager, queue: str) -> None:
    processors.register(jobs, queue)
    await jobs.start_workers(concurrency=2)

    first = await jobs.add_job(queue, "cube", 3)
    broken = await jobs.add_job(queue, "cube", -1)

    cubed, pid = await first.result(timeout=30)
    assert cubed == 27
    assert pid != os.getpid()
    with pytest.raises(errors.JobFailed, match="below nothing"):
        await broken.result(timeout=30)


async def test_a_process_that_dies_costs_one_attempt(jobs: QueueManager, queue: str) -> None:
    processors.register(jobs, queue)
    await jobs.start_workers(concurrency=2)

    handle = await jobs.add_job(queue, "die")

    assert await handle.result(timeout=40) == 2
    assert (await (await jobs.add_job(queue, "cube", 2)).result(timeout=40))[0] == 8


async def test_a_process_that_dies_does_not_affect_other_jobs(
    jobs: QueueManager, queue: str, tmp_path: Path
) -> None:
    processors.register(jobs, queue)
    await jobs.start_workers(concurrency=2)
    begun, goes_on = tmp_path / "begun", tmp_path / "goes-on"
    neighbour = await jobs.add_job(queue, "wait", [str(begun), str(goes_on)])
    await until(begun.exists)

    assert await (await jobs.add_job(queue, "die")).result(timeout=40) == 2
    goes_on.touch()

    assert await neighbour.result(timeout=40) == 1


async def test_sys_exit_fails_the_job_and_the_worker_continues(
    jobs: QueueManager, queue: str
) -> None:
    async def awaited(job: Job[None]) -> None:
        sys.exit(3)

    for name, function in {"awaited": awaited, "thread": processors.leave}.items():
        jobs.register_processor(queue, function, name=name, attempts=1)
    jobs.register_processor(queue, processors.leave, name="process", attempts=1, process=True)
    worker = await jobs.start_workers(concurrency=1)

    for name in ("awaited", "thread", "process"):
        with pytest.raises(errors.JobFailed, match="SystemExit: 3"):
            await (await jobs.add_job(queue, name)).result(timeout=40)
    assert worker.stats.failed == 3


async def test_progress_is_visible_while_a_job_runs(jobs: QueueManager, queue: str) -> None:
    goes_on = asyncio.Event()

    @jobs.processor(queue)
    async def work(job: Job[None]) -> None:
        await job.progress({"done": 1, "of": 2})
        await goes_on.wait()

    await jobs.start_workers()
    handle = await work.add(None)
    async with asyncio.timeout(10):
        while await handle.progress() is None:  # noqa: ASYNC110 - the worker changes it
            await asyncio.sleep(0.01)

    assert await handle.progress() == {"done": 1, "of": 2}
    assert await handle.status() == "active"
    goes_on.set()
    await handle.result(timeout=10)


async def test_a_running_job_is_cancelled(jobs: QueueManager, queue: str) -> None:
    began = asyncio.Event()
    ends: list[str] = []

    @jobs.processor(queue)
    async def endless(job: Job[int]) -> None:
        if job.data:
            return
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    worker = await jobs.start_workers(concurrency=1)
    handle = await endless.add(0)
    await began.wait()

    assert await handle.cancel() == "active"

    await until(lambda: ends)
    with pytest.raises(errors.JobCancelled):
        await handle.result(timeout=5)
    # The runner continues with the next one.
    await (await endless.add(1)).result(timeout=10)
    assert worker.stats.cancelled == 1


async def test_a_job_in_a_thread_sees_its_cancellation(jobs: QueueManager, queue: str) -> None:
    began, ended = threading.Event(), threading.Event()

    @jobs.processor(queue)
    def endless(job: Job[None]) -> None:
        began.set()
        for _ in range(600):
            if job.is_cancelled:
                ended.set()
                return
            threading.Event().wait(0.05)

    await jobs.start_workers()
    handle = await endless.add(None)
    await until(began.is_set)
    await handle.cancel()

    await until(ended.is_set)


async def test_a_lease_is_renewed_while_a_job_runs(jobs: QueueManager, queue: str) -> None:
    attempts: list[int] = []

    @jobs.processor(queue)
    async def slow(job: Job[None]) -> str:
        attempts.append(job.attempt)
        await asyncio.sleep(4)  # Longer than its lease, by the database's clock.
        return "done"

    worker = Worker(jobs, lease_seconds=3.0, renew_seconds=0.5)
    running = asyncio.create_task(worker.run())
    handle = await slow.add(None)

    assert await handle.result(timeout=30) == "done"
    assert attempts == [1]
    await worker.drain()
    await running


async def test_draining_finishes_running_jobs_and_releases_the_rest(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()
    done: list[int] = []

    @jobs.processor(queue)
    async def work(job: Job[int]) -> None:
        began.set()
        await goes_on.wait()
        done.append(job.data)

    worker = await jobs.start_workers(concurrency=1)
    handles = [await work.add(n) for n in range(3)]
    await began.wait()
    draining = asyncio.create_task(worker.drain())
    await asyncio.sleep(0)
    goes_on.set()
    await draining

    assert done == [0]
    assert await handles[0].status() == "completed"
    # Prefetched jobs are redelivered immediately without counting an attempt.
    rest = await queen.queue(queue).batch(10).partitions(10).wait(True).timeout_millis(5000).pop()
    assert all(message.attempt == 1 for message in rest)


async def test_draining_cancels_jobs_that_take_too_long(jobs: QueueManager, queue: str) -> None:
    began = asyncio.Event()

    @jobs.processor(queue)
    async def endless(job: Job[None]) -> None:
        began.set()
        await asyncio.sleep(60)

    worker = await jobs.start_workers(shutdown_timeout=0.1)
    handle = await endless.add(None)
    await began.wait()
    await worker.drain()

    info = await handle.info()
    assert info.status == "waiting"
    assert not info.attempt


async def test_a_stalled_job_without_attempts_left_is_not_run(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    seen: list[int] = []

    @jobs.processor(queue, attempts=1)
    async def work(job: Job[None]) -> None:
        seen.append(job.attempt)

    handle = await work.add(None)
    # A worker that stopped responding.
    (taken,) = await queen.queue(queue).lease(0.2).wait(True).timeout_millis(5000).pop()
    worker = await jobs.start_workers()

    with pytest.raises(errors.JobFailed, match="stalled"):
        await handle.result(timeout=15)
    assert seen == []
    assert worker.stats.stalled == 1
    assert taken.attempt == 1


async def test_a_rate_limit_applies_to_all_workers_together(jobs: QueueManager, queue: str) -> None:
    jobs.register_queue(queue, rate_limit=Rate(max=5, duration="10s"))
    done: list[int] = []

    @jobs.processor(queue)
    async def count(job: Job[int]) -> None:
        done.append(job.data)

    await jobs.add_bulk(queue, [{"name": "count", "data": n} for n in range(20)])
    await jobs.start_workers()
    await jobs.start_workers()
    await until(lambda: len(done) == 5)
    metrics = await jobs.get_queue_metrics(queue)

    assert len(done) == 5
    assert metrics.waiting == 15


async def test_a_concurrency_limit_counts_jobs(jobs: QueueManager, queue: str) -> None:
    jobs.register_queue(queue, concurrency_limit=2)
    running, most = 0, 0

    @jobs.processor(queue)
    async def work(job: Job[int]) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return job.data

    handles = await jobs.add_bulk(queue, [{"name": "work", "data": n} for n in range(10)])
    await jobs.start_workers()
    await jobs.start_workers()

    assert [await handle.result(timeout=20) for handle in handles] == list(range(10))
    assert most <= 2


async def test_a_concurrency_limit_set_on_the_server_counts_jobs(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    """Set in the queue's options: the workers' code does not have to contain it."""
    await queen.queue(queue).config({"ordered": False, "concurrencyLimit": 2}).create()
    running, most = 0, 0

    @jobs.processor(queue)
    async def work(job: Job[int]) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return job.data

    handles = await jobs.add_bulk(queue, [{"name": "work", "data": n} for n in range(10)])
    await jobs.start_workers()

    assert [await handle.result(timeout=20) for handle in handles] == list(range(10))
    assert most <= 2


async def test_a_queue_is_paused_resumed_and_cleaned(jobs: QueueManager, queue: str) -> None:
    @jobs.processor(queue, attempts=1)
    async def work(job: Job[int]) -> None:
        if job.data:
            raise RuntimeError

    await jobs.start_workers()
    await (await work.add(0)).result(timeout=10)
    await jobs.pause_queue(queue)
    handle = await work.add(0)
    assert (await jobs.get_queue_metrics(queue)).paused is True

    await jobs.resume_queue(queue)

    await handle.result(timeout=10)
    with pytest.raises(errors.JobFailed):
        await (await work.add(1)).result(timeout=10)
    assert (await jobs.get_queue_metrics(queue)).failed == 1
    assert await jobs.clean_queue(queue, grace=0, status="failed") == 1
    assert await jobs.clean_queue(queue, grace=0) >= 2
    assert queue in {each.queue for each in await jobs.get_all_metrics()}


async def test_a_successful_delivery_is_settled_whole_and_any_other_job_by_job(
    jobs: QueueManager, queue: str, process: Server
) -> None:
    @jobs.processor(queue, attempts=2, backoff=lambda _: 0.0)
    async def work(job: Job[int]) -> None:
        if job.data == 33 and job.attempt == 1:
            raise ValueError("not yet")

    async def settled_whole() -> int:
        # Workers use a stream.
        pattern = r'^queen_stream_operation_seconds_count{[^}]*operation="complete"[^}]*} (\d+)'
        text = (await process.get("/metrics")).body.decode()
        await process.hang_up()
        return sum(map(int, re.findall(pattern, text, re.M)))

    async def run(numbers: range) -> int:
        before = await settled_whole()
        await jobs.add_bulk(queue, [{"name": "work", "data": n} for n in numbers])
        worker = await jobs.start_workers()
        await until(lambda: worker.stats.completed == len(numbers))
        await jobs.shutdown()
        assert worker.stats.lost == 0
        metrics = await jobs.get_queue_metrics(queue)
        assert (metrics.waiting, metrics.active) == (0, 0)
        return await settled_whole() - before

    assert await run(range(50)) == 0
    assert await run(range(50, 100)) == 1


async def running(jobs: QueueManager) -> list[RunningJobs]:
    return [of_queue for worker in await jobs.get_workers() for of_queue in worker.queues]


async def test_finished_jobs_of_a_delivery_are_reported_while_the_rest_waits(
    jobs: QueueManager, queue: str
) -> None:
    goes_on = asyncio.Event()

    @jobs.processor(queue)
    async def work(job: Job[int]) -> None:
        if job.data == 20:
            await goes_on.wait()

    handles = await jobs.add_bulk(queue, [{"name": "work", "data": n} for n in range(40)])
    worker = await jobs.start_workers(concurrency=1)

    assert (await handles[19].wait(timeout=15)).status == "completed"
    assert (await handles[20].info()).status == "active"
    async with asyncio.timeout(15):
        while not any(each.queue == queue and each.running for each in await running(jobs)):  # noqa: ASYNC110 - the worker changes it
            await asyncio.sleep(0.05)
    goes_on.set()
    assert (await handles[39].wait(timeout=15)).status == "completed"
    assert (worker.stats.completed, worker.stats.lost) == (40, 0)
