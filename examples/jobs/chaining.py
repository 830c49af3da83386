"""Jobs in a chain: pushed with the previous result, in the transaction that acknowledges it."""

import asyncio

from queen import Queen
from queen.jobs import Job, JobPriority, QueueManager

jobs = QueueManager(Queen.from_env())
ends: asyncio.Queue[tuple[str, object]] = asyncio.Queue()


@jobs.processor("data-ingestion", name="ingest-data")
async def ingest(job: Job[dict[str, str]]) -> dict[str, int]:
    return {"rows": len(job.data["source"])}


@jobs.processor("chained-processing", name="process-data")
async def process(job: Job[dict[str, str]]) -> None:
    await ends.put((job.data["format"], job.parent_result))


@jobs.processor("notifications", name="notify-completion")
async def notify(job: Job[dict[str, str]]) -> None:
    await ends.put((job.data["type"], job.parent_result))


async def main() -> None:
    async with jobs.queen:
        await jobs.start_workers()
        await jobs.add_job(
            "data-ingestion",
            "ingest-data",
            {"source": "s3://bucket/data.csv"},
            priority=JobPriority.HIGH,
            chain_to=[process.s(format="csv"), notify.s(type="ingestion-complete")],
        )
        async with asyncio.timeout(30):
            found = dict([await ends.get(), await ends.get()])
        assert found == {"csv": {"rows": 20}, "ingestion-complete": {"rows": 20}}
        print(found)
        await jobs.shutdown()


asyncio.run(main())
