"""The buffered messages of one queue and partition, sent in order, one request at a time."""

import asyncio
import logging
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from queen import errors
from queen.client.backoff import Backoff
from queen.client.producer_ids import Producer
from queen.client.push.buffer_room import BufferRoom
from queen.client.push.buffered import Buffered, BufferOptions
from queen.client.push.push import Pusher, rejected_items, size_of
from queen.client.transport.base import may_succeed_later
from queen.wire.messages import PushItem

_LOG: Final = logging.getLogger("queen.client")
_SURE_REJECTIONS: Final = 5
"""Consecutive rejections after which a proxy's "too large" is accepted as final."""
_BATCH_ITEMS: Final = 5_000
_BATCH_BYTES: Final = 8 * 2**20


class _Stored(msgspec.Struct):
    """The response of a push, without its results."""

    messages: list[msgspec.Raw]


_DECODE: Final = msgspec.json.Decoder(_Stored).decode


class Buffer:
    """Items are numbered; a batch keeps its sequence number until it is stored or rejected."""

    def __init__(self, room: BufferRoom, pusher: Pusher, key: str) -> None:
        self._room = room
        self._pusher = pusher
        self._key = key
        self._producer = Producer()
        self._waiting: deque[PushItem] = deque()
        self._sending: list[PushItem] = []
        self._numbers: Sequence[int] = ()
        """The numbers of the items that are being sent."""
        self._batch_end = 0
        self._at_once = _BATCH_ITEMS
        """Items per request: fewer after a request that was too large."""
        self._is_in_doubt = False
        """The batch may have been stored, and the response got lost."""
        self._failure: errors.QueenError | None = None
        """Why the last request was not stored."""
        self._bytes = 0
        """Size of the waiting items."""
        self._options = BufferOptions()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._send_until = 0
        """Items up to this number are sent without waiting for the flush interval."""
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._pushes: deque[Buffered] = deque()
        """Pushes that are not stored or rejected yet, in order."""
        self.since: float | None = None
        self.flushes = 0
        self._added = 0
        self._settled = 0

    @property
    def count(self) -> int:
        return len(self._waiting) + len(self._sending)

    def add(self, items: list[PushItem], size: int, options: BufferOptions) -> Buffered:
        self._options = options
        self._bytes += size
        self._waiting.extend(items)
        self._added += len(items)
        result = Buffered(items, self._added)
        self._pushes.append(result)
        if self.since is None:
            self.since = time.monotonic()
        if len(self._waiting) >= options.message_count:
            self._send()
        elif self._timer is None:
            self._set_timer()
        return result

    async def flush(self) -> None:
        """Wait until all items that were added so far are stored or rejected."""
        self.send_all()
        if self._settled < self._added:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((self._added, waiter))
            await waiter

    def send_all(self) -> None:
        """Send all items now, without waiting for the flush interval."""
        self._send_until = self._added
        if self.count:
            self._send()

    async def give_up(self) -> list[errors.Unstored]:
        """Stop sending, fail the waiters, and return the items that are not stored."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        sent = ("outcome_unknown", "it was sent, and the client closed before a response arrived")
        failure = self._failure or errors.ServerUnreachable("no server was reached")
        unsent = (failure.code, f"it was not stored before the client closed: {failure}")
        left = [
            errors.Unstored(item, *(sent if self._is_in_doubt and at < self._at_once else unsent))
            for at, item in enumerate(self._sending)
        ]
        left += [errors.Unstored(item, *unsent) for item in self._waiting]
        numbers = [*self._numbers, *range(self._batch_end, self._added)] if left else []
        for number, unstored in zip(numbers, left, strict=True):
            self._push_of(number).fail(unstored)
        self._sending, self._numbers = [], ()
        self._waiting.clear()
        self._bytes = 0
        self.since = None
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            if not waiter.done():
                text = f"{len(left)} buffered messages could not be stored"
                waiter.set_exception(errors.PushError(text, stored=[], failed=left))
        self._settle(self._added)
        return left

    def rebind(self) -> None:
        """Move to another event loop: the previous one has ended, with its timers and tasks."""
        self._timer = self._task = None
        self._waiters = []
        for push in self._pushes:
            push.rebind()
        if self.count:
            self._send()

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._options.time_millis / 1000, self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_due())

    def _is_due(self) -> bool:
        if not self._waiting:
            return False
        is_old = (
            self.since is not None
            and time.monotonic() >= self.since + self._options.time_millis / 1000
        )
        is_asked_for = self._settled < self._send_until
        return is_old or is_asked_for or len(self._waiting) >= self._options.message_count

    async def _send_due(self) -> None:
        """Send until less than a batch waits; a failed batch stays first, with its number."""
        while self._sending or self._is_due():
            if not self._sending:
                self._sending = self._take()
                self._numbers = range(self._settled, self._settled + len(self._sending))
                self._batch_end = self._numbers[-1] + 1
                self._at_once = len(self._sending)
                self._next_number()
            await self._store()
            self.flushes += 1
            self.since = time.monotonic() if self._waiting else None
            self._settle(self._batch_end)
        if self._waiting and self._timer is None:
            self._set_timer()

    def _settle(self, number: int) -> None:
        """All items before this number are stored or rejected: wake their waiters."""
        self._settled = self._batch_end = number
        while self._pushes and self._pushes[0].last <= number:
            self._pushes.popleft().settle()
        for end, waiter in self._waiters:
            if end <= number and not waiter.done():
                waiter.set_result(None)
        self._waiters = [each for each in self._waiters if not each[1].done()]

    def _push_of(self, number: int) -> Buffered:
        return self._pushes[bisect_right(self._pushes, number, key=lambda push: push.last)]

    def _take(self) -> list[PushItem]:
        """Remove and return the next batch, within the size limits of one request."""
        waiting = self._waiting
        if len(waiting) <= _BATCH_ITEMS and self._bytes <= _BATCH_BYTES:
            everything = list(waiting)
            waiting.clear()
            self._bytes = 0
            return everything
        taken: list[PushItem] = []
        size = 0
        while waiting and len(taken) < _BATCH_ITEMS:
            size += (next_ := size_of(waiting[0]))
            if taken and size > _BATCH_BYTES:
                break
            self._bytes -= next_
            taken.append(waiting.popleft())
        return taken

    async def _store(self) -> None:
        """Store the batch; returns when each item is stored or rejected for good."""
        backoff = Backoff(first_seconds=0.1, max_seconds=5.0)
        rejections = 0
        """Consecutive rejections of the request as too large."""
        while self._sending:
            now = self._sending[: self._at_once]
            was_in_doubt, self._is_in_doubt = self._is_in_doubt, True
            try:
                # With the same number each time, a repeat after a lost response is stored once.
                await self._pusher.send(now, self._producer, _DECODE, key=self._key)
                self._failure = None
                self._room.free(now)
                self._keep(range(len(now), len(self._sending)))
                continue
            except errors.QueenError as error:
                self._failure = error
                if error.applied is False:
                    self._is_in_doubt = was_in_doubt
                rejections = rejections + 1 if isinstance(error, errors.BodyTooLarge) else 0
                if not may_succeed_later(error) and not (
                    # A proxy that may have forwarded it before now rejects it: if the batch were
                    # split, a part could be stored twice.
                    self._is_in_doubt and error.problem is None and rejections < _SURE_REJECTIONS
                ):
                    rejections = 0
                    self._reject(now, error)
                    continue
                _LOG.warning("buffer.flush_failed: %s", error)
            except Exception:  # The batch must survive any error.
                _LOG.exception("buffer.flush_failed")
            self._room.failed_flushes += 1
            await asyncio.sleep(backoff.next())

    def _reject(self, now: list[PushItem], error: errors.QueenError) -> None:
        """Split a request that is too large; else drop the items that the server names."""
        is_too_much = isinstance(error, errors.BodyTooLarge | errors.TooManyItems)
        if is_too_much and len(now) > 1:
            self._at_once = len(now) // 2
            self._next_number()
            return
        bad = {at: why for at, why in rejected_items(error).items() if at < len(now)}
        if not bad:
            bad = dict.fromkeys(range(len(now)), str(error))
        rejected: list[errors.Unstored] = []
        for at, why in bad.items():
            rejected.append(errors.Unstored(now[at], error.code, why))
            self._push_of(self._numbers[at]).fail(rejected[-1])
        self._room.reject(rejected)
        self._keep([at for at in range(len(self._sending)) if at not in bad])

    def _keep(self, indexes: Sequence[int]) -> None:
        """Keep the items of the batch that are still to be sent, in another request."""
        self._numbers = [self._numbers[at] for at in indexes]
        self._sending = [self._sending[at] for at in indexes]
        self._next_number()

    def _next_number(self) -> None:
        self._producer.sequence += 1
        self._is_in_doubt = False
