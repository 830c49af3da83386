"""Pattern 1, fan-out: one input, many jobs, several workers."""

import asyncio

from queen import Queen
from queen.jobs import Job, QueueManager

jobs = QueueManager(Queen.from_env())


@jobs.processor("fan-out", name="process-user")
async def process_user(job: Job[dict[str, int]]) -> int:
    return job.data["userId"] ** 2


async def main() -> None:
    async with jobs.queen:
        user_ids = range(1, 201)
        handles = await jobs.add_bulk(
            "fan-out", [{"name": "process-user", "data": {"userId": each}} for each in user_ids]
        )
        workers = [await jobs.start_workers(concurrency=5) for _ in range(3)]
        results = [await handle.result(timeout="30s") for handle in handles]
        assert results == [each**2 for each in user_ids]
        await jobs.shutdown()
        assert sum(worker.stats.completed for worker in workers) == 200
        print([worker.stats.completed for worker in workers])


asyncio.run(main())
