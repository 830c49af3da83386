"""Five priorities: urgent jobs run first, and the others still get their turn."""

import asyncio

from queen import Queen
from queen.jobs import Job, JobPriority, QueueManager

jobs = QueueManager(Queen.from_env())
order: list[str] = []


@jobs.processor("levels")
async def note(job: Job[None]) -> None:
    order.append(job.priority.name)


async def main() -> None:
    async with jobs.queen:
        # The least urgent are added first.
        handles = [await note.add(None, priority=priority) for priority in reversed(JobPriority)]
        await jobs.start_workers(concurrency=1)
        for handle in handles:
            await handle.result(timeout="30s")
        assert order[0] == "CRITICAL"
        assert sorted(order) == sorted(each.name for each in JobPriority)
        print(order)
        await jobs.shutdown()


asyncio.run(main())
