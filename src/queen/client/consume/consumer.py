"""Pop and hand on: bounded in concurrency, and stopped without loss."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from queen import errors
from queen.client.consume.dispatch import Handling
from queen.client.consume.pop import Popping
from queen.client.message import Message
from queen.client.queue import messages_of
from queen.client.transport.base import may_succeed_later

if TYPE_CHECKING:
    from queen.client.queue import Queue, Signal

_LOG: Final = logging.getLogger("queen.client")
_SIGNAL_SECONDS: Final = 0.05


class Consumption:
    """
    Consuming in the background: await it, or stop it.

    Usage::

        work = queen.queue("orders").start(handler)
        …
        await work.stop()
    """

    def __init__(
        self,
        queue: "Queue[Any]",
        handler: Callable[[Any], Any],
        signal: "Signal | None",
    ) -> None:
        choice = queue.choice
        self._queen = queue.queen
        self._queue = queue.wait(True if choice.wait is None else choice.wait).auto_ack(False)
        if choice.idle_millis is not None:
            # Whether something is there must be answered within the time, not guessed at its end.
            patience = min(choice.timeout_millis, max(choice.idle_millis, 1))
            self._queue = self._queue.timeout_millis(patience)
        self._choice = choice
        self._handling = Handling(queue, handler)
        self._stopping = self._handling.stopping
        self._now = asyncio.Event()
        self._signal = signal
        self._left = choice.limit
        self._seen_at = time.monotonic()
        self._failure: errors.QueenError | None = None
        """Why the last pop failed; None after one that did not."""
        self._has_popped = False
        """Whether a pop has ever succeeded."""
        self._is_answered = asyncio.Event()
        """Set when a pop has ended since something was last handled."""
        self._asked = 0
        """How many messages the pops under way may bring."""
        self._returned = asyncio.Event()
        """Set when a pop has ended."""
        self._task = asyncio.create_task(self._run())
        self._queen.began(self)

    def __await__(self) -> Generator[Any, None, None]:
        return self._task.__await__()

    async def wait(self) -> None:
        """Return when it has ended; raises what it could not deal with."""
        await self._task

    async def stop(self, *, now: bool = False) -> None:
        """
        No new messages at once; handlers get their time to end; what is left is released.

        With ``now`` handlers get no time: they are cancelled.
        """
        self._stopping.set()
        if now:
            self._now.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        count = self._choice.concurrency or self._queen.config.concurrency
        workers = [asyncio.create_task(self._work()) for _ in range(count)]
        helpers = [asyncio.create_task(self._watch())]
        if self._choice.renews_lease:
            helpers.append(asyncio.create_task(self._handling.leases.renew_for_ever()))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            running = {*workers}
            helping = {*helpers}
            while running and not self._stopping.is_set():
                done, _ = await asyncio.wait(
                    [stopping, *running, *helping], return_when=asyncio.FIRST_COMPLETED
                )
                running -= done
                helping -= done
                # One that cannot go on, say for a key that never worked, ends all, in order.
                if any(task is not stopping and task.exception() is not None for task in done):
                    break
            self._stopping.set()
            await self._end(workers)
            for helper in helpers:
                if helper.done():
                    helper.result()
        finally:
            tasks: list[asyncio.Task[Any]] = [*workers, *helpers, stopping]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._handling.close()
            self._queen.ended(self)

    async def _end(self, workers: list[asyncio.Task[None]]) -> None:
        """Let workers end in their time; then cancel them, which releases what they hold."""
        now = asyncio.create_task(self._now.wait())
        all_ = asyncio.ensure_future(asyncio.wait(workers))
        try:
            await asyncio.wait(
                [all_, now],
                timeout=self._queen.config.shutdown_timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            now.cancel()
            all_.cancel()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        for worker in workers:
            if not worker.cancelled():
                worker.result()

    async def _watch(self) -> None:
        """Stop when the caller's signal is set, or when nothing came for long enough."""
        idle = self._choice.idle_millis
        waits: set[asyncio.Task[Any]] = set()
        if self._signal is not None:
            waits.add(asyncio.create_task(_until_set(self._signal)))
        if idle is not None:
            waits.add(asyncio.create_task(self._until_idle(idle / 1000)))
        if not waits:
            return
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            for task in done:
                task.result()
        finally:
            for task in waits:
                task.cancel()

    async def _until_idle(self, seconds: float) -> None:
        """Return when nothing was handled for so long, and a server has said that nothing came."""
        left = seconds
        while left > 0 or not self._is_answered.is_set():
            await asyncio.sleep(max(left, 0))
            if len(self._handling.leases):
                left = seconds
                continue
            left = self._seen_at + seconds - time.monotonic()
            if left <= 0:
                await self._is_answered.wait()
                left = self._seen_at + seconds - time.monotonic()
        if self._failure is not None:
            # Nobody could say that nothing is there.
            raise self._failure

    async def _work(self) -> None:
        popping = Popping(self._queen, self._stopping)
        while not self._stopping.is_set() and await self._may_pop():
            size = self._choice.batch if self._left is None else min(self._choice.batch, self._left)
            self._asked += size
            if self._left is not None:
                self._left -= size  # Taken before the pop, so that workers together keep the limit.
            messages: list[Message[Any]] = []
            try:
                runs = await popping.pop(self._queue.batch(size))
                messages = messages_of(self._queue, runs)
                self._failure = None
                self._has_popped = True
            except errors.QueenError as error:
                if not self._survives(error):
                    raise
                self._failure = error
                _LOG.warning("consume.pop_failed: %s", error)
            finally:
                self._give_back(size, len(messages))
            if not messages:
                await popping.rest()
                continue
            await self._handling.deal_with(messages)
            self._seen_at = time.monotonic()
            self._is_answered.clear()

    def _survives(self, error: errors.QueenError) -> bool:
        """Whether to pop again; a key that never worked is a mistake to report at once."""
        if isinstance(error, errors.ServiceError | errors.OutcomeUnknown | errors.QueueNotFound):
            return True
        return self._has_popped and may_succeed_later(error)

    async def _may_pop(self) -> bool:
        """Whether the limit leaves something; waits while others may still give back of theirs."""
        while self._left == 0 and self._asked and not self._stopping.is_set():
            self._returned.clear()
            await self._returned.wait()
        return self._left != 0 and not self._stopping.is_set()

    def _give_back(self, asked: int, came: int) -> None:
        """What a pop did not bring is left for others."""
        self._asked -= asked
        if self._left is not None:
            self._left += asked - came
        self._returned.set()
        if came:
            self._seen_at = time.monotonic()
        else:
            self._is_answered.set()


async def _until_set(signal: "Signal") -> None:
    if isinstance(signal, asyncio.Event):
        await signal.wait()
        return
    while not signal.is_set():  # noqa: ASYNC110 - a thread's event wakes no event loop
        await asyncio.sleep(_SIGNAL_SECONDS)
