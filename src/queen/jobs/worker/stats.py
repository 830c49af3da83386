"""Counters of a worker: in total, and by queue and name for its reports to the server."""

import math
import os
import socket
import time
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import msgspec

from queen.wire.job_queues import JobFigures, WorkerReport

UNKNOWN: Final = "__other__"
"""The name of jobs that are not counted separately."""
_MAX_NAMES: Final = 500
"""Maximum number of names that are counted separately."""
_ALIVE_SECONDS: Final = 5.0
"""Time between the reports of an idle worker."""
_SMALLEST: Final = 0.000123


class WorkerStats(msgspec.Struct):
    """Counts since the start of a worker."""

    completed: int = 0
    """Completed."""
    failed: int = 0
    """Dead-lettered."""
    retried: int = 0
    """Failed attempts that are retried."""
    stalled: int = 0
    """Dead-lettered because too many workers stopped reporting while running them."""
    lost: int = 0
    """Lost because the lease expired."""
    cancelled: int = 0
    """Cancelled."""
    running: int = 0
    """Running now."""
    waiting: int = 0
    """Fetched, but not started."""


class JobCounters:
    """Counters for the jobs of one name."""

    __slots__ = ("bins", "completed", "failed", "name", "queue", "retried", "running", "seconds")

    def __init__(self, queue: str, name: str) -> None:
        self.queue = queue
        self.name = name
        self.running = 0
        self.clear()

    def clear(self) -> None:
        """Reset all counters except the running jobs."""
        self.completed = self.failed = self.retried = 0
        self.bins: dict[int, int] = {}
        self.seconds = 0.0

    def took(self, seconds: float) -> None:
        """Count the duration of an attempt. Bins are a quarter octave wide, as on the server."""
        bin_ = 0
        if seconds > _SMALLEST:
            bin_ = min(math.ceil(4 * math.log2(seconds)) + 52, 127)
        self.bins[bin_] = self.bins.get(bin_, 0) + 1
        self.seconds += seconds

    def report(self) -> JobFigures:
        """Return the counts since the last report, and reset them."""
        figures = JobFigures(**{field: getattr(self, field) for field in self.__slots__})
        self.clear()
        return figures

    @property
    def has_news(self) -> bool:
        return bool(self.bins or self.completed or self.failed or self.retried)


class WorkerCounters:
    """The counters of one worker, by queue and name of its jobs."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._worker = f"{socket.gethostname()[:200]}:{os.getpid()}:{uuid4().hex[:8]}"
        """The unique and readable name of the worker."""
        self._queues = list(queues)
        self._by_name: dict[tuple[str, str], JobCounters] = {}
        self._reported_at = 0.0
        self._was_running = False
        self._number = 0
        self._unconfirmed: WorkerReport | None = None
        """The last report, repeated until the server confirms it."""

    def of(self, queue: str, name: str) -> JobCounters:
        counters = self._by_name.get((queue, name))
        if counters is None:
            if len(self._by_name) >= _MAX_NAMES:
                name = UNKNOWN
            counters = self._by_name.setdefault((queue, name), JobCounters(queue, name))
        return counters

    def report(self) -> WorkerReport | None:
        """Return the changes since the last confirmed report, or None without changes."""
        if self._unconfirmed is not None:
            return self._unconfirmed
        counters = [each for each in self._by_name.values() if each.has_news or each.running]
        now = time.monotonic()
        is_running = any(each.running for each in counters)
        is_changed = bool(counters) or self._was_running
        if not is_changed and now - self._reported_at < _ALIVE_SECONDS:
            return None
        self._reported_at = now
        self._was_running = is_running
        jobs = [each.report() for each in counters]
        self._number += 1
        self._unconfirmed = WorkerReport(
            worker=self._worker, number=self._number, queues=self._queues, jobs=jobs
        )
        return self._unconfirmed

    def confirm(self) -> None:
        """Record that the server has received the last report."""
        self._unconfirmed = None
