"""What is done with messages that were popped: the handler, then ack, nack or nothing."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from queen import errors
from queen.client import tracing
from queen.client.consume.leases import Leases
from queen.client.consume.outcomes import Outcome, outcome
from queen.client.message import Message

if TYPE_CHECKING:
    from queen.client.queue import Queue

_LOG: Final = logging.getLogger("queen.client")


class Handling:
    """One handler of one queue; knows nothing of pops."""

    def __init__(self, queue: "Queue[Any]", handler: Callable[[Any], Any]) -> None:
        choice = queue.choice
        self._queen = queue.queen
        self._type = queue.type
        self._choice = choice
        self._handler = handler
        self._is_async = _is_async(handler)
        self._is_single = choice.is_each or choice.batch == 1
        self._acks = choice.auto_ack is not False
        self._threads: ThreadPoolExecutor | None = None
        self._in_thread: dict[asyncio.Task[None], Future[Any]] = {}
        """What plain functions do for those that wait for them."""
        self._outlasting: set[str] = set()
        """Leases under which a thread works that nobody waits for any more."""
        self._renewing: asyncio.Task[None] | None = None
        self.leases = Leases(
            self._queen,
            seconds=choice.lease_seconds,
            interval_millis=choice.renew_interval_millis,
            on_lost=None if choice.on_lease_lost is None else self._noticed,
        )
        self._telling: set[asyncio.Future[None]] = set()
        self.stopping = asyncio.Event()
        """When it is set, what has not begun is given back."""

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def deal_with(self, messages: list[Message[Any]]) -> None:
        """Hand messages to the handler, one by one or together, and settle them."""
        held = self.leases.hold(messages)
        try:
            readable = await self._readable(messages)
            if not readable:
                return
            if not self._is_single:
                await self._handle(readable, readable, held)
                return
            await self._each(readable)
        finally:
            self.leases.let_go(lease for lease in held if lease not in self._outlasting)

    async def release(self, messages: Iterable[Message[Any]]) -> None:
        """Give back what is left of their deliveries, at once and uncounted."""
        leases = {m.lease_id for m in messages if m.lease_id is not None and not m.is_lost}
        for lease in leases - self._outlasting:
            with contextlib.suppress(errors.QueenError):
                await self._queen.release(lease)

    async def _each(self, messages: list[Message[Any]]) -> None:
        over: set[str | None] = set()
        skipped: list[Message[Any]] = []
        for at, message in enumerate(messages):
            if message.lease_id in over or message.is_lost:
                skipped.append(message)
                continue  # Its delivery ended with the one before: it comes again.
            if self.stopping.is_set():
                rest = (m for m in messages[at:] if m.lease_id not in over)
                await self.release(rest)
                return
            try:
                under = [] if message.lease_id is None else [message.lease_id]
                goes_on = await self._handle(message, [message], under)
            except asyncio.CancelledError:
                # The handler was told to end: the messages behind it go back with its own.
                rest = [m for m in messages[at + 1 :] if m.lease_id not in over]
                await asyncio.shield(self.release(rest))
                raise
            if not goes_on:
                over.add(message.lease_id)
        # Mostly nothing is held any more; where it is, it need not wait for the lease's end.
        await self.release(m for m in skipped if not m.is_settled)

    async def _readable(self, messages: list[Message[Any]]) -> list[Message[Any]]:
        """Those that are what the consumer's type says; the others become dead letters."""
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
                await self._queen.settle(bad)
        return good

    async def _handle(
        self,
        given: Any,  # noqa: ANN401 - a message or a list
        messages: list[Message[Any]],
        leases: list[str],
    ) -> bool:
        """Run the handler; False when the delivery is over before its end."""
        task = asyncio.ensure_future(self._call(given, messages))
        # A thread cannot be cancelled: it goes on to its end, and then nothing is acked.
        self.leases.work(leases, task if self._is_async else None)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            # The grace time is over: what is not done goes back at once.
            thread = self._in_thread.get(task)
            if thread is not None and not thread.cancel():
                self._leave(task, given, messages, leases)
                raise
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.shield(self.release(messages))
            raise
        finally:
            self.leases.work(leases, None)
        return await self._conclude(task, given, messages)

    async def _conclude(
        self,
        task: "asyncio.Task[None]",
        given: Any,  # noqa: ANN401 - a message or a list
        messages: list[Message[Any]],
    ) -> bool:
        """Say what became of messages whose handler has ended."""
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        if any(message.is_lost for message in messages):
            await self._lost(given, messages)
            return False
        if isinstance(failure, asyncio.CancelledError) and self.stopping.is_set():
            await self.release(messages)
            return False
        # One that cancels itself, without being told to, has failed like any other.
        if self._acks and not await self._settle(given, messages, failure):
            return False
        await self._tell(given, failure)
        if failure is not None and not self._acks:
            return False
        return not any(message.is_delivery_over for message in messages)

    def _leave(
        self,
        task: "asyncio.Task[None]",
        given: Any,  # noqa: ANN401 - a message or a list
        messages: list[Message[Any]],
        leases: list[str],
    ) -> None:
        """A thread works on: nobody waits for it, and nobody else may get its messages."""
        _LOG.warning(
            "consume.still_working: %s: a thread cannot be stopped; it keeps its lease to its end",
            messages[0],
        )
        self._outlasting.update(leases)
        if self._renewing is None:
            self._renewing = asyncio.create_task(self.leases.renew_for_ever())
        self._queen.outlasts(asyncio.create_task(self._outlast(task, given, messages, leases)))

    async def _outlast(
        self,
        task: "asyncio.Task[None]",
        given: Any,  # noqa: ANN401 - a message or a list
        messages: list[Message[Any]],
        leases: list[str],
    ) -> None:
        """Settle what a thread has done, late; until then its leases are renewed."""
        try:
            await asyncio.wait([task])
            goes_on = await self._conclude(task, given, messages)
        except asyncio.CancelledError:
            task.cancel()
            _LOG.error("consume.left_working: %s: its lease runs out by itself", messages[0])
            raise
        finally:
            self._outlasting.difference_update(leases)
            self.leases.let_go(leases)
            if not self._outlasting and self._renewing is not None:
                self._renewing.cancel()
                self._renewing = None
        if goes_on:
            await self.release(messages)  # Behind them in the delivery are some that wait.

    async def _call(self, given: Any, messages: list[Message[Any]]) -> None:  # noqa: ANN401
        with tracing.processing(messages):
            if self._is_async:
                await self._handler(given)
                return
            if self._threads is None:
                self._threads = ThreadPoolExecutor(
                    self._choice.concurrency or self._queen.config.concurrency, "queen-handler"
                )
            work = partial(tracing.carried(self._handler), given)
            task = asyncio.current_task()
            assert task is not None
            thread = self._in_thread[task] = self._threads.submit(work)
            try:
                result = await asyncio.wrap_future(thread)
            finally:
                del self._in_thread[task]
            if inspect.isawaitable(result):
                await result

    async def _settle(
        self,
        given: Any,  # noqa: ANN401 - a message or a list
        messages: list[Message[Any]],
        failure: BaseException | None,
    ) -> bool:
        """Say what became of those that the handler did not settle itself; False if refused."""
        # A nack of its own may have ended a delivery: what else was in that comes again.
        over = {each.lease_id for each in messages if each.is_settled and each.is_delivery_over}
        left = [message for message in messages if not message.is_settled]
        try:
            if failure is None:
                await self._queen.complete(left)
            else:
                await self._queen.settle([outcome(message, failure) for message in left])
        except errors.LeaseLost:
            lost = [m for m in left if not m.is_settled and m.lease_id not in over]
            if not lost:
                return True
            for message in lost:
                message.is_lost = True
            if self._choice.on_lease_lost is not None:
                self._noticed(lost)
            await self._lost(given, messages)
            return False
        except Exception as error:
            # The lease ends by itself, and the messages come again.
            _LOG.warning("consume.ack_failed: %s: %s", messages[0], error)
            await self._tell(given, error)
            return False
        return True

    async def _lost(self, given: Any, messages: list[Message[Any]]) -> None:  # noqa: ANN401
        lost = next(message for message in messages if message.is_lost)
        error = errors.LeaseLost(f"{lost}: its lease was lost; nothing was acked")
        _LOG.warning("consume.lease_lost: %s", error)
        if self._choice.on_error is not None:
            await _told(self._choice.on_error, given, error)

    def _noticed(self, messages: list[Message[Any]]) -> None:
        """Tell of each message that another consumer has it by now; the handler goes on."""
        assert self._choice.on_lease_lost is not None
        for message in messages:
            task = asyncio.ensure_future(_told(self._choice.on_lease_lost, message))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell(self, given: Any, failure: BaseException | None) -> None:  # noqa: ANN401
        choice = self._choice
        if failure is None:
            if choice.on_success is not None:
                await _told(choice.on_success, given)
        elif choice.on_error is not None:
            await _told(choice.on_error, given, failure)
        else:
            _LOG.warning("consume.handler_failed", exc_info=failure)


async def _told(callback: Callable[..., Any], *given: Any) -> None:  # noqa: ANN401
    """Call back; what goes wrong there is logged, for the message is settled already."""
    try:
        result = callback(*given)
        if inspect.isawaitable(result):
            await result
    except Exception:
        _LOG.exception("consume.callback_failed")


def _is_async(handler: Callable[[Any], Any]) -> bool:
    """Plain functions run in threads: they would stop everything else."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - what it does, not whether it has one
    )
