"""The capacity that all buffers of an event loop share, and counts of their items."""

import asyncio
import logging
from collections import deque
from typing import Final

from queen import errors
from queen.client.config import Config
from queen.client.push.push import size_of
from queen.wire.messages import PushItem

_LOG: Final = logging.getLogger("queen.client")
_MAX_KEPT_REJECTIONS: Final = 1_000
"""Rejected items kept for the error. Their count is always exact."""


class BufferRoom:
    """Bounds the messages and bytes of all buffers together."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.messages = 0
        self.bytes = 0
        self.flushed = 0
        self.failed_flushes = 0
        self.rejections = 0
        """Rejected items since the last `raise_rejected`."""
        self._rejected: deque[errors.Unstored] = deque(maxlen=_MAX_KEPT_REJECTIONS)
        self._changed = asyncio.Event()

    def rebind(self) -> None:
        """Move to another event loop."""
        self._changed = asyncio.Event()

    def take(self, count: int, size: int) -> bool:
        """Count a push if it fits. A push above the limit fits into empty buffers."""
        messages, bytes_ = self.messages + count, self.bytes + size
        if self.messages and (
            messages > self._config.buffer_max_messages or bytes_ > self._config.buffer_max_bytes
        ):
            return False
        self.messages, self.bytes = messages, bytes_
        return True

    async def wait(self) -> None:
        """Wait until items were stored, rejected or dropped."""
        self._changed.clear()
        await self._changed.wait()

    def free(self, items: list[PushItem]) -> None:
        """Count items that are stored."""
        self._free(items)
        self.flushed += len(items)

    def reject(self, rejected: list[errors.Unstored]) -> None:
        """Keep items that the server rejects; `flush_all_buffers` and `close` raise them."""
        _LOG.error("buffer.rejected: %d messages: %s", len(rejected), rejected[0].error)
        self._free([each.item for each in rejected])
        self._rejected.extend(rejected)
        self.rejections += len(rejected)

    def clear(self) -> None:
        """Drop all waiting items."""
        self.messages = self.bytes = 0
        self._changed.set()

    def raise_rejected(self, left: "list[errors.Unstored] | None" = None) -> None:
        """Raise PushError if there are rejected items or ``left`` ones."""
        left = left or []
        count, self.rejections = self.rejections + len(left), 0
        if count:
            failed = [*self._rejected, *left]
            self._rejected.clear()
            reason = "could not be stored" if left else "were rejected"
            text = f"{count} buffered messages {reason}: {failed[0].error}"
            raise errors.PushError(text, stored=[], failed=failed)

    def _free(self, items: list[PushItem]) -> None:
        self.messages -= len(items)
        self.bytes -= sum(map(size_of, items))
        self._changed.set()
