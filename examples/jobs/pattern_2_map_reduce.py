"""Pattern 2, map and reduce: one job per chunk, and a job that adds up their results."""

import asyncio

from queen import Queen
from queen.jobs import Job, QueueManager, Workflow

jobs = QueueManager(Queen.from_env())
reduced: list[list[int]] = []


@jobs.processor("map-processing", name="split")
async def split(job: Job[list[int]]) -> list[list[int]]:
    return [job.data[start : start + 100] for start in range(0, len(job.data), 100)]


@jobs.processor("map-processing", name="map-process")
async def add_up(job: Job[list[int]]) -> int:
    return sum(job.data)


@jobs.processor("reduce-processing", name="reduce-results")
async def total(job: Job[None]) -> int:
    assert job.workflow is not None
    sums: list[int] = job.workflow.result_of("sums")
    reduced.append(sums)
    return sum(sums)


async def main() -> None:
    flow = (
        Workflow(name="map-reduce")
        .step("chunks", "map-processing", "split", list(range(1_000)))
        # One job per item of the result of `chunks`. The step's result is the list of theirs.
        .map("sums", "map-processing", "map-process", over="chunks")
        .step("total", "reduce-processing", "reduce-results", after=["sums"])
    )
    async with jobs.queen:
        await jobs.start_workers()
        handle = await jobs.execute_workflow(flow)

        result = await handle.result(timeout="30s")

        assert result == {"total": sum(range(1_000))}
        # It ran once, with all results in the order of the chunks.
        assert reduced == [[sum(range(start, start + 100)) for start in range(0, 1_000, 100)]]
        print(len(await handle.parts("sums")), "parts, total", result["total"])
        await jobs.shutdown()


asyncio.run(main())
