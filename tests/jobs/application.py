"""A job application for separate processes. Its jobs append lines to a file."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from queen import Queen
from queen.jobs import Job, QueueManager, Rate

_LOG = Path(os.environ.get("JOBS_LOG", os.devnull))
_QUEUE = os.environ.get("JOBS_QUEUE", "work")
_RATE = os.environ.get("JOBS_RATE")

jobs = QueueManager(Queen(os.environ.get("QUEEN_BASE_URL", "http://127.0.0.1:6632")))
empty = QueueManager(Queen("http://127.0.0.1:6632"))
if _RATE:
    jobs.register_queue(_QUEUE, rate_limit=Rate(max=int(_RATE), duration="1s", per="queue"))
if rate_per_key := os.environ.get("JOBS_RATE_PER_KEY"):
    jobs.register_queue(_QUEUE, rate_limit=Rate(max=int(rate_per_key), duration="1s", per="key"))


def _say(job: Job[Any], what: str) -> None:
    message = job.message
    popped = 0.0 if message.lease_expires_at is None else message.lease_expires_at.timestamp()
    fields = (what, job.data, job.attempt, os.getpid(), time.time(), popped, job.key)
    line = " ".join(map(str, fields))
    # A single short write to a file in append mode is atomic.
    descriptor = os.open(_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


@jobs.processor(_QUEUE)
async def note(job: Job[int]) -> None:
    _say(job, "began")


@jobs.processor(_QUEUE)
async def pause(job: Job[float]) -> None:
    """Sleep for the number of seconds in the data."""
    _say(job, "began")
    try:
        await asyncio.sleep(job.data)
    except asyncio.CancelledError:
        _say(job, "cancelled")
        raise
    _say(job, "ended")


@jobs.processor(_QUEUE)
def hold(job: Job[float]) -> None:
    """The same in a thread, which cannot be cancelled."""
    _say(job, "began")
    time.sleep(job.data)
    _say(job, "ended")


@jobs.processor(_QUEUE, attempts=5)
async def die(job: Job[int]) -> None:
    """Kill the whole process in the first attempts."""
    _say(job, "began")
    if job.attempt <= job.data:
        os.kill(os.getpid(), 9)
