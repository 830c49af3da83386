"""Recurring jobs: one per tick, with all features of a job."""

import pytest

from queen import Queen, errors
from queen.jobs import Backoff, Job, QueueManager
from queen.jobs.schedules import cron_of
from tests.jobs.waiting import until


@pytest.mark.parametrize(
    ("interval", "expression"),
    [
        ("1s", "*/1 * * * * *"),
        ("30s", "*/30 * * * * *"),
        (60, "0 */1 * * * *"),
        ("15m", "0 */15 * * * *"),
        ("1h", "0 0 */1 * * *"),
        ("6h", "0 0 */6 * * *"),
        ("1d", "0 0 0 * * *"),
    ],
)
def test_an_interval_is_a_cron_expression(interval: float | str, expression: str) -> None:
    assert cron_of(interval) == expression


@pytest.mark.parametrize("interval", ["7s", "90s", "5h", "2d", "500ms"])
def test_an_interval_with_uneven_ticks_is_rejected(interval: str) -> None:
    with pytest.raises(errors.BadRequest, match="does not divide"):
        cron_of(interval)


async def test_each_tick_is_one_job_for_all_workers(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    seen: list[tuple[object, int, int]] = []

    @jobs.every("1s", queue=queue, data=7, attempts=2, backoff=Backoff("fixed", delay=0))
    async def beat(job: Job[int]) -> None:
        seen.append((job.tick, job.attempt, job.data))
        if job.attempt == 1:
            raise ConnectionError("not the first time")

    for _ in range(2):
        await jobs.start_workers()
    await until(lambda: len({tick for tick, *_ in seen}) >= 2, seconds=40)
    await queen.admin.pause_schedule(f"{queue}.beat")
    await until(lambda: len(seen) == 2 * len({tick for tick, *_ in seen}), seconds=20)

    assert {attempt for _, attempt, _ in seen} == {1, 2}
    assert len(set(seen)) == len(seen)
    assert {data for *_, data in seen} == {7}
    await queen.admin.delete_schedule(f"{queue}.beat")


async def test_a_schedule_has_the_options_from_the_code(
    jobs: QueueManager, queen: Queen, queue: str
) -> None:
    @jobs.cron("0 0 * * *", queue=queue, tz="Europe/Rome", missed="skip", name="clean-up")
    async def clean(job: Job[None]) -> None: ...

    @jobs.cron("0 1 * * *", queue=f"{queue}-other")
    async def other(job: Job[None]) -> None: ...

    await jobs.start_workers(queues=[queue])

    schedule = await queen.admin.schedule(f"{queue}.clean-up")
    assert (schedule.cron, schedule.time_zone, schedule.missed) == (
        "0 0 * * *",
        "Europe/Rome",
        "skip",
    )
    with pytest.raises(errors.NotFound):
        await queen.admin.schedule(f"{queue}-other.other")
    assert clean.name == "clean-up"
    assert other.queue == f"{queue}-other"
    await queen.admin.delete_schedule(f"{queue}.clean-up")
