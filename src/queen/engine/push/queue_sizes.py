"""How full queues with a maximum size are: counts that are at most five seconds old."""

import asyncio
import time
from typing import Final

import msgspec

from queen.bounded import BoundedDict
from queen.engine.caches.catalogue import Queue
from queen.settings import Settings
from queen.store.store import Store

_BELIEVED_SECONDS: Final = 5.0
_REFUSING_SECONDS: Final = 0.5


class Backlog(msgspec.Struct):
    """A count, when it was read, and what this process has ever added to it."""

    messages: int
    read_at: float
    added: int = 0
    reading: asyncio.Task[None] | None = None


class QueueSizes:
    """Counts are asked for when they are needed: a queue without a maximum size costs nothing."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._backlogs = BoundedDict[int, Backlog](settings.catalogue_entries)

    async def admits(self, queue: Queue, count: int) -> bool:
        """Whether the queue has room for so many more; if so, they are counted in."""
        backlog = self._backlogs.get(queue.id)
        if backlog is None:
            backlog = self._backlogs[queue.id] = Backlog(0, float("-inf"))
        # Consumers make room all the time, so nobody is refused by a count that has aged.
        is_full = backlog.messages + count > queue.max_size
        believed = _REFUSING_SECONDS if is_full else _BELIEVED_SECONDS
        if time.monotonic() - backlog.read_at > believed:
            if backlog.reading is None:
                backlog.reading = asyncio.create_task(self._read(queue, backlog))
                backlog.reading.add_done_callback(_look_at)
            # Shared by all who ask meanwhile; one who goes away does not end it.
            await asyncio.shield(backlog.reading)
        if backlog.messages + count > queue.max_size:
            return False
        backlog.messages += count
        backlog.added += count
        return True

    async def _read(self, queue: Queue, backlog: Backlog) -> None:
        now, added = time.monotonic(), backlog.added
        try:
            messages = await self._store.queues.backlog(queue.id, queue.max_size + 1)
            # What was let in meanwhile may not have been stored when it was counted.
            backlog.messages = messages + backlog.added - added
            backlog.read_at = now
        finally:
            backlog.reading = None


def _look_at(reading: asyncio.Task[None]) -> None:
    """An error is each waiter's to see; if all have gone, nobody's."""
    if not reading.cancelled():
        reading.exception()
