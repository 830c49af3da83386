"""Call the handler with popped messages, then acknowledge, nack or release them."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.consume.leases import Leases
from queen.client.consume.options import PopRequest
from queen.client.consume.outcomes import Outcome, outcome
from queen.client.consume.settle import Settler
from queen.client.message import Message

_LOG: Final = logging.getLogger("queen.client")


class Handler(msgspec.Struct, frozen=True):
    """A function with the messages that it is called with."""

    function: Callable[[Any], Any]
    request: PopRequest
    type: "type[Any] | None" = None
    """The type of the payloads; None for any JSON."""


class _Call(msgspec.Struct, frozen=True, eq=False):
    """One call of the handler, with a message or a list, and the leases of its messages."""

    given: Any
    messages: list[Message[Any]]
    lease_ids: list[str]


class Dispatcher:
    """Hands the messages of one consumer to its handler. It does not pop."""

    def __init__(
        self,
        settler: Settler,
        handler: Handler,
        *,
        on_outlasting: "Callable[[asyncio.Task[None]], None]",
    ) -> None:
        """``on_outlasting`` gets a task that waits for a thread after the consumer has stopped."""
        options = handler.request.options
        self._settler = settler
        self._type = handler.type
        self._options = options
        self._function = handler.function
        self._on_outlasting = on_outlasting
        self._is_async = is_async(handler.function)
        self._is_single = options.is_each or options.batch == 1
        self._acks = options.auto_ack is not False
        self._threads: ThreadPoolExecutor | None = None
        self._in_thread: dict[asyncio.Task[None], Future[Any]] = {}
        """The threads of plain functions, by the tasks that wait for them."""
        self._outlasting: set[str] = set()
        """Leases of threads that outlive their consumer."""
        self._renewing: asyncio.Task[None] | None = None
        self.leases = Leases(
            settler,
            seconds=options.lease_seconds,
            interval_millis=options.renew_interval_millis,
            on_lost=None if options.on_lease_lost is None else self._notify_lost,
        )
        self._callbacks: set[asyncio.Future[None]] = set()
        self.stopping = asyncio.Event()
        """If it is set, messages whose handler has not begun are released."""

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def dispatch(self, messages: list[Message[Any]]) -> None:
        """Hand messages to the handler, one by one or together, and acknowledge them."""
        lease_ids = self.leases.add(messages)
        try:
            readable = await self._readable(messages)
            if not readable:
                return
            if self._is_single:
                await self._each(readable)
            else:
                await self._handle(_Call(readable, readable, lease_ids))
        finally:
            self.leases.remove(id_ for id_ in lease_ids if id_ not in self._outlasting)

    async def release(self, messages: Iterable[Message[Any]]) -> None:
        """Return the rest of their deliveries to the queue, without counting an attempt."""
        leases = {m.lease_id for m in messages if m.lease_id is not None and not m.is_lost}
        for lease in leases - self._outlasting:
            with contextlib.suppress(errors.QueenError):
                await self._settler.release(lease)

    async def _each(self, messages: list[Message[Any]]) -> None:
        over: set[str | None] = set()
        skipped: list[Message[Any]] = []
        for at, message in enumerate(messages):
            if message.lease_id in over or message.is_lost:
                skipped.append(message)
                continue  # Its delivery ended with an earlier message. It will be redelivered.
            if self.stopping.is_set():
                rest = (m for m in messages[at:] if m.lease_id not in over)
                await self.release(rest)
                return
            try:
                under = [] if message.lease_id is None else [message.lease_id]
                goes_on = await self._handle(_Call(message, [message], under))
            except asyncio.CancelledError:
                # The handler was cancelled: the messages after it are released with its own.
                rest = [m for m in messages[at + 1 :] if m.lease_id not in over]
                await asyncio.shield(self.release(rest))
                raise
            if not goes_on:
                over.add(message.lease_id)
        # Most have lost their leases. The others don't have to wait for the end of theirs.
        await self.release(m for m in skipped if not m.is_settled)

    async def _readable(self, messages: list[Message[Any]]) -> list[Message[Any]]:
        """The messages that decode as the consumer's type; the others are dead-lettered."""
        if self._type is None:
            return messages
        good: list[Message[Any]] = []
        bad: list[Outcome] = []
        for message in messages:
            try:
                _ = message.data
                good.append(message)
            except errors.UndecodablePayload as error:
                _LOG.error("consume.undecodable: %s: %s", message, error)
                bad.append((message, "dlq", {"error": f"undecodable: {error}"}))
        if bad:
            with contextlib.suppress(errors.QueenError):
                await self._settler.settle(bad)
        return good

    async def _handle(self, call: _Call) -> bool:
        """Run the handler; False if the delivery has ended early."""
        task = asyncio.ensure_future(self._run(call))
        # A thread cannot be cancelled. It runs to its end, and its messages are not acked.
        self.leases.set_task(call.lease_ids, task if self._is_async else None)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            # The shutdown timeout is over: release the messages immediately.
            thread = self._in_thread.get(task)
            if thread is not None and not thread.cancel():
                self._leave(task, call)
                raise
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.shield(self.release(call.messages))
            raise
        finally:
            self.leases.set_task(call.lease_ids, None)
        return await self._conclude(task, call)

    async def _conclude(self, task: "asyncio.Task[None]", call: _Call) -> bool:
        """Acknowledge messages whose handler has ended."""
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        if any(message.is_lost for message in call.messages):
            await self._report_lost(call)
            return False
        if isinstance(failure, asyncio.CancelledError) and self.stopping.is_set():
            await self.release(call.messages)
            return False
        # A handler that cancels itself has failed like any other.
        if self._acks and not await self._settle(call, failure):
            return False
        await self._report(call, failure)
        if failure is not None and not self._acks:
            return False
        return not any(message.is_delivery_over for message in call.messages)

    def _leave(self, task: "asyncio.Task[None]", call: _Call) -> None:
        """Stop waiting for a thread, and keep its leases until it ends."""
        _LOG.warning(
            "consume.still_working: %s: a thread cannot be stopped; it keeps its lease",
            call.messages[0],
        )
        self._outlasting.update(call.lease_ids)
        if self._renewing is None:
            self._renewing = asyncio.create_task(self.leases.renew_forever())
        self._on_outlasting(asyncio.create_task(self._outlast(task, call)))

    async def _outlast(self, task: "asyncio.Task[None]", call: _Call) -> None:
        """Wait for a thread, renew its leases meanwhile, and acknowledge its messages."""
        try:
            await asyncio.wait([task])
            goes_on = await self._conclude(task, call)
        except asyncio.CancelledError:
            task.cancel()
            _LOG.error("consume.left_working: %s: its lease will expire", call.messages[0])
            raise
        finally:
            self._outlasting.difference_update(call.lease_ids)
            self.leases.remove(call.lease_ids)
            if not self._outlasting and self._renewing is not None:
                self._renewing.cancel()
                self._renewing = None
        if goes_on:
            await self.release(call.messages)  # More messages of their delivery follow.

    async def _run(self, call: _Call) -> None:
        with tracing.processing(call.messages):
            if self._is_async:
                await self._function(call.given)
                return
            if self._threads is None:
                self._threads = ThreadPoolExecutor(
                    self._options.concurrency or self._settler.config.concurrency, "queen-handler"
                )
            task = asyncio.current_task()
            assert task is not None
            function = tracing.carried(self._function)
            thread = self._in_thread[task] = self._threads.submit(function, call.given)
            try:
                result = await asyncio.wrap_future(thread)
            finally:
                del self._in_thread[task]
            if inspect.isawaitable(result):
                await result

    async def _settle(self, call: _Call, failure: BaseException | None) -> bool:
        """Acknowledge the messages that the handler did not; False if that is rejected."""
        messages = call.messages
        # A nack by the handler may have ended a delivery: its other messages are redelivered.
        over = {each.lease_id for each in messages if each.is_settled and each.is_delivery_over}
        left = [message for message in messages if not message.is_settled]
        try:
            if failure is None:
                # The messages of one delivery are acknowledged together by their lease.
                lease_id = left[0].lease_id if len(call.lease_ids) == 1 and left else None
                is_whole = lease_id is not None and self.leases.is_whole(lease_id, len(left))
                await self._settler.complete(left, lease_id if is_whole else None)
            else:
                await self._settler.settle([outcome(message, failure) for message in left])
        except errors.LeaseLost:
            lost = [m for m in left if not m.is_settled and m.lease_id not in over]
            if not lost:
                return True
            for message in lost:
                message.is_lost = True
            if self._options.on_lease_lost is not None:
                self._notify_lost(lost)
            await self._report_lost(call)
            return False
        except Exception as error:
            # The lease expires, and the messages are redelivered.
            _LOG.warning("consume.ack_failed: %s: %s", messages[0], error)
            await self._report(call, error)
            return False
        return True

    async def _report_lost(self, call: _Call) -> None:
        lost = next(message for message in call.messages if message.is_lost)
        error = errors.LeaseLost(f"{lost}: its lease was lost, so no message was acked")
        _LOG.warning("consume.lease_lost: %s", error)
        if self._options.on_error is not None:
            await _call_back(self._options.on_error, call.given, error)

    def _notify_lost(self, messages: list[Message[Any]]) -> None:
        """Call ``on_lease_lost`` with each message; the handler continues."""
        assert self._options.on_lease_lost is not None
        for message in messages:
            task = asyncio.ensure_future(_call_back(self._options.on_lease_lost, message))
            self._callbacks.add(task)
            task.add_done_callback(self._callbacks.discard)

    async def _report(self, call: _Call, failure: BaseException | None) -> None:
        options = self._options
        if failure is None:
            if options.on_success is not None:
                await _call_back(options.on_success, call.given)
        elif options.on_error is not None:
            await _call_back(options.on_error, call.given, failure)
        else:
            _LOG.warning("consume.handler_failed", exc_info=failure)


async def _call_back(callback: Callable[..., Any], *given: Any) -> None:  # noqa: ANN401
    """Call back. Errors are only logged, because the message is already acknowledged."""
    try:
        result = callback(*given)
        if inspect.isawaitable(result):
            await result
    except Exception:
        _LOG.exception("consume.callback_failed")


def is_async(function: Callable[..., Any]) -> bool:
    """Whether the function is awaited. Plain functions would block the event loop."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - what it does, not whether it has one
    )
