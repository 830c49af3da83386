"""Pushes gathered in memory: bounded, kept in order, and lost only with a word to the caller."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from queen import errors
from queen.client.producers import Producer
from queen.client.pushing import refused_items
from queen.wire.messages import Pushed, PushItem

if TYPE_CHECKING:
    from queen.client.client import Queen
    from queen.client.queue import Queue

_LOG: Final = logging.getLogger("queen.client")
_MOST_PAUSE_SECONDS: Final = 5.0
_BATCH_ITEMS: Final = 5_000
_BATCH_BYTES: Final = 8 * 2**20


class BufferOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a buffer is sent: at so many messages or after so long; and what if it is full."""

    message_count: int = 100
    time_millis: int = 1_000
    when_full: Literal["wait", "raise"] = "wait"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "BufferOptions":
        try:
            options = msgspec.convert(dict(given), cls)
        except msgspec.ValidationError as error:
            raise errors.BadRequest(f"the options of a buffer: {error}") from error
        if options.message_count < 1 or options.time_millis < 1:
            raise errors.BadRequest("message_count and time_millis must be at least 1")
        return options


class Buffered(list[Pushed]):
    """The answers to a push that is in a buffer: ``await result.stored()`` waits for the server."""

    __slots__ = ("_buffer", "_number")

    def __init__(self, buffer: "_Buffer", items: list[PushItem]) -> None:
        super().__init__(
            [Pushed(status="buffered", transaction_id=item.transaction_id) for item in items]
        )
        self._buffer = buffer
        self._number = buffer.added

    async def stored(self) -> None:
        """Return when all of it is durable; raises PushError for what was refused."""
        await self._buffer.until(self._number - len(self), self._number)


class Buffers:
    """The buffers of a client, one for each queue and partition, with one bound for all."""

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen
        self._buffers: dict[tuple[str, str], _Buffer] = {}
        self._messages = 0
        self._bytes = 0
        self._has_room = asyncio.Event()
        self._is_closed = False
        self.flushed = 0
        self.failed_flushes = 0
        self._refused: list[errors.Unstored] = []

    def open(self) -> None:
        self._is_closed = False

    async def push(self, queue: "Queue[Any]", items: list[PushItem]) -> Buffered:
        """Take the items when there is room for them; waits for it, or raises BufferFull."""
        if self._is_closed:
            raise errors.BadRequest("the client is closed")
        options = queue.buffering
        assert options is not None
        key = (queue.name or "", queue.partition_name or "Default")
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = _Buffer(self, self._queen, queue.key)
        size = len(items[0].payload) if len(items) == 1 else sum(map(_size, items))
        if not self._has_room_for(len(items), size):
            if options.when_full == "raise":
                raise errors.BufferFull(f"{self._messages} messages wait to be stored")
            await self._make_room(len(items), size)
        self._messages += len(items)
        self._bytes += size
        buffer.add(items, size, options)
        return Buffered(buffer, items)

    def _has_room_for(self, count: int, size: int) -> bool:
        """A push that is larger than all the room may come in when nothing else is there."""
        config = self._queen.config
        return not self._messages or (
            self._messages + count <= config.buffer_max_messages
            and self._bytes + size <= config.buffer_max_bytes
        )

    async def _make_room(self, count: int, size: int) -> None:
        while not self._has_room_for(count, size):
            for buffer in self._buffers.values():
                buffer.send_all()  # Whatever its time says: somebody waits.
            self._has_room.clear()
            await self._has_room.wait()
            if self._is_closed:
                raise errors.BadRequest("the client is closed")

    def sent(self, items: list[PushItem]) -> None:
        self._messages -= len(items)
        self._bytes -= sum(map(_size, items))
        self.flushed += len(items)
        self._has_room.set()

    def refuse(self, refused: list[errors.Unstored]) -> None:
        """Remember what no server will take; `flush_all_buffers` and `close` raise it."""
        _LOG.error("buffer.refused: %d messages: %s", len(refused), refused[0].error)
        self._messages -= len(refused)
        self._bytes -= sum(_size(each.item) for each in refused)
        self._refused.extend(refused)
        self._has_room.set()

    def _raise_refused(self) -> None:
        if self._refused:
            refused, self._refused = self._refused, []
            raise errors.PushError(
                f"{len(refused)} buffered messages were refused: {refused[0].error}",
                stored=[],
                failed=refused,
            )

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
        flushes = [buffer.flush() for buffer in self._buffers.values()]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*flushes), self._queen.config.close_timeout)
        for buffer in self._buffers.values():
            await buffer.stop()
        left = [
            errors.Unstored(item, "server_unreachable", "not stored before the client was closed")
            for buffer in self._buffers.values()
            for item in buffer.left()
        ]
        self._buffers.clear()
        self._messages = self._bytes = 0
        self._has_room.set()
        refused, self._refused = self._refused, []
        if left or refused:
            raise errors.PushError(
                f"{len(left) + len(refused)} buffered messages could not be stored",
                stored=[],
                failed=[*refused, *left],
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
            "messagesRefused": len(self._refused),
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
        self._bytes = 0
        """Of what waits."""
        self._options = BufferOptions()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._send_until = 0
        """All up to this number goes out without waiting for its time."""
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._refusals: list[tuple[int, int, list[errors.Unstored]]] = []
        self.since: float | None = None
        self.flushes = 0
        self.added = 0
        self.settled = 0

    @property
    def count(self) -> int:
        return len(self._waiting) + len(self._sending)

    def left(self) -> list[PushItem]:
        return [*self._sending, *self._waiting]

    def add(self, items: list[PushItem], size: int, options: BufferOptions) -> None:
        self._options = options
        self._bytes += size
        self._waiting.extend(items)
        self.added += len(items)
        if self.since is None:
            self.since = time.monotonic()
        if len(self._waiting) >= options.message_count:
            self._send()
        elif self._timer is None:
            self._set_timer()

    async def flush(self) -> None:
        """Wait until all that was added so far is settled."""
        number = self.added
        self.send_all()
        await self._settled(number)

    async def until(self, first: int, last: int) -> None:
        """Wait until all before ``last`` is settled; raise what was refused of it."""
        await self._settled(last)
        refused = [
            each
            for begin, end, found in self._refusals
            if begin < last and first < end
            for each in found
        ]
        if refused:
            raise errors.PushError(
                f"a batch with it was refused: {refused[0].error}", stored=[], failed=refused
            )

    def send_all(self) -> None:
        """Send what is here now, whatever its time says."""
        self._send_until = self.added
        if self.count:
            self._send()

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for _, waiter in self._waiters:
            waiter.cancel()

    async def _settled(self, number: int) -> None:
        if self.settled < number:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((number, waiter))
            await waiter

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._options.time_millis / 1000, self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_what_is_due())

    def _is_due(self) -> bool:
        if not self._waiting:
            return False
        is_old = (
            self.since is not None
            and time.monotonic() >= self.since + self._options.time_millis / 1000
        )
        is_asked_for = self.settled < self._send_until
        return is_old or is_asked_for or len(self._waiting) >= self._options.message_count

    async def _send_what_is_due(self) -> None:
        """Send until less than a batch waits; one that fails stays in front, with its number."""
        while self._is_due():
            self._sending = self._take()
            count = len(self._sending)
            self._producer.sequence += 1
            await self._store()
            self._sending = []
            self.flushes += 1
            self.settled += count
            self.since = time.monotonic() if self._waiting else None
            self._wake()
        if self._waiting and self._timer is None:
            self._set_timer()

    def _wake(self) -> None:
        for number, waiter in self._waiters:
            if number <= self.settled and not waiter.done():
                waiter.set_result(None)
        self._waiters = [each for each in self._waiters if not each[1].done()]

    def _take(self) -> list[PushItem]:
        """The next batch: no larger than one request may be."""
        waiting = self._waiting
        if len(waiting) <= _BATCH_ITEMS and self._bytes <= _BATCH_BYTES:
            everything = list(waiting)
            waiting.clear()
            self._bytes = 0
            return everything
        taken: list[PushItem] = []
        size = 0
        while waiting and len(taken) < _BATCH_ITEMS:
            size += _size(waiting[0])
            if taken and size > _BATCH_BYTES:
                break
            taken.append(waiting.popleft())
        self._bytes -= sum(map(_size, taken))
        return taken

    async def _store(self) -> None:
        """Store what is being sent; returns when it is stored or refused for good."""
        pause = 0.1
        first = self.settled
        last = first + len(self._sending)
        while self._sending:
            try:
                # The same number each time: what was stored before its answer got lost stays one.
                await self._queen.send(self._sending, self._producer, key=self._key)
                self._buffers.sent(self._sending)
                return
            except errors.RequestError as error:
                refused, self._sending = _judged(self._sending, error)
                self._buffers.refuse(refused)
                self._refusals = [*self._refusals[-99:], (first, last, refused)]
                # Nothing was stored: what was not refused itself goes again, as another request.
                self._producer.sequence += 1
                continue
            except (errors.OutcomeUnknown, errors.ServiceError) as error:
                self._buffers.failed_flushes += 1
                _LOG.warning("buffer.flush_failed: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MOST_PAUSE_SECONDS)


def _judged(
    items: list[PushItem], error: errors.RequestError
) -> tuple[list[errors.Unstored], list[PushItem]]:
    """Those that will never be taken, and those that only stood beside them."""
    bad = refused_items(error)
    if not bad:
        return [errors.Unstored(item, error.code, str(error)) for item in items], []
    return (
        [errors.Unstored(items[at], error.code, why) for at, why in bad.items() if at < len(items)],
        [item for at, item in enumerate(items) if at not in bad],
    )


def _size(item: PushItem) -> int:
    return len(item.payload)
