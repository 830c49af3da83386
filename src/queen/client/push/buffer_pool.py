"""Pushes gathered in memory: bounded, kept in order, and lost only with a word to the caller."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from queen import errors
from queen.client.push.buffer import Buffer, Buffered
from queen.client.push.push import size_of
from queen.wire.messages import PushItem

if TYPE_CHECKING:
    from queen.client.client import Queen
    from queen.client.queue import Queue

_LOG: Final = logging.getLogger("queen.client")
_MOST_REFUSED: Final = 1_000
"""Refused items that are kept for who asks; their number is always right."""


class Buffers:
    """The buffers of a client: those of each event loop that pushes."""

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen
        self._by_loop: dict[asyncio.AbstractEventLoop, LoopBuffers] = {}
        self.is_closed = False

    def open(self) -> None:
        self.is_closed = False

    def here(self) -> "LoopBuffers":
        """Those of the running loop; what a loop that has ended left behind goes on in this one."""
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(loop)
        if found is None:
            ended = next((each for each in self._by_loop if each.is_closed()), None)
            if ended is None:
                found = self._by_loop[loop] = LoopBuffers(self, self._queen)
            else:
                found = self._by_loop[loop] = self._by_loop.pop(ended)
                found.rebind()
        return found

    async def close(self) -> None:
        """Store what is left; raises with how much could not be stored in time."""
        self.is_closed = True
        here = self.here()
        others = [
            asyncio.wrap_future(asyncio.run_coroutine_threadsafe(each.finish(), loop))
            for loop, each in self._by_loop.items()
            if each is not here and loop.is_running()
        ]
        ends = await asyncio.gather(here.finish(), *others, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    @property
    def messages(self) -> int:
        """How many wait to be stored."""
        return sum(each.messages for each in self._by_loop.values())

    def stats(self) -> dict[str, Any]:
        """How much is waiting, and how it went so far."""
        found = [each.stats() for each in self._by_loop.values()] or [
            LoopBuffers(self, self._queen).stats()
        ]
        oldest = max(each["oldestBufferAge"] for each in found)
        summed = {name: sum(each[name] for each in found) for name in found[0]}
        return {**summed, "oldestBufferAge": oldest}


class LoopBuffers:
    """Those of one event loop, one for each queue and partition, with one bound for all."""

    def __init__(self, client: Buffers, queen: "Queen") -> None:
        self._client = client
        self._queen = queen
        self._buffers: dict[tuple[str, str], Buffer] = {}
        self.messages = 0
        self._bytes = 0
        self._has_room = asyncio.Event()
        self._flushed = 0
        self.failed_flushes = 0
        self._refused: deque[errors.Unstored] = deque(maxlen=_MOST_REFUSED)
        self._refusals = 0

    def rebind(self) -> None:
        """Go on in another loop."""
        self._has_room = asyncio.Event()
        for buffer in self._buffers.values():
            buffer.rebind()

    async def push(self, queue: "Queue[Any]", items: list[PushItem]) -> Buffered:
        """Take the items when there is room for them; waits for it, or raises BufferFull."""
        self._check_open()
        options = queue.buffering
        assert options is not None
        size = size_of(items[0]) if len(items) == 1 else sum(map(size_of, items))
        if not self._has_room_for(len(items), size):
            if options.when_full == "raise":
                raise errors.BufferFull(f"{self.messages} messages wait to be stored")
            await self._make_room(len(items), size)
        self.messages += len(items)
        self._bytes += size
        key = _key(queue)
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = Buffer(self, self._queen, queue.key)
        return buffer.add(items, size, options)

    def _check_open(self) -> None:
        if self._client.is_closed:
            raise errors.BadRequest("the client is closed")

    def _has_room_for(self, count: int, size: int) -> bool:
        """A push that is larger than all the room may come in when nothing else is there."""
        config = self._queen.config
        return not self.messages or (
            self.messages + count <= config.buffer_max_messages
            and self._bytes + size <= config.buffer_max_bytes
        )

    async def _make_room(self, count: int, size: int) -> None:
        while not self._has_room_for(count, size):
            for buffer in self._buffers.values():
                buffer.send_all()  # Whatever its time says: somebody waits.
            self._has_room.clear()
            await self._has_room.wait()
            self._check_open()

    def sent(self, items: list[PushItem]) -> None:
        self.messages -= len(items)
        self._bytes -= sum(map(size_of, items))
        self._flushed += len(items)
        self._has_room.set()

    def refuse(self, refused: list[errors.Unstored]) -> None:
        """Remember what no server will take; `flush_all_buffers` and `close` raise it."""
        _LOG.error("buffer.refused: %d messages: %s", len(refused), refused[0].error)
        self.messages -= len(refused)
        self._bytes -= sum(size_of(each.item) for each in refused)
        self._refused.extend(refused)
        self._refusals += len(refused)
        self._has_room.set()

    async def flush(self, queue: "Queue[Any]") -> None:
        if (buffer := self._buffers.get(_key(queue))) is not None:
            await buffer.flush()
        self._raise_refused()

    async def flush_all(self) -> None:
        await asyncio.gather(*(buffer.flush() for buffer in self._buffers.values()))
        self._raise_refused()

    async def finish(self, now: asyncio.Event | None = None) -> None:
        """Flush within ``close_timeout``, or until ``now`` is set; raises with what is left."""
        flushes = [asyncio.ensure_future(buffer.flush()) for buffer in self._buffers.values()]
        waits = [asyncio.ensure_future(asyncio.gather(*flushes, return_exceptions=True))]
        if now is not None:
            waits.append(asyncio.ensure_future(now.wait()))  # pyright: ignore[reportArgumentType] - of other results
        try:
            await asyncio.wait(
                waits,
                timeout=self._queen.config.close_timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for wait in [*waits, *flushes]:
                wait.cancel()
            await asyncio.gather(*waits, *flushes, return_exceptions=True)
        left = [each for buffer in self._buffers.values() for each in await buffer.give_up()]
        self._buffers.clear()
        self.messages = self._bytes = 0
        self._has_room.set()
        self._raise_refused(left)

    def _raise_refused(self, left: "list[errors.Unstored] | None" = None) -> None:
        left = left or []
        count, self._refusals = self._refusals + len(left), 0
        if count:
            failed = [*self._refused, *left]
            self._refused.clear()
            what = "could not be stored" if left else "were refused"
            text = f"{count} buffered messages {what}: {failed[0].error}"
            raise errors.PushError(text, stored=[], failed=failed)

    def stats(self) -> Mapping[str, Any]:
        oldest = [since for b in self._buffers.values() if (since := b.since) is not None]
        return {
            "activeBuffers": sum(1 for b in self._buffers.values() if b.count),
            "totalBufferedMessages": self.messages,
            "totalBufferedBytes": self._bytes,
            "oldestBufferAge": round((time.monotonic() - min(oldest)) * 1000) if oldest else 0,
            "flushesPerformed": sum(b.flushes for b in self._buffers.values()),
            "flushesFailed": self.failed_flushes,
            "messagesFlushed": self._flushed,
            "messagesRefused": self._refusals,
        }


def _key(queue: "Queue[Any]") -> tuple[str, str]:
    return queue.name or "", queue.partition_name or "Default"
