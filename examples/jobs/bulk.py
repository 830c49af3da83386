"""Add thousands of jobs in one call, each with its own options if needed."""

import asyncio

from queen import Queen
from queen.jobs import Job, JobPriority, QueueManager

jobs = QueueManager(Queen.from_env())
seen: set[int] = set()


@jobs.processor("user-processing", name="process-user")
async def process_user(job: Job[dict[str, int]]) -> None:
    seen.add(job.data["userId"])


async def main() -> None:
    async with jobs.queen:
        handles = await jobs.add_bulk(
            "user-processing",
            [
                {
                    "name": "process-user",
                    "data": {"userId": 1},
                    "options": {"priority": JobPriority.HIGH},
                },
                *({"name": "process-user", "data": {"userId": n}} for n in range(2, 3_001)),
            ],
        )
        worker = await jobs.start_workers(concurrency=20)
        await asyncio.gather(handles[0].result(timeout="30s"), handles[-1].result(timeout="30s"))
        await jobs.shutdown()
        assert seen == set(range(1, 3_001))
        print(worker.stats)


asyncio.run(main())
