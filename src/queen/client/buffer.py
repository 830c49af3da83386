"""Pushes gathered in memory: bounded, kept in order, and lost only with a word to the caller."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from queen import errors
from queen.client.producers import Producer
from queen.wire.messages import Pushed, PushItem

if TYPE_CHECKING:
    from queen.client.client import Queen
    from queen.client.queue import Queue

_LOG: Final = logging.getLogger("queen.client")
_CLOSE_SECONDS: Final = 30.0
_MOST_PAUSE_SECONDS: Final = 5.0
_BATCH_ITEMS: Final = 5_000
_BATCH_BYTES: Final = 8 * 2**20


class BufferOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a buffer is sent: at so many messages, or after so long."""

    message_count: int = 100
    time_millis: int = 1_000

    @classmethod
    def of(cls, given: Mapping[str, int]) -> "BufferOptions":
        try:
            options = msgspec.convert(dict(given), cls)
        except msgspec.ValidationError as error:
            raise errors.BadRequest(f"the options of a buffer: {error}") from error
        if options.message_count < 1 or options.time_millis < 1:
            raise errors.BadRequest("message_count and time_millis must be at least 1")
        return options


class Buffers:
    """The buffers of a client, one for each queue and partition, with one bound for all."""

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen
        self._buffers: dict[tuple[str, str], _Buffer] = {}
        self._messages = 0
        self._bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_closed = False
        self.flushed = 0
        self.failed_flushes = 0
        self._refused: list[PushItem] = []
        self._refusal: errors.QueenError | None = None

    async def push(self, queue: "Queue[Any]", items: list[PushItem]) -> list[Pushed]:
        """Take the items when there is room for them; waits for it."""
        if self._is_closed:
            raise errors.BadRequest("the client is closed")
        config = self._queen.config
        while (
            self._messages >= config.buffer_max_messages or self._bytes >= config.buffer_max_bytes
        ):
            self._has_room.clear()
            await self._has_room.wait()
        assert queue.buffering is not None
        key = (queue.name or "", queue.partition_name or "Default")
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = _Buffer(self, self._queen, queue.key)
        self._messages += len(items)
        self._bytes += sum(len(item.payload) for item in items)
        buffer.add(items, queue.buffering)
        return [Pushed(status="buffered", transaction_id=item.transaction_id) for item in items]

    def sent(self, items: list[PushItem]) -> None:
        self._messages -= len(items)
        self._bytes -= sum(len(item.payload) for item in items)
        self.flushed += len(items)
        self._has_room.set()

    def refuse(self, items: list[PushItem], error: errors.QueenError) -> None:
        """Remember what no server will take; `flush_all_buffers` and `close` raise it."""
        _LOG.error("buffer.refused: %d messages: %s", len(items), error)
        self._refused.extend(items)
        self._refusal = error

    def _raise_refused(self) -> None:
        if self._refusal is not None:
            refused, error = self._refused, self._refusal
            self._refused, self._refusal = [], None
            raise errors.PushError(
                f"{len(refused)} buffered messages were refused: {error}", stored=[], items=refused
            ) from error

    async def flush(self, queue: "Queue[Any]") -> None:
        key = (queue.name or "", queue.partition_name or "Default")
        if (buffer := self._buffers.get(key)) is not None:
            await buffer.flush()
        self._raise_refused()

    async def flush_all(self) -> None:
        await asyncio.gather(*(buffer.flush() for buffer in self._buffers.values()))
        self._raise_refused()

    async def close(self) -> None:
        """Store what is left; raises with how much could not be stored in time."""
        self._is_closed = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.flush_all(), _CLOSE_SECONDS)
        for buffer in self._buffers.values():
            buffer.stop()
        if self._messages:
            left = [item for buffer in self._buffers.values() for item in buffer.left()]
            raise errors.PushError(
                f"{len(left)} buffered messages could not be stored", stored=[], items=left
            )

    def stats(self) -> dict[str, Any]:
        """How much is waiting, and how it went so far."""
        oldest = [since for b in self._buffers.values() if (since := b.since) is not None]
        return {
            "activeBuffers": sum(1 for b in self._buffers.values() if b.count),
            "totalBufferedMessages": self._messages,
            "totalBufferedBytes": self._bytes,
            "oldestBufferAge": round((time.monotonic() - min(oldest)) * 1000) if oldest else 0,
            "flushesPerformed": sum(b.flushes for b in self._buffers.values()),
            "flushesFailed": self.failed_flushes,
            "messagesFlushed": self.flushed,
        }


class _Buffer:
    """What waits for one queue and partition, in order: one request is under way at a time."""

    def __init__(self, buffers: Buffers, queen: "Queen", key: str) -> None:
        self._buffers = buffers
        self._queen = queen
        self._key = key
        self._producer = Producer()
        self._waiting: deque[PushItem] = deque()
        self._sending: list[PushItem] = []
        self._options = BufferOptions()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_flushing = False
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self.since: float | None = None
        self.flushes = 0

    @property
    def count(self) -> int:
        return len(self._waiting) + len(self._sending)

    def left(self) -> list[PushItem]:
        return [*self._sending, *self._waiting]

    def add(self, items: list[PushItem], options: BufferOptions) -> None:
        self._options = options
        self._waiting.extend(items)
        self._is_empty.clear()
        if self.since is None:
            self.since = time.monotonic()
        if len(self._waiting) >= options.message_count:
            self._send()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(options.time_millis / 1000, self._send)

    async def flush(self) -> None:
        """Wait until all that was added is stored."""
        self._is_flushing = True
        try:
            if self.count:
                self._send()
            await self._is_empty.wait()
        finally:
            self._is_flushing = False

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_all())

    async def _send_all(self) -> None:
        """Send until less than a batch waits; one that fails stays in front, with its number."""
        while self._waiting and (
            self._is_flushing
            or len(self._waiting) >= self._options.message_count
            or (
                self.since is not None
                and time.monotonic() >= self.since + self._options.time_millis / 1000
            )
        ):
            self._sending = self._take()
            self._producer.sequence += 1
            await self._store(self._sending)
            self._buffers.sent(self._sending)
            self._sending = []
            self.flushes += 1
            self.since = time.monotonic() if self._waiting else None
        if not self._waiting:
            self._is_empty.set()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._options.time_millis / 1000, self._send)

    def _take(self) -> list[PushItem]:
        """The next batch: no larger than one request may be."""
        taken: list[PushItem] = []
        size = 0
        while self._waiting and len(taken) < _BATCH_ITEMS:
            size += len(self._waiting[0].payload)
            if taken and size > _BATCH_BYTES:
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _store(self, items: list[PushItem]) -> None:
        pause = 0.1
        while True:
            try:
                # The same number each time: what was stored before its answer got lost stays one.
                await self._queen.send(items, self._producer, key=self._key)
                return
            except errors.RequestError as error:
                # It will never be taken: say so, and do not let it block what is behind.
                self._buffers.refuse(items, error)
                return
            except (errors.OutcomeUnknown, errors.ServiceError) as error:
                self._buffers.failed_flushes += 1
                _LOG.warning("buffer.flush_failed: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MOST_PAUSE_SECONDS)
