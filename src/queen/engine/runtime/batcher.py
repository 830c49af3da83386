"""Batching without a timer: units that arrive during a flush form the next flush."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from queen import errors
from queen.meters import Histogram


class Unit(Protocol):
    """Something to flush as a whole."""

    @property
    def keys(self) -> tuple[Hashable, ...]: ...

    @property
    def size_bytes(self) -> int: ...

    def fail(self, error: BaseException) -> None: ...


U = TypeVar("U", bound=Unit)
_CROWD: Final = 32
_CROWD_BYTES: Final = 64 * 1024
_PATIENCE_SECONDS: Final = 0.005
"""How long other keys wait for a running flush, which may be blocked by a lock."""


class Batcher(Generic[U]):
    """
    Gathers units into flushes, at most ``max_flushes`` at the same time.

    A single unit is flushed immediately, without a linger timer. Many units share one flush.
    While a flush runs, another begins if many units wait or if the first takes long. A few units
    cost less in the next flush.

    Units of one key keep their order, and two flushes never contain the same key. Units with
    several keys are rare. While one waits, its keys are reserved for it.
    """

    def __init__(
        self,
        flush: Callable[[list[U]], Awaitable[None]],
        *,
        max_flushes: int,
        max_units: int,
        max_bytes: int,
        max_queued: int,
        max_queued_bytes: int,
    ) -> None:
        self._flush = flush
        self._max_flushes = self._flushes_left = max_flushes
        self._max_units = max_units
        self._max_bytes = max_bytes
        self._max_queued = max_queued
        self._max_queued_bytes = max_queued_bytes
        self._queued = 0
        self._queued_bytes = 0
        self._units: dict[Hashable, deque[U]] = {}
        self._open_keys: deque[Hashable] = deque()
        self._busy: set[Hashable] = set()
        self._wide: deque[U] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._is_scheduled = False
        self._begun_at = 0.0
        self._patience: asyncio.TimerHandle | None = None
        self.seconds = Histogram()
        """Durations of flushes."""

    def submit(self, *units: U) -> None:
        """Add the units to the next flush. Rejects all of them if too many are waiting."""
        if self._is_closed:
            raise errors.Draining("this process is stopping")
        if (
            self._queued + len(units) > self._max_queued
            or self._queued_bytes >= self._max_queued_bytes
        ):
            raise errors.Overloaded(
                f"{self._queued} requests of {self._queued_bytes} bytes are waiting; try later"
            )
        for unit in units:
            self._join(unit)
        self._schedule()

    def _join(self, unit: U) -> None:
        self._queued += 1
        self._queued_bytes += unit.size_bytes
        keys = unit.keys
        if len(keys) == 1:
            waiting = self._units.get(keys[0])
            if waiting is None:
                self._units[keys[0]] = deque((unit,))
                self._open_keys.append(keys[0])
            else:
                waiting.append(unit)
        else:
            self._wide.append(unit)

    async def close(self) -> None:
        """Accept no more units, and finish the accepted ones."""
        self._is_closed = True
        while self._tasks or self._is_scheduled:
            await (asyncio.wait(self._tasks) if self._tasks else asyncio.sleep(0))

    def _schedule(self) -> None:
        """Flush at the end of this loop iteration, with all units that are ready by then."""
        if self._is_scheduled or not self._flushes_left or not (self._units or self._wide):
            return
        loop = asyncio.get_running_loop()
        if self._may_flush():
            self._is_scheduled = True
            loop.call_soon(self._start)
        elif self._patience is None:
            self._patience = loop.call_later(_PATIENCE_SECONDS, self._lose_patience)

    def _lose_patience(self) -> None:
        self._patience = None
        self._schedule()

    def _may_flush(self) -> bool:
        if self._flushes_left == self._max_flushes:
            return True
        is_late = time.monotonic() >= self._begun_at + _PATIENCE_SECONDS
        return self._flushes_left > 0 and (is_late or self._is_crowd())

    def _is_crowd(self) -> bool:
        return self._queued >= _CROWD or self._queued_bytes >= _CROWD_BYTES

    def _start(self) -> None:
        self._is_scheduled = False
        loop = asyncio.get_running_loop()
        while (
            (self._units or self._wide)
            and self._may_flush()
            and (taken := self._take(self._share()))
        ):
            keys = {key for unit in taken for key in unit.keys}
            self._busy |= keys
            self._flushes_left -= 1
            self._begun_at = time.monotonic()
            task = loop.create_task(self._run(taken, keys))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, units: list[U], keys: set[Hashable]) -> None:
        started_at = time.perf_counter()
        try:
            await self._flush(units)
        except BaseException as error:
            for unit in units:
                unit.fail(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self.seconds.observe(time.perf_counter() - started_at)
            self._busy -= keys
            self._flushes_left += 1
            self._schedule()

    def _share(self) -> int:
        """
        How many keys a flush may take.

        Many keys are divided among the flushes that may start, so that one flush is prepared while
        another is stored. A few keys share one commit.
        """
        if not self._is_crowd():
            return len(self._open_keys)
        return -(-len(self._open_keys) // self._flushes_left)

    def _take(self, max_keys: int) -> list[U]:
        """The next flush: complete units of free keys, oldest keys first, up to the limits."""
        keys = 0
        taken: list[U] = []
        size_bytes = 0
        reserved: set[Hashable] = set()
        for _ in range(len(self._wide)):
            unit = self._wide.popleft()
            if (
                self._busy.isdisjoint(unit.keys)
                and reserved.isdisjoint(unit.keys)
                and size_bytes < self._max_bytes
            ):
                taken.append(unit)
                size_bytes += unit.size_bytes
            else:
                self._wide.append(unit)
            # Its keys stay reserved until it is flushed.
            reserved.update(unit.keys)
        for _ in range(len(self._open_keys)):
            if keys >= max_keys or len(taken) >= self._max_units or size_bytes >= self._max_bytes:
                break
            key = self._open_keys.popleft()
            if key in self._busy or key in reserved:
                self._open_keys.append(key)
                continue
            keys += 1
            queue = self._units[key]
            while queue and len(taken) < self._max_units and size_bytes < self._max_bytes:
                unit = queue.popleft()
                taken.append(unit)
                size_bytes += unit.size_bytes
            if queue:
                self._open_keys.append(key)
            else:
                del self._units[key]
        self._forget(taken)
        return taken

    def _forget(self, units: Iterable[U]) -> None:
        for unit in units:
            self._queued -= 1
            self._queued_bytes -= unit.size_bytes
