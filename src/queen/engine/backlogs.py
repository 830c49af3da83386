"""How full queues with a maximum size are: counts that are at most five seconds old."""

import time
from typing import Final

import msgspec

from queen.engine.catalogue import Queue
from queen.store.store import Store

_BELIEVED_SECONDS: Final = 5.0
_REFUSING_SECONDS: Final = 0.5


class Backlog(msgspec.Struct):
    """A count, when it was read, and what this process has added since."""

    messages: int
    read_at: float


class Backlogs:
    """Counts are asked for when they are needed: a queue without a maximum size costs nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._backlogs: dict[int, Backlog] = {}

    async def admits(self, queue: Queue, count: int) -> bool:
        """Whether the queue has room for so many more; if so, they are counted in."""
        now = time.monotonic()
        backlog = self._backlogs.get(queue.id)
        # Consumers make room all the time, so nobody is refused by a count that has aged.
        is_full = backlog is not None and backlog.messages + count > queue.max_size
        believed = _REFUSING_SECONDS if is_full else _BELIEVED_SECONDS
        if backlog is None or now - backlog.read_at > believed:
            messages = await self._store.queues.backlog(queue.id, queue.max_size + 1)
            backlog = self._backlogs[queue.id] = Backlog(messages, now)
        if backlog.messages + count > queue.max_size:
            return False
        backlog.messages += count
        return True
