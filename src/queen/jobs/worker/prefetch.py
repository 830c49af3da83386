"""The jobs of one queue inside a worker: popped ahead of need, handed to runners."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from queen import errors
from queen.client.consume.pop import Poller
from queen.client.queue import Queue
from queen.jobs.worker.leases import Held
from queen.wire.jobs import Envelope
from queen.wire.messages import MessageRun

_LOG: Final = logging.getLogger("queen.jobs")
_MOST_AHEAD: Final = 3_000
_AHEAD_SECONDS: Final = 0.2
"""So much work is popped ahead: little of jobs that take long, for others could run them."""
_BEGINNING_SECONDS: Final = 0.005
_WINDOW_SECONDS: Final = 0.5
_WAIT_MILLIS: Final = 20_000
_MOST_PARTITIONS: Final = 100


class Pace:
    """How many jobs a second are done while there are any."""

    __slots__ = ("_busy", "_since", "done", "running")

    def __init__(self) -> None:
        self.running = 0
        """Runners that are at work."""
        self.done = 0.0
        self._since = 0.0
        self._busy = 0.0

    def begin(self, now: float) -> None:
        """A runner has something to do."""
        if not self.running:
            self._since = now
        self.running += 1

    def end(self, now: float) -> None:
        """It has nothing more to do."""
        self.running -= 1
        if not self.running:
            self._busy += now - self._since

    def ahead(self) -> int:
        """How many jobs to have ready besides those that run."""
        busy = self._busy
        if self.running:
            busy += time.monotonic() - self._since
        rate = self.done / (busy + _BEGINNING_SECONDS)
        if busy > _WINDOW_SECONDS:
            self.done /= 2
            self._busy = busy / 2
            self._since = time.monotonic()
        return min(_MOST_AHEAD, int(rate * _AHEAD_SECONDS))


class Lane:
    """One queue of a worker."""

    def __init__(
        self,
        queue: Queue[Envelope],
        *,
        concurrency: int,
        is_one_by_one: bool,
        is_limited: bool,
        hold: Callable[[Sequence[MessageRun]], list[Held]],
        stopping: asyncio.Event,
    ) -> None:
        self.queue = queue
        self.concurrency = concurrency
        self.pace = Pace()
        self.waiting: deque[Held] = deque()
        """Popped, and not begun."""
        self._stopping = stopping
        self._is_one_by_one = is_one_by_one
        """The queue limits deliveries that are out at once: each job must be one."""
        self._is_limited = is_limited
        """What is popped counts, and must not wait here while others could run it."""
        self._hold = hold
        self._poller = Poller(queue.queen, stopping)
        self._idle: deque[asyncio.Future[None]] = deque()
        self._wanted = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def busy(self) -> float:
        """Share of its places that jobs at hand take, or could."""
        return min(1.0, (self.pace.running + len(self.waiting)) / self.concurrency)

    def empty(self) -> list[Held]:
        """The jobs that have not begun, once the lane is stopping: it begins none of them."""
        self._wanted.set()
        rest = [held for held in self.waiting if not held.is_gone]
        self.waiting.clear()
        while self._idle:
            self._wake()
        return rest

    def take(self) -> Held | None:
        """The next job that is at hand; None for none."""
        waiting = self.waiting
        while waiting and not self.is_stopping:
            held = waiting.popleft()
            if len(waiting) <= _MOST_AHEAD // 2:
                self._wanted.set()
            if not held.is_gone:
                return held
        return None

    async def some(self) -> None:
        """Wait until there may be a job at hand, or the lane stops."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(future)
        self._wanted.set()
        await future

    async def fetch(self) -> None:
        """Pop as many jobs as there is room for, until the lane stops."""
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
                _LOG.warning("jobs.pop_failed: %s: %s", self.queue.name, error)
            if not runs:
                await self._poller.pause()
                continue
            jobs = self._hold(runs)
            self.waiting.extend(jobs)
            for _ in range(min(len(self._idle), len(jobs))):
                self._wake()

    def _wake(self) -> None:
        future = self._idle.popleft()
        if not future.done():
            future.set_result(None)

    def _room(self) -> int:
        ahead = 0 if self._is_limited else self.pace.ahead()
        if len(self.waiting) > ahead // 2:
            return 0
        free = self.concurrency - self.pace.running
        return min(free + ahead - len(self.waiting), _MOST_AHEAD)

    async def _pop(self, room: int) -> Sequence[MessageRun]:
        batch = 1 if self._is_one_by_one else room
        partitions = min(batch, _MOST_PARTITIONS)
        queue = self.queue.batch(batch).partitions(partitions)
        return await self._poller.pop(queue.wait(True).timeout_millis(_WAIT_MILLIS).pop_request)
