"""The buffers of a client: bounded and in order. Lost items always raise an error."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from queen import errors
from queen.client.push.buffer import Buffer
from queen.client.push.buffer_room import BufferRoom
from queen.client.push.buffered import Buffered, BufferOptions
from queen.client.push.push import Pusher, size_of
from queen.wire.messages import PushItem


class Buffers:
    """The buffers of a client, for each event loop that pushes."""

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher
        self._by_loop: dict[asyncio.AbstractEventLoop, LoopBuffers] = {}
        self.is_closed = False

    def here(self) -> "LoopBuffers":
        """Return the buffers of the running loop; it takes over those of a loop that has ended."""
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(loop)
        if found is None:
            ended = next((each for each in self._by_loop if each.is_closed()), None)
            if ended is None:
                found = self._by_loop[loop] = LoopBuffers(self, self._pusher)
            else:
                found = self._by_loop[loop] = self._by_loop.pop(ended)
                found.rebind()
        return found

    async def close(self) -> None:
        """Store all items; raises PushError with those that could not be stored in time."""
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
        """How many messages wait to be stored."""
        return sum(each.messages for each in self._by_loop.values())

    def stats(self) -> dict[str, Any]:
        """How many messages wait, and counts of the flushes so far."""
        found = [each.stats() for each in self._by_loop.values()] or [
            LoopBuffers(self, self._pusher).stats()
        ]
        oldest = max(each["oldestBufferAge"] for each in found)
        summed = {name: sum(each[name] for each in found) for name in found[0]}
        return {**summed, "oldestBufferAge": oldest}


class LoopBuffers:
    """The buffers of one event loop, one per queue and partition, with one bound for all."""

    def __init__(self, client: Buffers, pusher: Pusher) -> None:
        self._client = client
        self._pusher = pusher
        self._buffers: dict[tuple[str, str], Buffer] = {}
        self._room = BufferRoom(pusher.config)

    @property
    def messages(self) -> int:
        return self._room.messages

    def rebind(self) -> None:
        """Move to another event loop."""
        self._room.rebind()
        for buffer in self._buffers.values():
            buffer.rebind()

    async def push(
        self,
        target: tuple[str, str],
        items: list[PushItem],
        options: BufferOptions,
        *,
        key: Callable[[], str],
    ) -> Buffered:
        """
        Buffer items for a queue and partition; waits for room, or raises BufferFull.

        ``key`` returns the affinity key of their requests.
        """
        self._check_open()
        count = len(items)
        size = size_of(items[0]) if count == 1 else sum(map(size_of, items))
        if not self._room.take(count, size):
            if options.when_full == "raise":
                raise errors.BufferFull(f"{self.messages} messages wait to be stored")
            await self._wait_for_room(count, size)
        buffer = self._buffers.get(target)
        if buffer is None:
            buffer = self._buffers[target] = Buffer(self._room, self._pusher, key())
        return buffer.add(items, size, options)

    def _check_open(self) -> None:
        if self._client.is_closed:
            raise errors.BadRequest("the client is closed")

    async def _wait_for_room(self, count: int, size: int) -> None:
        while not self._room.take(count, size):
            for buffer in self._buffers.values():
                buffer.send_all()  # Before the flush interval, because a push waits.
            await self._room.wait()
            self._check_open()

    async def flush(self, target: tuple[str, str]) -> None:
        if (buffer := self._buffers.get(target)) is not None:
            await buffer.flush()
        self._room.raise_rejected()

    async def flush_all(self) -> None:
        await asyncio.gather(*(buffer.flush() for buffer in self._buffers.values()))
        self._room.raise_rejected()

    async def finish(self, now: asyncio.Event | None = None) -> None:
        """Flush within ``close_timeout``, or until ``now`` is set; raises with unstored items."""
        flushes = [asyncio.ensure_future(buffer.flush()) for buffer in self._buffers.values()]
        waits = [asyncio.ensure_future(asyncio.gather(*flushes, return_exceptions=True))]
        if now is not None:
            waits.append(asyncio.ensure_future(now.wait()))  # pyright: ignore[reportArgumentType] - of other results
        try:
            await asyncio.wait(
                waits,
                timeout=self._pusher.config.close_timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for wait in [*waits, *flushes]:
                wait.cancel()
            await asyncio.gather(*waits, *flushes, return_exceptions=True)
        left = [each for buffer in self._buffers.values() for each in await buffer.give_up()]
        self._buffers.clear()
        self._room.clear()
        self._room.raise_rejected(left)

    def stats(self) -> Mapping[str, Any]:
        room = self._room
        oldest = [since for b in self._buffers.values() if (since := b.since) is not None]
        return {
            "activeBuffers": sum(1 for b in self._buffers.values() if b.count),
            "totalBufferedMessages": room.messages,
            "totalBufferedBytes": room.bytes,
            "oldestBufferAge": round((time.monotonic() - min(oldest)) * 1000) if oldest else 0,
            "flushesPerformed": sum(b.flushes for b in self._buffers.values()),
            "flushesFailed": room.failed_flushes,
            "messagesFlushed": room.flushed,
            "messagesRefused": room.rejections,
        }
