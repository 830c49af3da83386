"""Pattern 4, rate-limited API calls: the server enforces the rate for all workers together."""

import asyncio
import time

from queen import Queen
from queen.jobs import Job, QueueManager, Rate

jobs = QueueManager(Queen.from_env())
jobs.register_queue("external-api", rate_limit=Rate(max=10, duration="1s"))
calls: list[float] = []


@jobs.processor("external-api", name="call")
async def call(job: Job[dict[str, str]]) -> str:
    calls.append(time.monotonic())
    return f"https://api.example.com/{job.data['endpoint']}"


async def main() -> None:
    async with jobs.queen:
        handles = await jobs.add_bulk(
            "external-api", [{"name": "call", "data": {"endpoint": str(n)}} for n in range(25)]
        )
        for _ in range(2):
            await jobs.start_workers()
        results = [await handle.result(timeout="30s") for handle in handles]
        assert results[7] == "https://api.example.com/7"
        for first, eleventh in zip(calls, calls[10:], strict=False):
            # Jobs are delivered at this rate, but may arrive closer together.
            assert eleventh - first > 0.8
        print(f"{len(calls)} calls in {calls[-1] - calls[0]:.1f} s")
        await jobs.shutdown()


asyncio.run(main())
