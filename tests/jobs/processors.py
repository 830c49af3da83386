"""Processors that a process of its own finds by their names."""

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
    """Take the process along, in the first attempt."""
    if job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return job.attempt


def sleep(job: Job[float]) -> None:
    time.sleep(job.data)


def wait(job: Job[list[str]]) -> int:
    """Begin, as one file says, and go on when there is the other."""
    begun, goes_on = map(Path, job.data)
    begun.touch()
    while not goes_on.exists():
        time.sleep(0.01)
    return job.attempt


def leave(job: Job[None]) -> None:
    sys.exit(3)


def follow(job: Job[None]) -> None:
    """Add a job with its ack: nobody would hear of it."""
    job.transaction().add_job(job.queue, "cube", 2)


def register(jobs: QueueManager, queue: str) -> None:
    jobs.register_processor(queue, cube, name="cube", process=True, attempts=1)
    jobs.register_processor(queue, sleep, name="sleep", process=True)
    jobs.register_processor(queue, wait, name="wait", process=True, attempts=1)
    jobs.register_processor(queue, follow, name="follow", process=True, attempts=1)
    jobs.register_processor(queue, die, name="die", process=True, backoff=lambda _: 0.0)
