"""Pop messages, once or in a loop that waits between empty pops and stops without losing any."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.backoff import Backoff
from queen.client.connection import Connection
from queen.client.consume.options import PopRequest
from queen.client.consume.settle import Settler
from queen.client.message import Message
from queen.client.transport.base import Reply, decoded, seconds_of_retry_after
from queen.client.transport.long_poll import LongPoll
from queen.wire.messages import MessageRun, Wire

T = TypeVar("T")

_QUICK_SECONDS: Final = 0.1
_MAX_DELAY_SECONDS: Final = 10.0
_LAST_RESPONSE_SECONDS: Final = 0.1
"""A pop with messages usually returns sooner."""
_HANG_UP_SECONDS: Final = 5.0


class _Popped(Wire, frozen=True, kw_only=True):
    runs: list[MessageRun]


_DECODE: Final = msgspec.json.Decoder(_Popped).decode


async def pop_runs(
    connection: Connection,
    request: PopRequest,
    on_empty: "Callable[[Reply], None] | None" = None,
) -> list[MessageRun]:
    """Pop without creating `Message` objects. ``on_empty`` gets a response without messages."""
    with tracing.receiving(request.queue, request.options.group) as record_count:
        reply = await connection.transport.exchange(
            "GET", request.path, key=request.key, wait_seconds=request.wait_seconds
        )
        if reply.status == 204:
            if on_empty is not None:
                on_empty(reply)
            return []
        runs = decoded(reply, _DECODE).runs
        record_count(sum(len(run.data) for run in runs))
    return runs


def messages_of(
    settler: Settler, runs: Sequence[MessageRun], type_: "type[T] | None"
) -> list[Message[T]]:
    """The messages of a pop, each able to acknowledge itself."""
    codec = settler.codec(type_)
    return [Message(run, at, codec, settler) for run in runs for at in range(len(run.data))]


class Poller:
    """
    The consecutive pops of one consumer.

    Usage::

        poller = Poller(settler, stopping)
        while not stopping.is_set():
            runs = await poller.pop(request)
            …
            await poller.pause()
    """

    def __init__(self, settler: Settler, stopping: asyncio.Event) -> None:
        self._settler = settler
        self._stopping = stopping
        self._after_failure = Backoff(first_seconds=0.2, max_seconds=_MAX_DELAY_SECONDS)
        self._after_empty = Backoff(first_seconds=0.02, max_seconds=0.5)
        self._backoff: Backoff | None = None
        """Set if the last pop failed, or immediately returned no messages."""
        self._retry_after = 0.0

    async def pop(self, request: PopRequest) -> list[MessageRun]:
        """Return messages. Once the consumer stops, return none and release late deliveries."""
        poll = LongPoll()
        began = time.monotonic()
        self._retry_after = 0.0
        popping = poll.start(pop_runs(self._settler, request, self._read_retry_after))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([popping, stopping], return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.is_set():
                await self._end(poll, popping)
                return []
            self._backoff = self._after_failure
            runs = popping.result()
            self._after_failure.reset()
            # Without a long poll, or if the server does not wait, the loop would never pause.
            if not runs and time.monotonic() - began < _QUICK_SECONDS:
                self._backoff = self._after_empty
            else:
                self._backoff = None
                self._after_empty.reset()
            return runs
        finally:
            stopping.cancel()
            popping.cancel()
            # Also if it is done: asyncio logs an error that is never read.
            with contextlib.suppress(asyncio.CancelledError, errors.QueenError):
                await popping

    async def pause(self) -> None:
        """Wait before the next pop if the last one failed, or immediately returned no messages."""
        if self._backoff is None:
            return
        longest = self._backoff.next()
        seconds = max(random.uniform(longest / 2, longest), self._retry_after)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _read_retry_after(self, reply: Reply) -> None:
        seconds = seconds_of_retry_after(reply.retry_after) or 0.0
        self._retry_after = min(seconds, _MAX_DELAY_SECONDS)

    async def _end(self, poll: LongPoll, popping: "asyncio.Task[list[MessageRun]]") -> None:
        """Wait for the last response for a limited time, and release its deliveries."""
        await asyncio.wait([popping], timeout=_LAST_RESPONSE_SECONDS)
        if not popping.done() and poll.hang_up():
            await asyncio.wait([popping], timeout=_HANG_UP_SECONDS)
        if popping.done() and not popping.cancelled() and popping.exception() is None:
            leases = {run.lease_id for run in popping.result() if run.lease_id is not None}
            releases = (self._settler.release(lease_id) for lease_id in leases)
            # Unreleased, they are redelivered when their leases end.
            await asyncio.gather(*releases, return_exceptions=True)
