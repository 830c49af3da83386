"""Pattern 6, event-driven: external events become jobs, which you can find by their tags."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from queen import Queen
from queen.jobs import Job, JobPriority, QueueManager

jobs = QueueManager(Queen.from_env())


async def event_bus() -> AsyncIterator[dict[str, Any]]:
    for n in range(3):
        yield {"type": "user.registered", "id": f"event-{n}", "data": {"user": n}}


@jobs.processor("user-events", name="handle-registration")
async def handle_registration(job: Job[dict[str, int]]) -> list[object]:
    return [job.correlation_id, job.data["user"]]


async def main() -> None:
    async with jobs.queen:
        handles = [
            await handle_registration.add(
                event["data"],
                priority=JobPriority.HIGH,
                unique=event["id"],  # A bus may deliver an event twice.
                correlation_id=event["id"],
                tags=["user-event", "registration"],
            )
            async for event in event_bus()
        ]
        await jobs.start_workers()
        results = [await handle.result(timeout="30s") for handle in handles]
        assert results == [["event-0", 0], ["event-1", 1], ["event-2", 2]]
        tagged = [job async for job in jobs.list_jobs("user-events", tag="registration")]
        assert {job.id for job in tagged} == {"event-0", "event-1", "event-2"}
        print(results)
        await jobs.shutdown()


asyncio.run(main())
