"""Jobs for later: at a time, after a delay, and a cancelled one."""

import asyncio
from datetime import UTC, datetime, timedelta

from queen import Queen
from queen.jobs import Job, JobCancelled, QueueManager

jobs = QueueManager(Queen.from_env())


@jobs.processor("data-processing")
async def generate_report(job: Job[dict[str, str]]) -> str:
    return f"{job.data['reportType']} at {datetime.now(UTC).isoformat()}"


async def main() -> None:
    async with jobs.queen:
        await jobs.start_workers()
        due = datetime.now(UTC) + timedelta(seconds=1)
        monthly = await generate_report.add({"reportType": "monthly"}, scheduled_at=due)
        yearly = await generate_report.add({"reportType": "yearly"}, delay="365d")
        assert await monthly.status() == "scheduled"

        report = await monthly.result(timeout="30s")
        assert datetime.fromisoformat(report.partition(" at ")[2]) >= due - timedelta(seconds=0.1)
        print(report)

        await yearly.cancel()
        try:
            await yearly.result(timeout="5s")
        except JobCancelled as error:
            print(error)
        else:
            raise AssertionError("it was cancelled")
        await jobs.shutdown()


asyncio.run(main())
