"""The jobs of one queue in a worker: fetched ahead of need, taken by runners."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from queen import errors
from queen.client.consume.options import PopRequest
from queen.client.consume.pop import Poller
from queen.client.consume.settle import Settler
from queen.jobs.worker.leases import LeasedJob
from queen.wire.messages import MessageRun

_LOG: Final = logging.getLogger("queen.jobs")
_MAX_AHEAD: Final = 3_000
_AHEAD_SECONDS: Final = 0.2
"""Seconds of work to fetch ahead: few slow jobs, because other workers could run them."""
_BEGINNING_SECONDS: Final = 0.005
_WINDOW_SECONDS: Final = 0.5
_WAIT_MILLIS: Final = 20_000
_MAX_PARTITIONS: Final = 100


class RateEstimate(msgspec.Struct, eq=False):
    """Estimates the rate of completed jobs while there are any."""

    running: int = 0
    """Runners that are running a job."""
    done: float = 0.0
    _since: float = 0.0
    _busy: float = 0.0

    def begin(self, now: float) -> None:
        """Count a runner that starts to run jobs."""
        if not self.running:
            self._since = now
        self.running += 1

    def end(self, now: float) -> None:
        """Count a runner that has no more jobs."""
        self.running -= 1
        if not self.running:
            self._busy += now - self._since

    def ahead(self) -> int:
        """Return how many jobs to fetch in addition to the running ones."""
        busy = self._busy
        if self.running:
            busy += time.monotonic() - self._since
        rate = self.done / (busy + _BEGINNING_SECONDS)
        if busy > _WINDOW_SECONDS:
            self.done /= 2
            self._busy = busy / 2
            self._since = time.monotonic()
        return min(_MAX_AHEAD, int(rate * _AHEAD_SECONDS))


class Prefetch:
    """Fetches the jobs of one queue of a worker."""

    def __init__(
        self,
        settler: Settler,
        request: PopRequest,
        *,
        concurrency: int,
        is_one_by_one: bool,
        is_limited: bool,
        on_popped: Callable[[Sequence[MessageRun]], list[LeasedJob]],
        stopping: asyncio.Event,
    ) -> None:
        self._request = request.replaced(wait=True, timeout_millis=_WAIT_MILLIS)
        self.concurrency = concurrency
        self.rate = RateEstimate()
        self.waiting: deque[LeasedJob] = deque()
        """Fetched, but not started."""
        self._stopping = stopping
        self._is_one_by_one = is_one_by_one
        """The queue has a concurrency limit: fetch one job per delivery."""
        self._is_limited = is_limited
        """Fetched jobs count against a limit, so jobs must not wait here for a runner."""
        self._on_popped = on_popped
        self._poller = Poller(settler, stopping)
        self._idle: deque[asyncio.Future[None]] = deque()
        self._wanted = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def busy(self) -> float:
        """Share of its concurrency that fetched jobs use, or could use."""
        return min(1.0, (self.rate.running + len(self.waiting)) / self.concurrency)

    def empty(self) -> list[LeasedJob]:
        """Remove and return the jobs that have not started, once the worker is stopping."""
        self._wanted.set()
        rest = [leased for leased in self.waiting if not leased.is_gone]
        self.waiting.clear()
        while self._idle:
            self._wake()
        return rest

    def take(self) -> LeasedJob | None:
        """Return the next fetched job, or None."""
        waiting = self.waiting
        while waiting and not self.is_stopping:
            leased = waiting.popleft()
            if len(waiting) <= _MAX_AHEAD // 2:
                self._wanted.set()
            if not leased.is_gone:
                return leased
        return None

    async def wait(self) -> None:
        """Wait until there may be a fetched job, or the worker stops."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(future)
        self._wanted.set()
        await future

    async def fetch(self) -> None:
        """Fetch as many jobs as there is room for, until the worker stops."""
        while not self.is_stopping:
            self._wanted.clear()
            room = self._room()
            if room <= 0:
                await self._wanted.wait()
                continue
            runs: Sequence[MessageRun] = ()
            try:
                runs = await self._pop(room)
            except errors.QueenError as error:
                _LOG.warning("jobs.pop_failed: %s: %s", self._request.queue, error)
            if not runs:
                await self._poller.pause()
                continue
            jobs = self._on_popped(runs)
            self.waiting.extend(jobs)
            for _ in range(min(len(self._idle), len(jobs))):
                self._wake()

    def _wake(self) -> None:
        future = self._idle.popleft()
        if not future.done():
            future.set_result(None)

    def _room(self) -> int:
        ahead = 0 if self._is_limited else self.rate.ahead()
        if len(self.waiting) > ahead // 2:
            return 0
        free = self.concurrency - self.rate.running
        return min(free + ahead - len(self.waiting), _MAX_AHEAD)

    async def _pop(self, room: int) -> Sequence[MessageRun]:
        batch = 1 if self._is_one_by_one else room
        return await self._poller.pop(
            self._request.replaced(batch=batch, partitions=min(batch, _MAX_PARTITIONS))
        )
