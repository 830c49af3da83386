"""The number of messages in queues with a maximum size. The counts are at most five seconds old."""

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
    """A count, when it was read, and how many messages this process has added in total."""

    messages: int
    read_at: float
    added: int = 0
    reading: asyncio.Task[None] | None = None


class QueueSizes:
    """Reads counts on demand, so a queue without a maximum size costs nothing."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._backlogs = BoundedDict[int, Backlog](settings.catalogue_entries)

    async def admits(self, queue: Queue, count: int) -> bool:
        """Return whether the queue has room for ``count`` more messages, and add them if it has."""
        backlog = self._backlogs.get(queue.id)
        if backlog is None:
            backlog = self._backlogs[queue.id] = Backlog(0, float("-inf"))
        # Consumers free capacity continuously, so an old count must not reject a push.
        is_full = backlog.messages + count > queue.max_size
        believed = _REFUSING_SECONDS if is_full else _BELIEVED_SECONDS
        if time.monotonic() - backlog.read_at > believed:
            if backlog.reading is None:
                backlog.reading = asyncio.create_task(self._read(queue, backlog))
                backlog.reading.add_done_callback(_look_at)
            # All callers share this read. A cancelled caller does not end it.
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
            # Messages that were admitted meanwhile may be missing in this count.
            backlog.messages = messages + backlog.added - added
            backlog.read_at = now
        finally:
            backlog.reading = None


def _look_at(reading: asyncio.Task[None]) -> None:
    """Each waiter gets the error. If all were cancelled, ignore it."""
    if not reading.cancelled():
        reading.exception()
