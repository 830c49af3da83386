"""Sends pushes, acks and pops that wait at the same moment in one transaction."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from queen import errors, telemetry
from queen.meters import Snapshot
from queen.store.connection.database import Record
from queen.store.messages import Ack, Messages, Pop, Push

PACE_SECONDS: Final = 0.001
"""While several requests share a call, the next call begins this long after it for each."""
_LEAST_PACED: Final = 2
_MOST_PACED: Final = 4
"""Bounds of that number. A client whose calls follow each other waits two milliseconds."""
MOST_COMBINED: Final = 64
"""Messages, acks or requests of a part. Larger parts fill a call of their own, at once."""
_MOST_BYTES: Final = 64 * 1024

_ORDER: Final = ("push", "ack", "pop")
Rows = list[Record]
_FINAL: Final = (errors.OutcomeUnknown, errors.DatabaseUnavailable, errors.Draining)
"""After these errors, sending the parts again one by one is unsafe or pointless."""


class FollowingPop(NamedTuple):
    """A pop for waiters of this process, which follows a push in its transaction."""

    pop: Pop
    rows: asyncio.Future[Rows]
    announce: Callable[[], None]
    """Called if the pop has seen the messages of the push."""


class _Part(NamedTuple):
    """One call of a verb that waits for the next combined call."""

    verb: str
    call: Any
    size: int
    rows: asyncio.Future[Rows]
    announce: Callable[[], None] | None = None


class Combiner:
    """
    Makes the calls of push, ack and pop, combined where that saves a transaction.

    A call starts at the end of this loop iteration. While calls carry several requests, they
    start at least two milliseconds after each other, up to four while another call runs. A running
    call doesn't delay the others longer than that. If a combined call fails, its parts are sent
    one by one, so that an error reaches only the callers of the verb that caused it.
    """

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._parts: list[_Part] = []
        self._timer: asyncio.Handle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._started_at = 0.0
        self._carried = 0
        """Segments, deliveries and pops of the last call."""
        self._stored = self._split = 0
        self.follow_push: Callable[[Collection[int], int], Sequence[FollowingPop]] = _no_pops
        """Creates pops for the waiters of queues with this many messages about to be stored."""

    def fill(self, snapshot: Snapshot) -> None:
        """Add the metrics of combined calls."""
        snapshot.add(telemetry.COMBINED_CALLS, self._stored, "stored")
        snapshot.add(telemetry.COMBINED_CALLS, self._split, "split")

    async def push(self, push: Push) -> Rows:
        """Store segments."""
        count = max(sum(push.counts), len(push.producers))
        size_bytes = sum(map(len, push.bodies))
        if not push.is_plain or count > MOST_COMBINED or size_bytes > _MOST_BYTES:
            return await self._messages.push(push)
        return await self._join("push", push, count)

    async def ack(self, acks: Sequence[Ack]) -> Rows:
        """Settle deliveries."""
        if len(acks) > MOST_COMBINED or any([ack.kept for ack in acks]):
            return await self._messages.ack(acks)
        return await self._join("ack", acks, len(acks))

    async def pop(self, pop: Pop) -> Rows:
        """Claim messages."""
        if not is_plain(pop) or len(pop.batches) > MOST_COMBINED:
            return await self._messages.pop(pop)
        return await self._join("pop", pop, len(pop.batches))

    async def _join(self, verb: str, call: object, count: int) -> Rows:
        loop = asyncio.get_running_loop()
        part = _Part(verb, call, count, loop.create_future())
        self._parts.append(part)
        if self._timer is None:
            most = _MOST_PACED if self._running else _LEAST_PACED
            pace = PACE_SECONDS * min(max(self._carried, _LEAST_PACED), most)
            early = self._started_at + pace - time.monotonic()
            is_paced = early > 0 and (self._running or self._carried > 1)
            self._timer = (
                loop.call_later(early, self._start) if is_paced else loop.call_soon(self._start)
            )
        return await part.rows

    def _start(self) -> None:
        self._timer = None
        self._started_at = time.monotonic()
        self._carried = sum([part.size for part in self._parts])
        loop = asyncio.get_running_loop()
        while self._parts:
            self._running += 1
            task = loop.create_task(self._send(self._take()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take(self) -> list[_Part]:
        """The next call: one push, one call of ack, and all pops. They are few."""
        taken: list[_Part] = []
        left: list[_Part] = []
        verbs: set[str] = set()
        for part in self._parts:
            (left if part.verb in verbs else taken).append(part)
            if part.verb != "pop":
                verbs.add(part.verb)
        self._parts = left
        if len(taken) > 1:
            taken.sort(key=lambda part: _ORDER.index(part.verb))
        return taken

    async def _send(self, parts: list[_Part]) -> None:
        try:
            push: Push | None = parts[0].call if parts[0].verb == "push" else None
            if push is not None:
                parts += [
                    _Part("pop", each.pop, len(each.pop.batches), each.rows, each.announce)
                    for each in self.follow_push(push.queue_ids, sum(push.counts))
                ]
            if len(parts) == 1:
                await self._alone(parts[0])
            else:
                await self._combined(push, parts)
        except BaseException as error:
            for part in parts:
                _fail(part.rows, error)
            raise
        finally:
            self._running -= 1

    async def _combined(self, push: Push | None, parts: list[_Part]) -> None:
        acks: Sequence[Ack] = next((part.call for part in parts if part.verb == "ack"), ())
        pops: list[Pop] = [part.call for part in parts if part.verb == "pop"]
        try:
            combined = await self._messages.combine(push, acks, pops)
        except _FINAL as error:
            for part in parts:
                _fail(part.rows, error)
            return
        except Exception:
            self._split += 1
            await asyncio.gather(*map(self._alone, parts))
            return
        self._stored += 1
        is_stored = bool(combined.pushed) and combined.pushed[0]["kind"] == "stored"
        popped = iter(combined.popped)
        for part in parts:
            if part.verb == "push":
                _finish(part.rows, combined.pushed)
            elif part.verb == "ack":
                _finish(part.rows, combined.settled)
            else:
                if is_stored and part.announce is not None:
                    part.announce()
                _finish(part.rows, next(popped))

    async def _alone(self, part: _Part) -> None:
        send: Callable[[Any], Awaitable[Rows]] = getattr(self._messages, part.verb)
        try:
            _finish(part.rows, await send(part.call))
        except Exception as error:
            _fail(part.rows, error)


def _no_pops(queue_ids: Collection[int], messages: int) -> Sequence[FollowingPop]:
    del queue_ids, messages
    return ()


def is_plain(pop: Pop) -> bool:
    """Whether a pop needs one short search of new messages: it delays no other call."""
    return (
        pop.due == "never"
        and len(pop.group_ids) == 1
        and pop.partition is None
        and not pop.is_auto
        and pop.ready_since[0] is not None
        and all(each == 1 for each in pop.partitions)
    )


def _finish(future: asyncio.Future[Rows], rows: Rows) -> None:
    if not future.done():
        future.set_result(rows)


def _fail(future: asyncio.Future[Rows], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()
