"""Failed jobs: retried after their backoff, then kept as dead letters."""

import asyncio
from typing import Any

import pytest

from queen import Queen, errors
from queen.jobs import Backoff, DeadLetter, Job, QueueManager, Retry
from tests.jobs.waiting import until

QUICK = Backoff("fixed", delay=0.01)


async def test_a_job_is_retried_until_it_succeeds(jobs: QueueManager, queue: str) -> None:
    attempts: list[int] = []

    @jobs.processor(queue, attempts=5, backoff=QUICK)
    async def flaky(job: Job[None]) -> str:
        attempts.append(job.attempt)
        if job.attempt < 3:
            raise RuntimeError("not yet")
        return "done"

    worker = await jobs.start_workers()
    handle = await flaky.add(None)

    assert await handle.result(timeout=10) == "done"
    assert attempts == [1, 2, 3]
    assert (worker.stats.retried, worker.stats.completed) == (2, 1)


async def test_a_job_that_fails_permanently_is_a_dead_letter_with_its_stack(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    @jobs.processor(queue, attempts=2, backoff=QUICK)
    async def broken(job: Job[None]) -> None:
        raise ValueError("no such address")

    await jobs.start_workers()
    handle = await broken.add(None)

    with pytest.raises(errors.JobFailed, match="ValueError: no such address"):
        await handle.result(timeout=10)

    (letter,) = [each async for each in queen.admin.dead_letters(queue=queue)]
    assert letter.attempts == 2
    assert "in broken" in (letter.error_message or "")
    assert (await handle.info()).status == "failed"


async def test_a_failed_job_can_be_retried(jobs: QueueManager, queue: str) -> None:
    is_well = False

    @jobs.processor(queue, attempts=1)
    async def sick(job: Job[None]) -> str:
        if not is_well:
            raise RuntimeError
        return "well"

    await jobs.start_workers()
    handle = await sick.add(None)
    with pytest.raises(errors.JobFailed):
        await handle.result(timeout=10)
    is_well = True

    await handle.retry()

    assert await handle.result(timeout=10) == "well"


async def test_a_job_can_set_its_own_attempts_and_backoff(jobs: QueueManager, queue: str) -> None:
    attempts: list[int] = []

    @jobs.processor(queue, attempts=1, backoff=Backoff("fixed", delay="1h"))
    async def broken(job: Job[None]) -> None:
        attempts.append(job.attempt)
        raise RuntimeError

    await jobs.start_workers()
    handle = await broken.add(None, attempts=3, backoff=QUICK)

    with pytest.raises(errors.JobFailed):
        await handle.result(timeout=10)
    assert attempts == [1, 2, 3]


async def test_a_backoff_may_be_a_function(jobs: QueueManager, queue: str) -> None:
    asked: list[int] = []

    def backoff(attempt: int) -> float:
        asked.append(attempt)
        return 0.01

    @jobs.processor(queue, attempts=3, backoff=backoff)
    async def broken(job: Job[None]) -> None:
        raise RuntimeError

    await jobs.start_workers()
    with pytest.raises(errors.JobFailed):
        await (await broken.add(None)).result(timeout=10)

    assert asked == [1, 2]


def test_a_backoff_grows_up_to_its_maximum() -> None:
    exact = Backoff("exponential", delay="2s", max="10s", jitter=0)
    assert [exact(attempt) for attempt in (1, 2, 3, 4, 1000)] == [2, 4, 8, 10, 10]
    jittered = Backoff("exponential", delay=2, max=10, jitter=0.5)
    found = [jittered(3) for _ in range(100)]
    assert all(4 <= each <= 8 for each in found)
    assert len(set(found)) > 50


async def test_a_processor_can_request_another_attempt_or_none(
    jobs: QueueManager, queue: str
) -> None:
    seen: list[int] = []

    @jobs.processor(queue, attempts=1)
    async def busy(job: Job[None]) -> str:
        seen.append(job.attempt)
        if len(seen) < 3:
            raise Retry("busy", delay=0.01)
        return "done"

    @jobs.processor(queue, attempts=10)
    async def hopeless(job: Job[None]) -> None:
        raise DeadLetter("never")

    await jobs.start_workers()

    assert await (await busy.add(None)).result(timeout=10) == "done"
    assert seen == [1, 1, 1]
    handle = await hopeless.add(None)
    with pytest.raises(errors.JobFailed, match="never"):
        await handle.result(timeout=10)
    assert (await handle.info()).attempt == 1


@pytest.mark.parametrize("delay", ["soon", 5000])
async def test_an_invalid_delay_fails_only_the_job(
    jobs: QueueManager,
    queue: str,
    delay: Any,  # noqa: ANN401 - any input
) -> None:
    @jobs.processor(queue, attempts=1)
    async def later(job: Job[None]) -> None:
        raise Retry(delay=delay)

    @jobs.processor(queue)
    async def work(job: Job[None]) -> str:
        return "done"

    await jobs.start_workers()

    with pytest.raises(errors.JobFailed):
        await (await later.add(None)).result(timeout=10)
    assert await (await work.add(None)).result(timeout=10) == "done"


async def test_a_job_has_a_timeout(jobs: QueueManager, queue: str) -> None:
    ends: list[str] = []

    @jobs.processor(queue, attempts=1, timeout=0.1)
    async def slow(job: Job[None]) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    await jobs.start_workers()

    with pytest.raises(errors.JobFailed, match="TimeoutError"):
        await (await slow.add(None)).result(timeout=10)
    assert ends == ["cancelled"]


async def test_data_of_a_wrong_type_is_dead_lettered(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    @jobs.processor(queue, attempts=10)
    async def double(job: Job[int]) -> int:
        return 2 * job.data

    await jobs.start_workers()
    handle = await jobs.add_job(queue, "double", "two")
    with pytest.raises(errors.JobFailed, match="Expected `int`"):
        await handle.result(timeout=10)
    # A message that is not a job.
    (pushed,) = await queen.queue(queue).push([{"data": [1], "priority": 5}])
    with pytest.raises(errors.JobFailed, match="not a job"):
        await jobs.job(queue, pushed.transaction_id or "").result(timeout=10)


async def test_a_job_without_a_processor_waits_for_one(jobs: QueueManager, queue: str) -> None:
    @jobs.processor(queue)
    async def known(job: Job[None]) -> None: ...

    await jobs.start_workers()
    handle = await jobs.add_job(queue, "unknown")

    async with asyncio.timeout(10):
        while (info := await handle.info()).next_attempt_at is None:  # noqa: ASYNC110 - the worker changes it
            await asyncio.sleep(0.01)

    assert (info.status, known.name) == ("waiting", "known")
    assert "no processor" in (info.error or "")


async def test_a_dead_letter_processor_runs_for_each_failed_job(
    jobs: QueueManager, queue: str
) -> None:
    seen: list[dict[str, Any]] = []

    async def pay(job: Job[dict[str, int]]) -> None:
        raise ValueError("no account")

    async def failed(job: Job[dict[str, Any]]) -> None:
        seen.append(job.data)

    async def fail_too(job: Job[None]) -> None:
        raise ValueError("a report that fails is not reported")

    jobs.register_processor(queue, pay, attempts=2, backoff=Backoff("fixed", delay=0.01))
    jobs.register_processor("dead-letter-queue", failed)
    jobs.register_processor("dead-letter-queue", fail_too, name="broken", attempts=1)
    await jobs.start_workers()
    handle = await jobs.add_job(queue, "pay", {"amount": 7})
    broken = await jobs.add_job(queue, "broken", None, attempts=1)
    await until(lambda: len(seen) == 1)

    assert await handle.status() == "failed"  # It is also a dead letter of its own queue.
    assert seen[0].pop("failureReason").splitlines()[-1] == "ValueError: no account"
    assert seen == [
        {
            "originalQueue": queue,
            "originalName": "pay",
            "originalId": handle.id,
            "originalData": {"amount": 7},
            "attempts": 2,
        }
    ]
    await broken.wait(timeout=10)
    reports = [each async for each in jobs.list_jobs("dead-letter-queue", name="broken")]
    assert len(reports) == 1


async def test_a_failure_that_cannot_be_reported_is_still_dead_lettered(
    jobs: QueueManager, queue: str
) -> None:
    async def pay(job: Job[None]) -> None:
        raise ValueError("no account")

    async def never(job: Job[None]) -> None:
        raise AssertionError

    jobs.register_queue("dead-letter-queue", options={"maxPayloadBytes": 10})
    jobs.register_processor(queue, pay, attempts=1)
    jobs.register_processor("dead-letter-queue", never)
    await jobs.start_workers(queues=[queue])
    handle = await jobs.add_job(queue, "pay")
    assert (await handle.wait(timeout=10)).status == "failed"
