"""Decide how many worker processes there should be. No I/O."""

import math
from typing import Final

import msgspec

_BUSY: Final = 0.5
"""Who has so much time left is not what jobs wait for: a rate, a limit or a pause is."""
_FULL: Final = 0.7
"""Those that are left after one was taken away must not be busier than this."""
_LATE_SECONDS: Final = 60.0
"""Who waits longer than this is worth a worker, however few wait."""
_CALM: Final = 3
"""So many times in a row there must be too many before any is taken away."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a `WorkerManager`."""

    min_workers: int = 1
    max_workers: int = 16
    scale_up_threshold: int = 100
    scale_down_threshold: int = 10
    cpu_threshold: float = 0.8
    memory_threshold: float = 0.85


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load at one time."""

    workers: int
    backlog: int
    """Jobs that wait."""
    busy: float
    """Share of the workers' places that were taken since the last time."""
    drain_seconds: float | None
    """What the backlog takes at the present pace: jobs that wait, times what a processor takes, by
    the places there are; None: nothing was done since the last time."""
    cpu: float
    """Of the machine, all its cores, from 0 to 1."""
    memory: float
    """Of the machine, from 0 to 1."""
    worker_memory: float = 0.0
    """What one more worker takes of it."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers there should be, and why."""

    workers: int
    reason: str


class Autoscaler:
    """
    Up at once, at most to twice as many; down after three calm looks, at most to half.

    What makes it go up, a backlog that busy workers cannot drain, and what makes it go down,
    workers that would have time to spare with fewer of them, are far apart: a steady load lies
    between them.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calm = 0

    def decide(self, seen: Load, *, interval_seconds: float) -> Decision:
        """The next number, from what was seen in the last interval."""
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
            return Decision(workers=seen.workers, reason="calm, not for long yet")
        self._calm = 0
        return self._down(seen)

    def _too_few(self, seen: Load, interval_seconds: float) -> str:
        if seen.workers >= self._limits.max_workers or seen.busy < _BUSY or not seen.backlog:
            return ""
        seconds = math.inf if seen.drain_seconds is None else seen.drain_seconds
        if seconds <= interval_seconds:
            return ""  # Gone before the next look.
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
