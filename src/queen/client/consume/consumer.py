"""Consume messages: pop and dispatch with bounded concurrency, and stop without loss."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, Final

from queen import errors
from queen.client.consume.dispatch import Dispatcher, Handler
from queen.client.consume.pop import Poller, messages_of
from queen.client.consume.settle import Settler
from queen.client.message import Message
from queen.client.transport.base import may_succeed_later

Signal = asyncio.Event | threading.Event

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
        settler: Settler,
        handler: Handler,
        dispatcher: Dispatcher,
        signal: Signal | None,
        *,
        on_end: "Callable[[Consumption], None]",
    ) -> None:
        options = handler.request.options
        self._settler = settler
        self._type = handler.type
        self._request = handler.request.replaced(
            wait=True if options.wait is None else options.wait, auto_ack=False
        )
        if options.idle_millis is not None:
            # The server must respond within the idle time, to confirm that the queue is empty.
            timeout = min(options.timeout_millis, max(options.idle_millis, 1))
            self._request = self._request.replaced(timeout_millis=timeout)
        self._options = options
        self._dispatcher = dispatcher
        self._stopping = dispatcher.stopping
        self._now = asyncio.Event()
        self._signal = signal
        self._on_end = on_end
        self._left = options.limit
        self._seen_at = time.monotonic()
        self._failure: errors.QueenError | None = None
        """Why the last pop failed; None if it succeeded."""
        self._has_popped = False
        """Whether a pop has ever succeeded."""
        self._is_answered = asyncio.Event()
        """Set when a pop has ended since the last message was handled."""
        self._requested = 0
        """How many messages the pops under way may return."""
        self._returned = asyncio.Event()
        """Set when a pop has ended."""
        self._task = asyncio.create_task(self._run())

    def __await__(self) -> Generator[Any, None, None]:
        return self._task.__await__()

    async def wait(self) -> None:
        """Wait until it has ended, and raise the error that ended it."""
        await self._task

    async def stop(self, *, now: bool = False) -> None:
        """
        Stop popping immediately, wait for the handlers, and release unhandled messages.

        With ``now`` handlers are cancelled.
        """
        self._stopping.set()
        if now:
            self._now.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        count = self._options.concurrency or self._settler.config.concurrency
        workers = [asyncio.create_task(self._work()) for _ in range(count)]
        helpers = [asyncio.create_task(self._watch())]
        if self._options.renews_lease:
            helpers.append(asyncio.create_task(self._dispatcher.leases.renew_forever()))
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
                # A worker that fails, for example with an invalid API key, stops the others.
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
            self._dispatcher.close()
            self._on_end(self)

    async def _end(self, workers: list[asyncio.Task[None]]) -> None:
        """Wait for the workers up to the timeout; then cancel them, which releases messages."""
        now = asyncio.create_task(self._now.wait())
        all_ = asyncio.ensure_future(asyncio.wait(workers))
        try:
            await asyncio.wait(
                [all_, now],
                timeout=self._settler.config.shutdown_timeout,
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
        """Stop when the caller's signal is set, or when no message arrived during the idle time."""
        idle = self._options.idle_millis
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
        """Wait until no message was handled for this time, and a pop has returned none."""
        left = seconds
        while left > 0 or not self._is_answered.is_set():
            await asyncio.sleep(max(left, 0))
            if len(self._dispatcher.leases):
                left = seconds
                continue
            left = self._seen_at + seconds - time.monotonic()
            if left <= 0:
                await self._is_answered.wait()
                left = self._seen_at + seconds - time.monotonic()
        if self._failure is not None:
            # No server could confirm that the queue is empty.
            raise self._failure

    async def _work(self) -> None:
        poller = Poller(self._settler, self._stopping)
        while not self._stopping.is_set() and await self._may_pop():
            batch = self._options.batch
            size = batch if self._left is None else min(batch, self._left)
            self._requested += size
            if self._left is not None:
                self._left -= size  # Taken before the pop, so that workers together keep the limit.
            messages: list[Message[Any]] = []
            try:
                runs = await poller.pop(self._request.replaced(batch=size))
                messages = messages_of(self._settler, runs, self._type)
                self._failure = None
                self._has_popped = True
            except errors.QueenError as error:
                if not self._survives(error):
                    raise
                self._failure = error
                _LOG.warning("consume.pop_failed: %s", error)
            finally:
                self._pop_ended(size, len(messages))
            if not messages:
                await poller.pause()
                continue
            await self._dispatcher.dispatch(messages)
            self._seen_at = time.monotonic()
            self._is_answered.clear()

    def _survives(self, error: errors.QueenError) -> bool:
        """Whether to pop again. An API key that never worked is reported immediately."""
        if isinstance(error, errors.ServiceError | errors.OutcomeUnknown | errors.QueueNotFound):
            return True
        return self._has_popped and may_succeed_later(error)

    async def _may_pop(self) -> bool:
        """Whether the limit allows another pop; waits while pops under way may return less."""
        while self._left == 0 and self._requested and not self._stopping.is_set():
            self._returned.clear()
            await self._returned.wait()
        return self._left != 0 and not self._stopping.is_set()

    def _pop_ended(self, requested: int, received: int) -> None:
        """Leave the messages that a pop did not return to the other workers."""
        self._requested -= requested
        if self._left is not None:
            self._left += requested - received
        self._returned.set()
        if received:
            self._seen_at = time.monotonic()
        else:
            self._is_answered.set()


async def _until_set(signal: Signal) -> None:
    if isinstance(signal, asyncio.Event):
        await signal.wait()
        return
    while not signal.is_set():  # noqa: ASYNC110 - a thread's event wakes no event loop
        await asyncio.sleep(_SIGNAL_SECONDS)


class Consumers:
    """The consumers of one client, and handler threads that outlive their consumer."""

    def __init__(self, settler: Settler) -> None:
        self._settler = settler
        self._running: set[Consumption] = set()
        self._outlasting: set[asyncio.Task[None]] = set()
        self._stops: set[asyncio.Task[None]] = set()
        """The event loop keeps only weak references to tasks."""

    def start(self, handler: Handler, signal: Signal | None = None) -> Consumption:
        """Consume with a handler in the background."""
        consumption = Consumption(
            self._settler, handler, self.dispatcher(handler), signal, on_end=self._running.discard
        )
        self._running.add(consumption)
        return consumption

    def dispatcher(self, handler: Handler) -> Dispatcher:
        """A dispatcher for messages that the caller pops."""
        return Dispatcher(self._settler, handler, on_outlasting=self._outlasts)

    async def stop(self) -> list[BaseException | None]:
        """Stop all consumers; how each of them ended."""
        stops = (each.stop() for each in list(self._running))
        return await asyncio.gather(*stops, return_exceptions=True)

    def stop_now(self) -> None:
        """Cancel all handlers, without waiting for the end of their consumers."""
        for consumption in list(self._running):
            self._stops.add(task := asyncio.ensure_future(consumption.stop(now=True)))
            task.add_done_callback(self._stops.discard)

    async def wait_for_threads(self, timeout_seconds: float) -> None:
        """Wait for threads of this event loop whose consumer has stopped; then abandon them."""
        loop = asyncio.get_running_loop()
        works = [work for work in self._outlasting if work.get_loop() is loop]
        if not works:
            return
        await asyncio.wait(works, timeout=timeout_seconds)
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    def _outlasts(self, work: "asyncio.Task[None]") -> None:
        self._outlasting.add(work)
        work.add_done_callback(self._outlasting.discard)
