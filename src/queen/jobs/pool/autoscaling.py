"""Decide how many worker processes to run. No I/O."""

import math
from typing import Final

import msgspec

_BUSY: Final = 0.5
"""Minimum utilization to add workers. Below it, jobs wait for a limit or a paused queue."""
_FULL: Final = 0.7
"""Maximum utilization of the remaining workers after removing some."""
_LATE_SECONDS: Final = 60.0
"""A job that waits longer than this justifies another worker, even if few jobs wait."""
_CALM: Final = 3
"""How many consecutive checks must find too many workers before some are removed."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a `WorkerManager`."""

    min_workers: int = 1
    max_workers: int = 16
    scale_up_threshold: int = 100
    scale_down_threshold: int = 10
    cpu_threshold: float = 0.8
    memory_threshold: float = 0.85


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load during one interval."""

    workers: int
    backlog: int
    """Waiting jobs."""
    busy: float
    """Share of the workers' concurrency in use since the last check."""
    drain_seconds: float | None
    """Seconds to drain the backlog at the current pace: waiting jobs times the duration of a job,
    divided by the concurrency. None if no job ended since the last check."""
    cpu: float
    """CPU use of the machine, all cores together, from 0 to 1."""
    memory: float
    """Memory use of the machine, from 0 to 1."""
    worker_memory: float = 0.0
    """Memory that one more worker would use, from 0 to 1."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The number of workers to run, and the reason."""

    workers: int
    reason: str


class Autoscaler:
    """
    Scales up immediately, at most to twice as many, and down after three checks, at most to half.

    It adds workers if busy ones can't drain the backlog, and removes workers if fewer would still
    have time to spare. These conditions are far apart, so a steady load changes nothing.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calm = 0

    def decide(self, seen: Load, *, interval_seconds: float) -> Decision:
        """Return the next number of workers, from the load of the last interval."""
        limits = self._limits
        within = min(max(seen.workers, limits.min_workers), limits.max_workers)
        if within != seen.workers:
            return Decision(workers=within, reason="between min and max")
        if reason := self._too_few(seen, interval_seconds):
            self._calm = 0
            return self._up(seen, reason)
        if not self._too_many(seen):
            self._calm = 0
            return Decision(workers=seen.workers, reason="as needed")
        self._calm += 1
        if self._calm < _CALM:
            return Decision(workers=seen.workers, reason="low load, but not for long enough")
        self._calm = 0
        return self._down(seen)

    def _too_few(self, seen: Load, interval_seconds: float) -> str:
        if seen.workers >= self._limits.max_workers or seen.busy < _BUSY or not seen.backlog:
            return ""
        seconds = math.inf if seen.drain_seconds is None else seen.drain_seconds
        if seconds <= interval_seconds:
            return ""  # The backlog will be drained before the next check.
        if seen.backlog > self._limits.scale_up_threshold * seen.workers:
            return "backlog"
        return "late" if seconds > _LATE_SECONDS else ""

    def _up(self, seen: Load, reason: str) -> Decision:
        limits = self._limits
        if seen.cpu > limits.cpu_threshold:
            return Decision(workers=seen.workers, reason=f"{reason}, but no processor is free")
        by_backlog = math.ceil(seen.backlog / limits.scale_up_threshold)
        wanted = min(max(by_backlog, seen.workers + 1), 2 * seen.workers, limits.max_workers)
        if seen.worker_memory > 0:
            room = max(0.0, limits.memory_threshold - seen.memory) / seen.worker_memory
            wanted = min(wanted, seen.workers + int(room))
        elif seen.memory > limits.memory_threshold:
            wanted = seen.workers
        if wanted <= seen.workers:
            return Decision(workers=seen.workers, reason=f"{reason}, but no memory is free")
        return Decision(workers=wanted, reason=reason)

    def _too_many(self, seen: Load) -> bool:
        left = seen.workers - 1
        return (
            left >= self._limits.min_workers
            and seen.backlog < self._limits.scale_down_threshold * left
            and seen.busy * seen.workers < _FULL * left
        )

    def _down(self, seen: Load) -> Decision:
        needed = math.floor(seen.busy * seen.workers / _FULL) + 1
        by_backlog = seen.backlog // self._limits.scale_down_threshold + 1
        half = math.ceil(seen.workers / 2)
        wanted = max(needed, by_backlog, half, self._limits.min_workers)
        return Decision(workers=min(wanted, seen.workers - 1), reason="calm")
