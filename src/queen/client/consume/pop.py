"""Pops in a loop: paced when nothing comes at once, and stopped without losing a delivery."""

import asyncio
import contextlib
import random
import time
from typing import TYPE_CHECKING, Any, Final

from queen import errors
from queen.client.queue import Queue, pop_runs
from queen.client.transport.base import Reply, seconds_of_retry_after
from queen.client.transport.long_poll import LongPoll
from queen.wire.messages import MessageRun

if TYPE_CHECKING:
    from queen.client.client import Queen

_QUICK_SECONDS: Final = 0.1
_FIRST_REST_SECONDS: Final = 0.02
_FIRST_FAILURE_REST_SECONDS: Final = 0.2
_MOST_EMPTY_REST_SECONDS: Final = 0.5
_MOST_REST_SECONDS: Final = 10.0
_LAST_ANSWER_SECONDS: Final = 0.1
"""A pop that has messages to return mostly does so sooner."""
_HANG_UP_SECONDS: Final = 5.0


class Popping:
    """
    The pops of one consumer, one after the other.

    Usage::

        popping = Popping(queen, stopping)
        while not stopping.is_set():
            runs = await popping.pop(queue)
            …
            await popping.rest()
    """

    def __init__(self, queen: "Queen", stopping: asyncio.Event) -> None:
        self._queen = queen
        self._stopping = stopping
        self._empties = 0
        """Pops in a row that returned nothing at once."""
        self._failures = 0
        """Pops in a row that failed."""
        self._retry_after = 0.0

    async def pop(self, queue: Queue[Any]) -> list[MessageRun]:
        """Messages; nothing once this is stopping: whatever still arrives is released."""
        poll = LongPoll()
        began = time.monotonic()
        self._retry_after = 0.0
        popping = poll.start(pop_runs(queue, self._note_empty))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([popping, stopping], return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.is_set():
                await self._end(poll, popping)
                return []
            self._failures += 1
            runs = popping.result()
            self._failures = 0
            # Without a long poll, or where the server does not wait, this would never rest.
            is_quick = time.monotonic() - began < _QUICK_SECONDS
            self._empties = self._empties + 1 if is_quick and not runs else 0
            return runs
        finally:
            stopping.cancel()
            if not popping.done():
                popping.cancel()
                with contextlib.suppress(asyncio.CancelledError, errors.QueenError):
                    await popping

    async def rest(self) -> None:
        """Wait before the next pop if the last one failed, or returned nothing at once."""
        if self._failures:
            longest = _later(_FIRST_FAILURE_REST_SECONDS, self._failures, _MOST_REST_SECONDS)
        elif self._empties:
            longest = _later(_FIRST_REST_SECONDS, self._empties, _MOST_EMPTY_REST_SECONDS)
        else:
            return
        seconds = max(random.uniform(longest / 2, longest), self._retry_after)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _note_empty(self, reply: Reply) -> None:
        asked = seconds_of_retry_after(reply.retry_after) or 0.0
        self._retry_after = min(asked, _MOST_REST_SECONDS)

    async def _end(self, poll: LongPoll, popping: "asyncio.Task[list[MessageRun]]") -> None:
        """Wait for the last response, for a bounded time, and release the deliveries in it."""
        await asyncio.wait([popping], timeout=_LAST_ANSWER_SECONDS)
        if not popping.done() and poll.hang_up():
            await asyncio.wait([popping], timeout=_HANG_UP_SECONDS)
        if popping.done() and not popping.cancelled() and popping.exception() is None:
            leases = {run.lease_id for run in popping.result() if run.lease_id is not None}
            releases = (self._queen.release(lease_id) for lease_id in leases)
            # Unreleased, they are redelivered when their leases end.
            await asyncio.gather(*releases, return_exceptions=True)


def _later(first: float, count: int, most: float) -> float:
    """Twice as long each time, up to a bound."""
    return min(first * 2 ** min(count - 1, 20), most)
