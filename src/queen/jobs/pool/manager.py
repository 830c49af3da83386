"""`WorkerManager`: scale the worker processes of an application with its backlog."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from queen import errors
from queen.client.durations import LONG_SECONDS, Duration, seconds_of
from queen.jobs.app import QueueManager
from queen.jobs.environment import concurrency_of
from queen.jobs.pool.autoscaling import Autoscaler, Decision, Limits, Load
from queen.jobs.pool.loader import load
from queen.jobs.pool.pool import Pool
from queen.jobs.pool.process import Task

_LOG: Final = logging.getLogger("queen.jobs")
_MOST_REMEMBERED: Final = 1_000
_UNCOUNTED: Final = 10_000
"""Lower bound of a backlog that the server does not count."""


class Scaled(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a `WorkerManager`: the load, and the decision."""

    at: float
    """Seconds since the epoch."""
    seen: Load
    decision: Decision


class WorkerManager:
    """
    Worker processes of an application, scaled by backlog, processor time, CPU and memory.

    Usage::

        workers = WorkerManager(min_workers=2, max_workers=8)
        await workers.initialize_worker_pool("shop.jobs:app")
        workers.start_auto_scaling("30s")
        ...
        await workers.shutdown()
    """

    def __init__(
        self,
        *,
        min_workers: int = 1,
        max_workers: int = 16,
        scale_up_threshold: int = 100,
        scale_down_threshold: int = 10,
        cpu_threshold: float = 0.8,
        memory_threshold: float = 0.85,
    ) -> None:
        if not 1 <= min_workers <= max_workers:
            raise errors.BadRequest("min_workers must be at least 1 and at most max_workers")
        if not 1 <= scale_down_threshold < scale_up_threshold:
            raise errors.BadRequest(
                "scale_down_threshold must be at least 1, and below scale_up_threshold"
            )
        if not (0 < cpu_threshold <= 1 and 0 < memory_threshold <= 1):
            raise errors.BadRequest("CPU and memory thresholds must be above 0 and at most 1")
        self.limits = Limits(
            min_workers=min_workers,
            max_workers=max_workers,
            scale_up_threshold=scale_up_threshold,
            scale_down_threshold=scale_down_threshold,
            cpu_threshold=cpu_threshold,
            memory_threshold=memory_threshold,
        )
        """The limits of autoscaling."""
        self.looks: deque[Scaled] = deque(maxlen=_MOST_REMEMBERED)
        """Recent checks, newest last."""
        self._pool: Pool | None = None
        self._app: QueueManager | None = None
        self._scaling: asyncio.Task[None] | None = None
        self._done: dict[int, int] = {}

    @property
    def workers(self) -> int:
        """The number of workers, without those that are draining."""
        return 0 if self._pool is None else self._pool.size

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""
        places = [] if self._pool is None else self._pool.places
        return [pid for place in places if (pid := place.pid) is not None]

    async def initialize_worker_pool(
        self,
        app: str,
        workers: int | None = None,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        shutdown_timeout: Duration = "30s",
    ) -> None:
        """
        Start worker processes of ``MODULE:app``, ``min_workers`` by default.

        Returns when all of them run. A process that dies is restarted with increasing delays.
        """
        if self._pool is not None:
            raise errors.BadRequest("the pool is already initialized: change it with scale_workers")
        self._app = load(app)
        if unknown := set(queues or ()) - set(self._app.queues):
            raise errors.BadRequest(f"{app} has no processor for queue {min(unknown)}")
        await self._app.configure(queues or self._app.queues)
        task = Task(
            app=app,
            queues=queues,
            concurrency=concurrency_of(concurrency),
            shutdown_seconds=seconds_of(shutdown_timeout, "shutdown_timeout", most=LONG_SECONDS),
        )
        self._pool = Pool(task)
        try:
            await self.scale_workers(self.limits.min_workers if workers is None else workers)
        except BaseException:
            await self.shutdown(now=True)
            raise

    async def scale_workers(self, count: int) -> None:
        """Change the number of workers. New ones run when this returns, others drain later."""
        pool = self._opened()
        if count < 1:
            raise errors.BadRequest("a pool has at least one worker: stop it with shutdown")
        await pool.ready(pool.scale(count))

    def start_auto_scaling(self, interval: Duration = "30s") -> None:
        """Adjust the number of workers at each interval, until `shutdown`."""
        self._opened()
        seconds = seconds_of(interval, "interval", most=LONG_SECONDS)
        if seconds <= 0:
            raise errors.BadRequest("the interval must be above 0")
        if self._scaling is None:
            _psutil().cpu_percent()  # The next call measures from here.
            self._scaling = asyncio.create_task(self._scale_forever(seconds))

    async def shutdown(self, *, now: bool = False) -> None:
        """Drain all workers. ``now`` cancels running jobs and returns them uncounted."""
        if self._scaling is not None:
            self._scaling.cancel()
            await asyncio.gather(self._scaling, return_exceptions=True)
            self._scaling = None
        if self._pool is not None:
            await self._pool.close(now=now)
            self._pool = None
        if self._app is not None:
            await self._app.queen.close()
            self._app = None

    def hurry(self) -> None:
        """Cancel running jobs during a `shutdown`."""
        if self._pool is not None:
            self._pool.hurry()

    def _opened(self) -> Pool:
        if self._pool is None:
            raise errors.BadRequest("call initialize_worker_pool first")
        return self._pool

    async def _scale_forever(self, interval_seconds: float) -> None:
        scaling = Autoscaler(self.limits)
        while True:
            await asyncio.sleep(interval_seconds)
            try:
                seen = await self._measure_load(interval_seconds)
            except errors.QueenError as error:
                _LOG.warning("jobs.not_scaled: %s", error)
                continue
            decision = scaling.decide(seen, interval_seconds=interval_seconds)
            self.looks.append(Scaled(at=time.time(), seen=seen, decision=decision))
            if decision.workers != seen.workers:
                _LOG.info(
                    "jobs.scaled: from %d to %d workers: %s, %d jobs waiting",
                    seen.workers,
                    decision.workers,
                    decision.reason,
                    seen.backlog,
                )
                # Not awaited: a process that can't start is retried by its `WorkerProcess`.
                self._opened().scale(decision.workers)

    async def _measure_load(self, interval_seconds: float) -> Load:
        pool, psutil = self._opened(), _psutil()
        assert self._app is not None
        names = pool.task.queues or self._app.queues
        found = [(await self._app.get_queue_metrics(name)).waiting for name in names]
        waiting = [_UNCOUNTED if each is None else each for each in found]
        reports = [(place.pid or 0, place.report) for place in pool.places]
        heard = {pid: report for pid, report in reports if report is not None}
        busy = sum(report.busy for report in heard.values()) / max(len(heard), 1)
        done = sum(report.done - self._done.get(pid, 0) for pid, report in heard.items())
        self._done = {pid: report.done for pid, report in heard.items()}
        backlog, memory = sum(waiting), psutil.virtual_memory()
        sizes = [size for pid in heard if (size := _bytes_of(psutil, pid))]
        return Load(
            workers=pool.size,
            backlog=backlog,
            busy=busy,
            drain_seconds=backlog * interval_seconds / done if done > 0 else None,
            cpu=psutil.cpu_percent() / 100,
            memory=memory.percent / 100,
            worker_memory=max(sizes, default=0) / memory.total,
        )


def _psutil() -> Any:  # noqa: ANN401 - a module
    try:
        import psutil
    except ModuleNotFoundError as error:
        raise errors.BadRequest(
            "autoscaling reads CPU and memory: pip install 'queenmq[jobs]'"
        ) from error
    return psutil


def _bytes_of(psutil: Any, pid: int) -> int:  # noqa: ANN401 - the module
    """Return the memory of a process, or 0 if it has ended."""
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return 0
