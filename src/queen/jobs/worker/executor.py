"""Run the function of a processor: awaited, in a thread, or in a process."""

import asyncio
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import Any, Final

import msgspec

from queen.client import tracing
from queen.client.payloads import Codec, encode
from queen.jobs.job import ENVELOPES, Job
from queen.jobs.processor import Processor
from queen.wire.messages import MessageRun

_NONE: Final = b"null"
THREADS: Final = "queen-job"
"""Prefix of the names of threads that run jobs."""


class Executor:
    """The threads and processes of one worker, started when the first job needs them."""

    def __init__(self, max_jobs: int) -> None:
        self._max_jobs = max_jobs
        """Concurrent jobs of all queues, so that no job waits for a thread."""
        self._threads: ThreadPoolExecutor | None = None
        self._idle: list[ProcessPoolExecutor] = []
        """Idle processes, one pool each, so that a crash affects only one job."""
        self._is_closed = False

    def run(self, processor: Processor[Any, Any, Any], job: Job[Any]) -> Awaitable[object]:
        """Start the function and return an awaitable of its result."""
        if processor.is_async:
            found: Awaitable[object] = processor.function(job)
            return found
        if processor.settings.is_process:
            return self._in_process(processor, job)
        return self._in_thread(processor, job)

    async def _in_thread(self, processor: Processor[Any, Any, Any], job: Job[Any]) -> object:
        loop = asyncio.get_running_loop()
        job.lend_loop(loop)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._max_jobs, THREADS)
        threads = self._threads
        try:
            return await loop.run_in_executor(threads, tracing.carried(processor.function), job)
        except asyncio.CancelledError:
            # A thread cannot be cancelled: notify it, and run other jobs in new threads.
            job.withdraw()
            if self._threads is threads:
                self._threads = None
                threads.shutdown(wait=False)
            raise

    async def _in_process(
        self, processor: Processor[Any, Any, Any], job: Job[Any]
    ) -> msgspec.Raw | None:
        process = self._idle.pop() if self._idle else _new_process()
        function: Any = processor.function
        is_free = True
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                process,
                run_here,
                function.__module__,
                function.__qualname__,
                msgspec.json.encode(job.part()),
                job.max_attempts,
            )
        except (BrokenProcessPool, asyncio.CancelledError):
            # It died, or it still runs a job that was cancelled.
            is_free = False
            raise
        finally:
            if is_free and not self._is_closed:
                self._idle.append(process)
            else:
                process.shutdown(wait=False)
        return None if found == _NONE else msgspec.Raw(found)

    def close(self) -> None:
        """Stop running jobs. Threads and processes that run one are not stopped."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._is_closed = True
        for process in self._idle:
            process.shutdown(wait=False)


def _new_process() -> ProcessPoolExecutor:
    # Not a copy of this process, whose threads and connections a child could not use.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=context, initializer=stay_with_parent)


def stay_with_parent() -> None:
    """
    End this child process together with its worker.

    Ignores Ctrl-C, which the worker handles by letting its jobs end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def run_here(module: str, name: str, message: bytes, max_attempts: int) -> bytes:
    """Run a job in this child process, with the processor of this name."""
    processor: Any = importlib.import_module(module)
    for step in name.split("."):
        processor = getattr(processor, step)
    function: Callable[..., Any] = getattr(processor, "function", processor)
    codec: Codec[Any] = getattr(processor, "codec", None) or Codec(None)
    run = msgspec.json.decode(message, type=MessageRun)
    job = Job(run, 0, ENVELOPES.decode(run.data[0]), codec, max_attempts)
    return bytes(encode(function(job)))
