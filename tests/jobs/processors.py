"""Processors that a separate process imports by name."""

import os
import signal
import sys
import time
from pathlib import Path

from queen.jobs import Job, QueueManager


def cube(job: Job[int]) -> list[int]:
    if job.data < 0:
        raise ValueError("below nothing")
    return [job.data**3, os.getpid()]


def die(job: Job[int]) -> int:
    """Kill the process in the first attempt."""
    if job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return job.attempt


def sleep(job: Job[float]) -> None:
    time.sleep(job.data)


def wait(job: Job[list[str]]) -> int:
    """Create the first file, and continue when the second one exists."""
    begun, goes_on = map(Path, job.data)
    begun.touch()
    while not goes_on.exists():
        time.sleep(0.01)
    return job.attempt


def leave(job: Job[None]) -> None:
    sys.exit(3)


def follow(job: Job[None]) -> None:
    """Add a job in the ack's transaction, which a separate process cannot do."""
    job.transaction().add_job(job.queue, "cube", 2)


def register(jobs: QueueManager, queue: str) -> None:
    jobs.register_processor(queue, cube, name="cube", process=True, attempts=1)
    jobs.register_processor(queue, sleep, name="sleep", process=True)
    jobs.register_processor(queue, wait, name="wait", process=True, attempts=1)
    jobs.register_processor(queue, follow, name="follow", process=True, attempts=1)
    jobs.register_processor(queue, die, name="die", process=True, backoff=lambda _: 0.0)
