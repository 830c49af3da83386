"""What a worker counts of its jobs, by queue and name, and tells the server now and then."""

import math
import os
import socket
import time
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from queen.wire.jobs import JobFigures, WorkerReport

UNKNOWN: Final = "__other__"
"""The name of jobs that are not counted apart."""
_MOST: Final = 500
"""Names that are counted apart; a processor of every name may meet any number of them."""
_STILL_THERE_SECONDS: Final = 5.0
"""A worker that has nothing to tell says that it is there."""
_SMALLEST: Final = 0.000123


class Tally:
    """Of the jobs of one name."""

    __slots__ = ("bins", "completed", "failed", "name", "queue", "retried", "running", "seconds")

    def __init__(self, queue: str, name: str) -> None:
        self.queue = queue
        self.name = name
        self.running = 0
        self.clear()

    def clear(self) -> None:
        """Begin anew with everything but what runs."""
        self.completed = self.failed = self.retried = 0
        self.bins: dict[int, int] = {}
        self.seconds = 0.0

    def took(self, seconds: float) -> None:
        """An attempt ended: bins grow by a quarter of an octave, as those of the server do."""
        bin_ = 0
        if seconds > _SMALLEST:
            bin_ = min(math.ceil(4 * math.log2(seconds)) + 52, 127)
        self.bins[bin_] = self.bins.get(bin_, 0) + 1
        self.seconds += seconds

    @property
    def has_news(self) -> bool:
        return bool(self.bins or self.completed or self.failed or self.retried)


class Tallies:
    """The tallies of one worker."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._worker = f"{socket.gethostname()[:200]}:{os.getpid()}:{uuid4().hex[:8]}"
        """What people know it by, and no other worker is called."""
        self._queues = list(queues)
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._told_at = 0.0
        self._was_running = False
        self._number = 0
        self._untold: WorkerReport | None = None
        """What was taken, and perhaps heard: it is told again as it is until an answer comes."""

    def of(self, queue: str, name: str) -> Tally:
        tally = self._tallies.get((queue, name))
        if tally is None:
            if len(self._tallies) >= _MOST:
                name = UNKNOWN
            tally = self._tallies.setdefault((queue, name), Tally(queue, name))
        return tally

    def take(self) -> WorkerReport | None:
        """What there is to tell since the last that was `told`; None for nothing."""
        if self._untold is not None:
            return self._untold
        tallies = [each for each in self._tallies.values() if each.has_news or each.running]
        now = time.monotonic()
        is_running = any(each.running for each in tallies)
        is_changed = bool(tallies) or self._was_running
        if not is_changed and now - self._told_at < _STILL_THERE_SECONDS:
            return None
        self._told_at = now
        self._was_running = is_running
        jobs = [
            JobFigures(
                queue=each.queue,
                name=each.name,
                completed=each.completed,
                failed=each.failed,
                retried=each.retried,
                running=each.running,
                seconds=each.seconds,
                bins=each.bins,
            )
            for each in tallies
        ]
        for each in tallies:
            each.clear()
        self._number += 1
        self._untold = WorkerReport(
            worker=self._worker, number=self._number, queues=self._queues, jobs=jobs
        )
        return self._untold

    def told(self) -> None:
        """The server has heard what was taken."""
        self._untold = None
