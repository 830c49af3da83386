"""Pattern 2, map and reduce: a job for each chunk, and one that sums up after the last of them."""

import asyncio

from worker_loop import working

from queen import Queen
from queen.jobs import Workflow, execute_workflow
from queen.wire.workflows import WorkflowPlace

reduced: list[list[int]] = []


def split(data: list[int], place: WorkflowPlace) -> list[list[int]]:
    return [data[start : start + 100] for start in range(0, len(data), 100)]


def add_up(chunk: list[int], place: WorkflowPlace) -> int:
    return sum(chunk)


def total(data: None, place: WorkflowPlace) -> int:
    sums: list[int] = place.result_of("sums")
    reduced.append(sums)
    return sum(sums)


async def main() -> None:
    flow = (
        Workflow(name="map-reduce")
        .step("chunks", "map-processing", "split", list(range(1_000)))
        # A job for each item of what `chunks` returned; its result is the list of theirs.
        .map("sums", "map-processing", "map-process", over="chunks")
        .step("total", "reduce-processing", "reduce-results", after=["sums"])
    )
    processors = {"split": split, "map-process": add_up, "reduce-results": total}
    queues = "map-processing", "reduce-processing"
    async with Queen.from_env() as queen, working(queen, processors, *queues):
        handle = await execute_workflow(queen, flow)
        result = await handle.result(timeout="30s")

        assert result == {"total": sum(range(1_000))}
        # It ran once, with all results in the order of the chunks.
        assert reduced == [[sum(range(start, start + 100)) for start in range(0, 1_000, 100)]]
        parts = await handle.parts("sums")
        print(len(parts), "parts, total", result["total"])


asyncio.run(main())
