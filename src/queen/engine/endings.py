"""Those who wait for the end of a message: one look for all of them, again and again."""

import asyncio
import contextlib
import time
from typing import Final

from queen import errors
from queen.engine.catalogue import Queue
from queen.engine.results import Outcome, Results
from queen.settings import Settings
from queen.store.results import Place

_LOOK_SECONDS: Final = 0.1
"""Between two looks, where no ack of this process tells."""
_GAP_SECONDS: Final = 0.005
_REST: Final = 4.0
"""After a look, as a multiple of what it took: the database is for others too."""
_PER_LOOK: Final = 500


class _Waiter:
    """Somebody who waits."""

    __slots__ = ("done", "name", "partition", "place", "queue_id")

    def __init__(self, queue_id: int, name: str, partition: str, place: Place | None) -> None:
        self.queue_id = queue_id
        self.name = name
        self.partition = partition
        self.place = place
        self.done: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()


class Endings:
    """The waiters of one process."""

    def __init__(self, results: Results, settings: Settings) -> None:
        self._results = results
        self._settings = settings
        self._waiters: set[_Waiter] = set()
        self._stirred = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Answer those who wait with what is known."""
        self._is_closed = True
        for waiter in tuple(self._waiters):
            self._finish(waiter, None)
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking

    def stir(self) -> None:
        """Something was settled here: look now."""
        if self._waiters:
            self._stirred.set()

    async def wait(
        self, queue: Queue, transaction_id: str, *, partition: str, seconds: float
    ) -> Outcome:
        """What became of a message, as soon as it has come to an end, or after so many seconds."""
        results = self._results
        found = await results.find(queue, transaction_id, partition=partition)
        if found.is_end or seconds <= 0 or self._is_closed:
            return found
        if len(self._waiters) >= self._settings.max_waiters:
            raise errors.TooManyWaiters(f"{len(self._waiters)} wait already")
        waiter = _Waiter(queue.id, transaction_id, partition, found.place)
        self._waiters.add(waiter)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_for_ever())
        try:
            async with asyncio.timeout(seconds):
                ended = await waiter.done
        except TimeoutError:
            ended = None
        finally:
            self._waiters.discard(waiter)
        return ended or await results.find(queue, transaction_id, partition=partition)

    def _finish(self, waiter: _Waiter, outcome: Outcome | None) -> None:
        self._waiters.discard(waiter)
        if not waiter.done.done():
            waiter.done.set_result(outcome)

    async def _look_for_ever(self) -> None:
        while self._waiters:
            self._stirred.clear()
            began = time.monotonic()
            # While the database is away nobody hears of an end.
            with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
                await self._look()
            rest = _REST * (time.monotonic() - began)
            await asyncio.sleep(max(_GAP_SECONDS, rest))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._stirred.wait()

    async def _look(self) -> None:
        waiters = list(self._waiters)
        for first in range(0, len(waiters), _PER_LOOK):
            some = waiters[first : first + _PER_LOOK]
            for each in some:
                if each.place is None or each.place.offset is None:
                    each.place = await self._results.place(each.queue_id, each.name, each.partition)
            outcomes = await self._results.look(
                [(each.queue_id, each.name, each.place) for each in some]
            )
            for each, outcome in zip(some, outcomes, strict=True):
                if outcome is not None and outcome.is_end:
                    self._finish(each, outcome)
