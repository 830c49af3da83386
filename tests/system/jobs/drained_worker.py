"""Terminate busy workers one after the other. They are forked, which saves the imports."""

import asyncio
import os
import random
import select
import signal
import sys

import msgspec

from queen import Queen
from queen.jobs import Job, QueueManager, Worker
from queen.jobs.pool.process import new_loop

_LONGEST_SECONDS = 0.15
"""The longest time from a worker's first job to its SIGTERM."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    queue: str
    log: str
    """Path of the log to which each job appends its number when it runs."""
    kills: int
    seed: int


async def work(task: Task, busy: int) -> None:
    """Run jobs until SIGTERM, and write to ``busy`` once the first has begun."""
    log = os.open(task.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with Queen(task.url) as queen:
        jobs = QueueManager(queen)

        @jobs.processor(task.queue, attempts=1)
        async def note(job: Job[int]) -> None:
            os.write(log, b"%d\n" % job.data)
            if not job.data % 3:
                await asyncio.sleep(0.003)
            os.write(busy, b".")

        await Worker(jobs, concurrency=5).run(handle_signals=True)


def terminate_one(task: Task, chance: random.Random) -> int:
    """
    Fork a worker, terminate it at a random time after its first job, and return its exit code.
    """
    is_busy, busy = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(is_busy)
            os.set_blocking(busy, False)
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(work(task, busy))
            code = 0
        finally:
            os._exit(code)
    os.close(busy)
    os.read(is_busy, 1)
    select.select([], [], [], chance.uniform(0, _LONGEST_SECONDS))
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    os.close(is_busy)
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Task)
    chance = random.Random(task.seed)
    for _ in range(task.kills):
        print(terminate_one(task, chance), flush=True)


if __name__ == "__main__":
    main()
