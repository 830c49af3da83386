"""Pattern 5, recurring jobs: the server adds one at each tick, for any number of workers."""

import asyncio
from datetime import datetime

from queen import Queen
from queen.jobs import Job, QueueManager

jobs = QueueManager(Queen.from_env())
ticks: list[datetime] = []
enough = asyncio.Event()


@jobs.cron("0 0 * * *", tz="Europe/Rome", missed="once", queue="maintenance")
async def daily_cleanup(job: Job[None]) -> None:
    print(f"it is midnight in Rome: {job.tick}")


@jobs.every("1s", queue="maintenance", attempts=2)
async def heartbeat(job: Job[None]) -> None:
    assert job.tick is not None
    ticks.append(job.tick)
    if len(ticks) == 3:
        enough.set()


async def main() -> None:
    async with jobs.queen:
        for _ in range(2):  # With several workers, each tick is still one job.
            await jobs.start_workers()
        schedules = {each.name: each async for each in jobs.queen.admin.schedules()}
        assert schedules["maintenance.daily_cleanup"].time_zone == "Europe/Rome"

        async with asyncio.timeout(40):
            await enough.wait()
        assert len(set(ticks)) == len(ticks)
        print("ticks:", *(f"{tick:%H:%M:%S}" for tick in ticks))

        for name in ("maintenance.daily_cleanup", "maintenance.heartbeat"):
            await jobs.queen.admin.delete_schedule(name)
        await jobs.shutdown()


asyncio.run(main())
