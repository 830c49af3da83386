"""
A worker in its own process, controlled by its parent.

The parent has the other end of a socket. It reads reports there. If it writes to the socket, or
closes it, the worker stops.
"""

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from queen import errors
from queen.jobs.environment import log_to_stderr
from queen.jobs.pool.loader import load
from queen.jobs.worker.executor import THREADS
from queen.jobs.worker.worker import Worker

_SAMPLE_SECONDS: Final = 0.1
_SAMPLES: Final = 5
"""Samples per report."""
_IDLE_SECONDS: Final = 0.2
STOP: Final = b"stop\n"
NOW: Final = b"now\n"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a worker process."""

    app: str
    """``MODULE:app``."""
    queues: Sequence[str] | None = None
    concurrency: int = 10
    shutdown_seconds: float = 30.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a worker process, sent twice per second. The first one means ready."""

    done: int = 0
    """Attempts that ended since its start."""
    busy: float = 0.0
    """Share of its concurrency in use, in its busiest queue."""


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def leave(code: int) -> None:
    """End the process without waiting for threads, whose jobs were already released."""
    sys.stdout.flush()
    sys.stderr.flush()
    threads = [each for each in threading.enumerate() if each.name.startswith(THREADS)]
    for thread in threads:
        thread.join(_IDLE_SECONDS)
    if multiprocessing.active_children() or any(thread.is_alive() for thread in threads):
        os._exit(code)
    sys.exit(code)


async def work(task: Task, parent: socket.socket) -> None:
    """Run jobs until the parent stops the worker or ends, or until a signal."""
    app = load(task.app)
    worker = Worker(
        app,
        queues=task.queues,
        concurrency=task.concurrency,
        shutdown_timeout=task.shutdown_seconds,
    )
    async with app.queen:
        await worker.ready()
        reader, writer = await asyncio.open_connection(sock=parent)
        tasks = [
            asyncio.create_task(_listen(reader, worker.stop)),
            asyncio.create_task(_report(writer, worker)),
        ]
        for number in (signal.SIGTERM, signal.SIGINT):
            # Never cancels running jobs: a signal to the process group arrives twice.
            asyncio.get_running_loop().add_signal_handler(number, worker.stop)
        try:
            await worker.run()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            writer.close()


async def _listen(reader: asyncio.StreamReader, stop: Callable[..., None]) -> None:
    try:
        while line := await reader.readline():
            stop(now=line == NOW)
    except ConnectionError:
        pass
    stop()  # The parent has ended.


async def _report(writer: asyncio.StreamWriter, worker: Worker) -> None:
    samples: list[float] = [0.0]
    while not writer.is_closing():
        stats = worker.stats
        report = Report(
            done=stats.completed + stats.failed + stats.retried, busy=sum(samples) / len(samples)
        )
        writer.write(msgspec.json.encode(report) + b"\n")
        samples = []
        for _ in range(_SAMPLES):
            await asyncio.sleep(_SAMPLE_SECONDS)
            samples.append(worker.busy)


def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Task)
    parent = socket.socket(fileno=int(sys.argv[2]))
    log_to_stderr()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(work(task, parent))
    except errors.QueenError as error:
        print(f"queen: worker process {os.getpid()}: {error}", file=sys.stderr)
        leave(1)
    leave(0)
