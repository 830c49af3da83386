"""Pattern 3, priority queue: user requests before analytics, in one queue."""

import asyncio

from queen import Queen
from queen.jobs import Job, JobPriority, QueueManager

jobs = QueueManager(Queen.from_env())
order: list[str] = []


@jobs.processor("mixed-queue", name="user-request")
async def user_request(job: Job[int]) -> None:
    order.append("user")


@jobs.processor("mixed-queue", name="analytics")
async def analytics(job: Job[int]) -> None:
    order.append("analytics")


async def main() -> None:
    async with jobs.queen:
        background = [await analytics.add(n, priority=JobPriority.BACKGROUND) for n in range(20)]
        urgent = [await user_request.add(n, priority=JobPriority.HIGH) for n in range(20)]
        await jobs.start_workers(concurrency=1)
        for handle in (*urgent, *background):
            await handle.result(timeout="30s")
        mean = {
            name: sum(i for i, each in enumerate(order) if each == name) / 20 for name in set(order)
        }
        assert mean["user"] < mean["analytics"]
        assert order.index("analytics") < len(order)  # Low priorities get their turn.
        print(mean)
        await jobs.shutdown()


asyncio.run(main())
