"""Chained jobs and pushes are part of a job's ack: applied once and completely, or not at all."""

import asyncio

import pytest

from queen import Queen, errors
from queen.jobs import Backoff, Job, QueueManager
from queen.wire.jobs import Link
from tests.jobs.waiting import until


async def test_children_follow_their_parent_with_its_result(jobs: QueueManager, queue: str) -> None:
    seen: list[object] = []

    @jobs.processor(queue)
    async def ingest(job: Job[str]) -> dict[str, int]:
        return {"rows": len(job.data)}

    @jobs.processor(queue)
    async def process(job: Job[dict[str, int]]) -> int:
        seen.append((job.data, job.parent and job.parent.name))
        return job.data["rows"] * 2

    @jobs.processor(queue)
    async def notify(job: Job[dict[str, str]]) -> None:
        seen.append((job.data, job.parent_result))

    await jobs.start_workers()
    await ingest.add("abc", chain_to=[process.link(chain_to=[notify.s(kind="all")])])
    await until(lambda: len(seen) == 2)

    assert seen == [({"rows": 3}, "ingest"), ({"kind": "all"}, 6)]


async def test_a_chain_with_names_of_other_job_queues_runs(jobs: QueueManager, queue: str) -> None:
    seen: list[object] = []

    async def follow(job: Job[dict[str, str]]) -> None:
        seen.append((job.queue, job.name, job.data))

    async def ingest(job: Job[dict[str, str]]) -> None:
        pass

    processing, notices = f"{queue}-processing", f"{queue}-notices"
    jobs.register_processor(queue, ingest)
    jobs.register_processor(processing, follow)
    jobs.register_processor(notices, follow)
    await jobs.start_workers()
    chain = [
        {"queueName": processing, "jobName": "process-data", "data": {"format": "csv"}},
        {"queueName": notices, "jobName": "notify", "data": {"type": "complete"}},
    ]
    await jobs.add_job(queue, "ingest-data", {"source": "data.csv"}, chain_to=chain)
    await jobs.add_bulk(queue, [{"name": "again", "options": {"chainTo": chain[:1]}}])
    await until(lambda: len(seen) == 3)

    csv = (processing, "process-data", {"format": "csv"})
    assert sorted(seen, key=str) == sorted(
        [csv, csv, (notices, "notify", {"type": "complete"})], key=str
    )


async def test_chained_jobs_may_use_missing_queues(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    """Their workers belong to another application and start later."""
    chained, pushed = f"{queue}-chained", f"{queue}-pushed"

    @jobs.processor(queue)
    async def ingest(job: Job[None]) -> str:
        job.transaction().add_job(pushed, "note", "pushed")
        return "chained"

    await jobs.start_workers()
    handle = await ingest.add(None, chain_to=[Link(queue=chained, name="note")])
    await handle.result(timeout=10)

    others, seen = QueueManager(queen), list[str]()

    async def note(job: Job[str]) -> None:
        seen.append(job.data)

    for each in (chained, pushed):
        others.register_processor(each, note, name="note")
    await others.start_workers()
    await until(lambda: len(seen) == 2)
    await others.shutdown()

    assert sorted(seen) == ["chained", "pushed"]


async def test_a_failed_parent_has_no_children(jobs: QueueManager, queue: str) -> None:
    seen: list[str] = []

    @jobs.processor(queue, attempts=2, backoff=Backoff("fixed", delay=0.01))
    async def parent(job: Job[None]) -> None:
        seen.append("parent")
        raise RuntimeError

    @jobs.processor(queue)
    async def child(job: Job[None]) -> None:
        seen.append("child")

    await jobs.start_workers()
    handle = await parent.add(None, chain_to=[child.s()])
    with pytest.raises(errors.JobFailed):
        await handle.result(timeout=10)

    assert seen == ["parent", "parent"]
    assert (await jobs.get_queue_metrics(queue)).waiting == 0


async def test_a_cancelled_job_pushes_no_messages(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()
    out = f"{queue}-out"

    @jobs.processor(queue)
    async def work(job: Job[None]) -> str:
        job.transaction().push(out, {"data": job.attempt})
        began.set()
        await goes_on.wait()
        return "done"

    worker = await jobs.start_workers()
    handle = await work.add(None)
    await began.wait()
    # The cancellation reaches the worker only after the job ends.
    await handle.cancel()
    goes_on.set()
    await until(lambda: worker.stats.lost + worker.stats.cancelled)

    with pytest.raises(errors.JobCancelled):
        await handle.result(timeout=5)
    assert await queen.queue(out).create()
    assert await queen.queue(out).pop() == []


async def test_a_jobs_pushes_are_visible_with_its_result(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    out = f"{queue}-out"

    @jobs.processor(queue, attempts=3, backoff=Backoff("fixed", delay=0.01))
    async def work(job: Job[None]) -> str:
        effects = job.transaction()
        effects.push(out, [{"data": job.attempt}], partition="p")
        effects.add_job(f"{queue}-next", "next", {"n": 1}, tags=["t"])
        if job.attempt == 1:
            raise RuntimeError("after the push")
        return "done"

    await jobs.configure([f"{queue}-next"])
    await jobs.start_workers()
    assert await (await work.add(None)).result(timeout=10) == "done"

    messages = await queen.queue(out).batch(10).pop()
    assert [message.data for message in messages] == [2]
    (following,) = [job async for job in jobs.list_jobs(f"{queue}-next")]
    assert (following.name, following.metadata) == ("next", {"tags": ["t"]})
