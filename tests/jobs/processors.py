"""Processors that a process of its own finds by their names."""

import os

from queen.jobs import Job, QueueManager


def cube(job: Job[int]) -> list[int]:
    if job.data < 0:
        raise ValueError("below nothing")
    return [job.data**3, os.getpid()]


def register(jobs: QueueManager, queue: str) -> None:
    jobs.register_processor(queue, cube, name="cube", process=True, attempts=1)
