"""Add jobs: by name, by processor, in bulk, with a delay, unique."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from pydantic import BaseModel

from queen import Queen, errors
from queen.jobs import Backoff, Job, JobPriority, QueueManager


class Welcome(msgspec.Struct):
    to: str
    subject: str = "Welcome"


class Sent(msgspec.Struct):
    to: str
    length: int


class Model(BaseModel):
    n: int


def own(job: Job[int]) -> str:
    return f"own {job.data}"


async def test_a_processor_gets_its_data_in_the_annotated_type(
    jobs: QueueManager, queue: str
) -> None:
    @jobs.processor(queue)
    async def send_welcome(job: Job[Welcome]) -> Sent:
        return Sent(to=job.data.to, length=len(job.data.subject))

    await jobs.start_workers()
    handle = await send_welcome.add(Welcome(to="a@b.c"), priority=JobPriority.HIGH)

    result = await handle.result(timeout="10s")

    assert result == Sent(to="a@b.c", length=7)
    info = await handle.info()
    assert (info.name, info.priority, info.status) == ("send_welcome", 2, "completed")


async def test_pydantic_models_are_data_and_results(jobs: QueueManager, queue: str) -> None:
    @jobs.processor(queue)
    async def double(job: Job[Model]) -> Model:
        return Model(n=2 * job.data.n)

    await jobs.start_workers()

    assert await (await double.add(Model(n=4))).result(timeout=10) == Model(n=8)


async def test_a_processor_stays_a_function(jobs: QueueManager, queue: str) -> None:
    @jobs.processor(queue, name="double-it")
    def double(job: Job[int]) -> int:
        """Twice as much."""
        return 2 * job.data

    await jobs.start_workers()
    handle = await jobs.add_job(queue, "double-it", 21)

    assert await handle.result(timeout=10) == 42
    assert (double.__name__, double.__doc__, double.name) == (
        "double",
        "Twice as much.",
        "double-it",
    )


async def test_a_processor_without_a_name_runs_every_job_of_its_queue(
    jobs: QueueManager, queue: str
) -> None:
    def process(job: Job) -> str:
        return f"{job.name} {job.data}"

    jobs.register_processor(queue, process)
    jobs.register_processor(queue, own, name="own")
    await jobs.start_workers()
    handles = await jobs.add_bulk(queue, [{"name": name, "data": 1} for name in ("a", "b", "own")])

    assert [await handle.result(timeout=10) for handle in handles] == ["a 1", "b 1", "own 1"]


async def test_many_jobs_are_added_and_each_runs_once(jobs: QueueManager, queue: str) -> None:
    seen: list[int] = []

    @jobs.processor(queue)
    async def count(job: Job[int]) -> None:
        seen.append(job.data)

    handles = await jobs.add_bulk(queue, [{"name": "count", "data": n} for n in range(6_000)])
    worker = await jobs.start_workers()
    assert len({handle.id for handle in handles}) == 6_000
    await handles[-1].result(timeout=20)
    await worker.drain()

    assert sorted(seen) == list(range(6_000))
    assert worker.stats.completed == 6_000


async def test_a_job_waits_for_its_time(jobs: QueueManager, queue: str) -> None:
    began: list[datetime] = []

    @jobs.processor(queue)
    async def note(job: Job[None]) -> None:
        began.append(datetime.now(UTC))

    await jobs.start_workers()
    due = datetime.now(UTC) + timedelta(seconds=1)
    handle = await note.add(None, scheduled_at=due)
    later = await note.add(None, delay="1h")

    assert await handle.status() == "scheduled"
    await handle.result(timeout=15)

    assert began[0] >= due - timedelta(milliseconds=100)
    assert await later.cancel() == "scheduled"
    with pytest.raises(errors.JobCancelled):
        await later.result(timeout=5)


async def test_a_unique_job_is_added_once(jobs: QueueManager, queue: str) -> None:
    first = await jobs.add_job(queue, "n", 1, unique="daily")
    second = await jobs.add_job(queue, "n", 2, unique="daily")

    assert (first.is_duplicate, second.is_duplicate) == (False, True)
    assert first.id == second.id
    assert msgspec.json.decode((await second.info()).data) == 1


async def test_attributes_of_a_job_reach_its_processor(jobs: QueueManager, queue: str) -> None:
    @jobs.processor(queue)
    async def tell(job: Job[None]) -> list[object]:
        return [job.correlation_id, job.tags, job.metadata["by"], job.key, job.attempt]

    await jobs.start_workers()
    handle = await tell.add(
        None, correlation_id="c", tags=["a", "b"], metadata={"by": "me"}, key="tenant"
    )

    assert await handle.result(timeout=10) == ["c", ["a", "b"], "me", "tenant", 1]
    (found,) = [job async for job in jobs.list_jobs(queue, tag="b")]
    assert found.id == handle.id


async def test_a_queue_has_default_options_for_its_jobs(jobs: QueueManager, queue: str) -> None:
    jobs.register_queue(queue, default_job_options={"attempts": 7, "tags": ["x"]})

    first = await jobs.add_job(queue, "n")
    second = await jobs.add_job(queue, "n", attempts=2)

    assert (await first.info()).attempts == 7
    assert (await second.info()).attempts == 2
    assert (await second.info()).metadata == {"tags": ["x"]}


async def test_a_handle_has_the_default_key_of_its_queue(jobs: QueueManager, queue: str) -> None:
    jobs.register_queue(queue, default_job_options={"key": "tenant"})

    handle = await jobs.add_job(queue, "n", unique="once")

    assert (await handle.info()).key == "tenant"


async def test_an_ordered_queue_accepts_jobs_only_after_its_registration(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    await queen.queue(queue).create()
    with pytest.raises(errors.InvalidItem, match="in order"):
        await jobs.add_job(queue, "n")

    jobs.register_queue(queue)

    assert await (await jobs.add_job(queue, "n")).status() == "waiting"


async def test_an_invalid_job_is_rejected_before_it_is_sent(jobs: QueueManager, queue: str) -> None:
    with pytest.raises(errors.BadRequest, match="no option colour"):
        await jobs.add_job(queue, "n", colour="red")  # pyright: ignore[reportCallIssue]
    with pytest.raises(errors.BadRequest, match="time zone"):
        await jobs.add_job(queue, "n", scheduled_at=datetime(2030, 1, 1))
    with pytest.raises(errors.BadRequest, match="at least one attempt"):
        await jobs.add_job(queue, "n", attempts=0)
    with pytest.raises(errors.BadRequest, match="duration"):
        Backoff("fixed", delay="soon")
    with pytest.raises(errors.InvalidItem):
        await jobs.add_job(queue, "n", object())
    jobs.register_processor(queue, own, name="n")
    with pytest.raises(errors.BadRequest, match="already"):
        jobs.register_processor(queue, own, name="n")
