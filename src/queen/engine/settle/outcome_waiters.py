"""Callers that wait for the end of a message or a workflow."""

import asyncio
import random
import time
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Generic, TypeVar

from queen import errors
from queen.engine.caches.catalogue import Queue
from queen.engine.core import Core
from queen.engine.runtime.periodic import PeriodicTask
from queen.engine.settle.results import Outcome, Results
from queen.settings import Settings
from queen.store.results import Place

_IDLE_SECONDS: Final = 3_600.0
"""Without waiters. The first waiter wakes the task."""
_PER_LOOK: Final = 500

K = TypeVar("K")
T = TypeVar("T")


class OutcomeWaiters(PeriodicTask, Generic[K, T]):
    """The waiters of one process by key, and the value that they receive."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.max_waiters
        self._waiting: dict[K, list[asyncio.Future[T | None]]] = {}
        self._count = 0
        self._is_closed = False
        super().__init__(pause_seconds=_IDLE_SECONDS)

    @abstractmethod
    async def look(self, keys: Sequence[K]) -> Mapping[K, T]:
        """The keys that have ended, with their values."""

    def due(self) -> list[K]:
        """The keys to check now."""
        return list(self._waiting)

    @abstractmethod
    async def rest(self, took_seconds: float) -> float:
        """The time until the next check."""

    async def end_of(self, key: K, seconds: float, *, is_looked_at: bool) -> T | None:
        """
        The value of the key once it has ended, or None after ``seconds``.

        ``is_looked_at``: check the key before waiting. Raises TooManyWaiters.
        """
        if self._is_closed or seconds <= 0:
            return None
        if self._count >= self._most:
            raise errors.TooManyWaiters(f"{self._count} requests already wait; try later")
        future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        # Register before the check, so that an end in between wakes this waiter.
        waiting = self._waiting.setdefault(key, [])
        waiting.append(future)
        self._count += 1
        try:
            if is_looked_at and (found := await self.look([key])):
                return found[key]
            if self._count == 1:
                self.wake()  # Start the periodic checks.
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return None
        finally:
            self._count -= 1
            waiting.remove(future)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]

    def tell(self, ended: Mapping[K, T]) -> None:
        """Wake the waiters of these keys."""
        for key, end in ended.items():
            for future in self._waiting.get(key, ()):
                if not future.done():
                    future.set_result(end)

    async def run(self) -> float:
        """Check which of the keys with waiters have ended."""
        if not self._waiting:
            return _IDLE_SECONDS
        began = time.monotonic()
        keys = self.due()
        for first in range(0, len(keys), _PER_LOOK):
            self.tell(await self.look(keys[first : first + _PER_LOOK]))
        return await self.rest(time.monotonic() - began)

    async def close(self) -> None:
        self.release()
        await super().close()

    def release(self) -> None:
        """Wake all waiters without a value, and accept no more."""
        self._is_closed = True
        for waiting in self._waiting.values():
            for future in waiting:
                if not future.done():
                    future.set_result(None)


class WorkflowWaiters(OutcomeWaiters[str, bool]):
    """
    Waiters by workflow id.

    The process that ends a workflow wakes its own waiters. For workflows that other processes end,
    one query checks all waiters: on a notification and periodically.
    """

    _LOOK_SECONDS: Final = 5.0
    """The interval of the check that covers lost notifications."""
    _POOLED_LOOK_SECONDS: Final = 1.0
    """The interval without notifications."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        core.signals.on_workflows_ended.subscribe(self._end)
        super().__init__(core.settings)

    async def wait(self, id_: str, seconds: float) -> None:
        """Return when the workflow has ended or was deleted, or after ``seconds``."""
        await self.end_of(id_, seconds, is_looked_at=True)

    def _end(self, ids: Collection[str] | None) -> None:
        if ids is None:
            self.wake()
        else:
            self.tell(dict.fromkeys(ids, True))

    async def look(self, keys: Sequence[str]) -> Mapping[str, bool]:
        still = await self._store.workflows.open_of(keys)
        return {id_: True for id_ in keys if id_ not in still}

    async def rest(self, took_seconds: float) -> float:
        is_pooled = self._store.database.is_pooled
        seconds = self._POOLED_LOOK_SECONDS if is_pooled else self._LOOK_SECONDS
        return seconds * random.uniform(0.8, 1.2)


MessageKey = tuple[int, str, str]
"""Queue id, transactionId and partition."""


class MessageWaiters(OutcomeWaiters[MessageKey, Outcome]):
    """
    Waiters by message.

    An ack of this process wakes the waiters of its partition, if it is known. Periodic checks find
    messages that other processes acknowledged.
    """

    _LOOK_SECONDS = 0.1
    """The interval between two checks of all."""
    _GAP_SECONDS: Final = 0.005
    _REST: Final = 4.0
    """The pause after a check, relative to its duration, to limit the load on the database."""

    def __init__(self, core: Core, results: Results) -> None:
        self._results = results
        core.signals.on_settled.subscribe(self._stir)
        self._places: dict[MessageKey, Place | None] = {}
        self._settled: set[int | None] = set()
        self._all_at = 0.0
        super().__init__(core.settings)

    def _stir(self, partition_ids: Collection[int | None]) -> None:
        if self._waiting:
            self._settled.update(partition_ids)
            self.wake()

    def due(self) -> list[MessageKey]:
        settled, self._settled = self._settled, set()
        now = time.monotonic()
        if None in settled or now >= self._all_at:
            self._all_at = now + self._LOOK_SECONDS
            return super().due()
        places = self._places
        return [
            key
            for key in self._waiting
            if (place := places.get(key)) is None or place.partition_id in settled
        ]

    async def wait(
        self, queue: Queue, transaction_id: str, *, partition: str, seconds: float
    ) -> Outcome:
        """The outcome of a message once it has one, or its state after ``seconds``."""
        found = await self._results.find(queue, transaction_id, partition=partition)
        if found.is_end or seconds <= 0:
            return found
        key = (queue.id, transaction_id, partition)
        self._places[key] = found.place
        try:
            ended = await self.end_of(key, seconds, is_looked_at=False)
        finally:
            if key not in self._waiting:
                self._places.pop(key, None)
        return ended or await self._results.find(queue, transaction_id, partition=partition)

    async def look(self, keys: Sequence[MessageKey]) -> Mapping[MessageKey, Outcome]:
        unplaced = [
            key for key in keys if (place := self._places.get(key)) is None or place.offset is None
        ]
        if unplaced:
            self._places.update(await self._results.places(unplaced))
        outcomes = await self._results.look([(*key[:2], self._places.get(key)) for key in keys])
        for key in self._places.keys() - self._waiting.keys():
            del self._places[key]
        return {
            key: outcome
            for key, outcome in zip(keys, outcomes, strict=True)
            if outcome is not None and outcome.is_end
        }

    async def rest(self, took_seconds: float) -> float:
        await asyncio.sleep(max(self._GAP_SECONDS, self._REST * took_seconds))
        return max(0.0, self._all_at - time.monotonic())
