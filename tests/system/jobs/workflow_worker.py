"""A process that runs steps of workflows until it is killed. Each step takes effect in its ack."""

import asyncio
import sys
from typing import Any

from queen import Queen
from queen.jobs import Job, QueueManager, Worker

ATTEMPTS = 100
"""A kill counts an attempt for all leased messages, although they did not fail."""


def come_to(job: Job[Any]) -> object:
    """The result of a step."""
    place = job.workflow
    assert place is not None
    if job.name == "split":
        return list(range(job.data))
    if job.name == "square":
        return job.data**2
    if job.name == "sum":
        return sum(place.result_of("squares"))
    return sorted(place.results)


async def step(job: Job[Any]) -> object:
    """Record in the transaction of the ack that the step ran, and its input."""
    place = job.workflow
    assert place is not None
    said = {"step": place.step, "part": place.part, "given": sorted(place.results)}
    job.transaction().push("effects", {"data": said}, partition=place.id)
    return come_to(job)


async def main(url: str, concurrency: str) -> None:
    jobs = QueueManager(Queen(url))
    jobs.register_processor("work", step, attempts=ATTEMPTS)
    async with jobs.queen:
        await Worker(jobs, concurrency=int(concurrency)).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
