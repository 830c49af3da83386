"""Pop, hand to the handler, ack or nack: bounded in concurrency, and stopped without loss."""

import asyncio
import contextlib
import inspect
import logging
import random
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final

from queen import errors
from queen.client.durations import seconds_of
from queen.client.message import Message

if TYPE_CHECKING:
    from queen.client.queue import Queue

_LOG: Final = logging.getLogger("queen.client")
_MOST_PAUSE_SECONDS: Final = 10.0

Outcome = tuple[Message[Any], bool | str, Mapping[str, Any] | None]


class Retry(Exception):
    """Raised by a handler: try this again, at once or after ``delay``; no attempt is counted."""

    def __init__(self, reason: str = "", *, delay: float | str | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class DeadLetter(Exception):
    """Raised by a handler: this will never work, keep it with the dead letters."""


class BatchError(Exception):
    """Raised by a handler of a batch: these messages failed, the others are done."""

    def __init__(self, failed: "Mapping[Message[Any], BaseException | str]") -> None:
        super().__init__(f"{len(failed)} messages failed")
        self.failed = failed


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
        handler: Callable[[Any], Awaitable[Any]],
        signal: asyncio.Event | None,
    ) -> None:
        choice = queue.choice
        self._queen = queue.queen
        self._queue = queue._choose(  # pyright: ignore[reportPrivateUsage] - a copy with the defaults of consume
            wait=True if choice.wait is None else choice.wait, auto_ack=False
        )
        self._choice = choice
        self._is_single = choice.is_each or choice.batch == 1
        self._acks = choice.auto_ack is not False
        self._handler = handler
        self._signal = signal
        self._left = choice.limit
        self._seen_at = time.monotonic()
        self._stopping = asyncio.Event()
        self._held: dict[str, tuple[Message[Any], asyncio.Task[Any]]] = {}
        """Leases of what is being handled, with whoever handles it."""
        self._task = asyncio.create_task(self._run())
        self._queen.began(self)

    def __await__(self) -> Generator[Any, None, None]:
        return self._task.__await__()

    async def stop(self) -> None:
        """No new messages at once; handlers get their time to end; what is left is released."""
        self._stopping.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        workers = [asyncio.create_task(self._work()) for _ in range(self._choice.concurrency)]
        helpers = [asyncio.create_task(self._watch())]
        if self._choice.renews_lease:
            helpers.append(asyncio.create_task(self._renew_for_ever()))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([*workers, stopping], return_when=asyncio.FIRST_COMPLETED)
            while not self._stopping.is_set():
                done = [worker for worker in workers if worker.done()]
                for worker in done:
                    worker.result()  # Raises what a worker could not deal with.
                if len(done) == len(workers):
                    break
                await asyncio.wait(
                    [stopping, *(w for w in workers if not w.done())],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            self._stopping.set()
            _, late = await asyncio.wait(workers, timeout=self._queen.config.shutdown_timeout)
            for worker in late:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            for worker in workers:
                if not worker.cancelled():
                    worker.result()
        finally:
            tasks: list[asyncio.Task[Any]] = [*workers, *helpers, stopping]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._queen.ended(self)

    async def _watch(self) -> None:
        """Stop when the caller's signal is set, or when nothing came for long enough."""
        idle = self._choice.idle_millis
        waits: set[asyncio.Task[Any]] = set()
        if self._signal is not None:
            waits.add(asyncio.create_task(self._signal.wait()))
        if idle is not None:
            waits.add(asyncio.create_task(self._until_idle(idle / 1000)))
        if not waits:
            return
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
        finally:
            for task in waits:
                task.cancel()

    async def _until_idle(self, seconds: float) -> None:
        """Return when nothing was handled, and nothing came, for so long."""
        left = seconds
        while left > 0:
            await asyncio.sleep(left)
            left = seconds if self._held else self._seen_at + seconds - time.monotonic()

    async def _work(self) -> None:
        failures = 0
        while not self._stopping.is_set() and self._left != 0:
            size = self._choice.batch if self._left is None else min(self._choice.batch, self._left)
            if self._left is not None:
                self._left -= size  # Taken before the pop, so that workers together keep the limit.
            messages: list[Message[Any]] = []
            try:
                messages = await self._pop(size)
                failures = 0
            except (errors.ServiceError, errors.OutcomeUnknown, errors.QueueNotFound) as error:
                failures += 1
                _LOG.warning("consume.pop_failed: %s", error)
            finally:
                if self._left is not None:
                    self._left += size - len(messages)
            if failures:
                await self._pause(min(0.1 * 2**failures, _MOST_PAUSE_SECONDS))
                continue
            if messages:
                self._seen_at = time.monotonic()
                await self._deal_with(messages)
                self._seen_at = time.monotonic()

    async def _pop(self, size: int) -> list[Message[Any]]:
        """Messages, or none once this is being stopped: the long poll is not waited for."""
        popping = asyncio.create_task(self._queue.batch(size).pop())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([popping, stopping], return_when=asyncio.FIRST_COMPLETED)
            if popping.done():
                return popping.result()
            return []
        finally:
            stopping.cancel()
            if not popping.done():
                popping.cancel()
                with contextlib.suppress(asyncio.CancelledError, errors.QueenError):
                    await popping

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), random.uniform(seconds / 2, seconds))

    async def _readable(self, messages: list[Message[Any]]) -> list[Message[Any]]:
        """Those that are what the consumer's type says; the others become dead letters."""
        if self._queue.type is None:
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

    async def _deal_with(self, messages: list[Message[Any]]) -> None:
        messages = await self._readable(messages)
        if not messages:
            return
        if not self._is_single:
            await self._handle(messages, messages)
            return
        over: set[str | None] = set()
        for at, message in enumerate(messages):
            if message.lease_id in over:
                continue  # Its delivery ended with the one before: it comes again.
            if self._stopping.is_set():
                await self._release({m.lease_id for m in messages[at:]} - over)
                return
            if not await self._handle(message, [message]):
                over.add(message.lease_id)

    async def _handle(self, given: Any, messages: list[Message[Any]]) -> bool:  # noqa: ANN401
        """Run the handler; False when the delivery is over before its end."""
        task = asyncio.ensure_future(_called(self._handler, given))
        leases: set[str | None] = {m.lease_id for m in messages if m.lease_id is not None}
        for message in messages:
            if message.lease_id is not None:
                self._held[message.lease_id] = (message, task)
        failure: BaseException | None = None
        try:
            await asyncio.wait([task])
            failure = None if not task.cancelled() else asyncio.CancelledError()
            if failure is None:
                failure = task.exception()
        except asyncio.CancelledError:
            # The grace time is over: what is not done goes back at once.
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.shield(self._release(leases))
            raise
        finally:
            for lease in leases:
                self._held.pop(lease or "", None)
        if any(message.is_lost for message in messages):
            _LOG.warning("consume.lease_lost: %s", messages[0])
            return False
        if isinstance(failure, asyncio.CancelledError):
            await self._release(leases)
            return False
        if self._acks:
            await self._settle(messages, failure)
        await self._tell(given, failure)
        return failure is None

    async def _settle(self, messages: list[Message[Any]], failure: BaseException | None) -> None:
        try:
            await self._queen.settle([_outcome(message, failure) for message in messages])
        except errors.LeaseLost as error:
            for message in messages:
                message.is_lost = True
            _LOG.warning("consume.lease_lost: %s: %s", messages[0], error)
        except errors.QueenError as error:
            # The lease ends by itself, and the messages come again.
            _LOG.warning("consume.ack_failed: %s: %s", messages[0], error)

    async def _tell(self, given: Any, failure: BaseException | None) -> None:  # noqa: ANN401
        choice = self._choice
        if failure is None:
            if choice.on_success is not None:
                await _called(choice.on_success, given)
        elif choice.on_error is not None:
            await _called(choice.on_error, given, failure)
        else:
            _LOG.warning("consume.handler_failed", exc_info=failure)

    async def _release(self, leases: "set[str | None]") -> None:
        for lease in leases:
            if lease is not None:
                with contextlib.suppress(errors.QueenError):
                    await self._queen.release(lease)

    async def _renew_for_ever(self) -> None:
        """One call for all leases that are held, well before the first of them ends."""
        while True:
            millis = self._choice.renew_interval_millis
            leases = [message.lease_seconds for message, _ in self._held.values()]
            if self._choice.lease_seconds is not None:
                leases = [self._choice.lease_seconds]
            shortest = min(leases, default=1.0)
            await asyncio.sleep(millis / 1000 if millis else max(shortest / 3, 0.05))
            with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
                ends = await self._queen.extend(
                    list(self._held), seconds=self._choice.lease_seconds
                )
                for lease, until in ends.items():
                    if until is None and lease in self._held:
                        self._lose(lease)

    def _lose(self, lease: str) -> None:
        """Another consumer has it now: whoever works on it is stopped, and nothing is acked."""
        message, task = self._held[lease]
        message.is_lost = True
        task.cancel()


async def _called(function: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401
    result = function(*given)
    return await result if inspect.isawaitable(result) else result


def _outcome(message: Message[Any], failure: BaseException | None) -> Outcome:
    """What is said of a message after its handler has returned or raised."""
    if isinstance(failure, BatchError):
        failed = failure.failed.get(message)
        if failed is None:
            return message, True, None
        failure = failed if isinstance(failed, BaseException) else RuntimeError(failed)
    if failure is None:
        return message, True, None
    if isinstance(failure, Retry):
        context: dict[str, Any] = {"error": str(failure)}
        if failure.delay is not None:
            context["delay"] = seconds_of(failure.delay)
        return message, "retry", context
    if isinstance(failure, DeadLetter):
        return message, "dlq", {"error": str(failure)}
    return message, False, {"error": f"{type(failure).__name__}: {failure}"}
