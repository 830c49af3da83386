"""The fluent handle: each step returns a new value, and only the last word does I/O."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload
from urllib.parse import quote, urlencode

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.consume.outcomes import outcome
from queen.client.durations import Duration, millis_of, seconds_of
from queen.client.message import Message, Popped, T
from queen.client.options import options_of
from queen.client.payloads import Codec
from queen.client.push.items import item_of
from queen.client.transport.base import Reply, decoded
from queen.wire.messages import MessageRun, Pushed, PushItem
from queen.wire.options import Configured, ConfigureRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from queen.client.admin.dead_letters import DeadLetters
    from queen.client.client import Queen
    from queen.client.consume.consumer import Consumption
    from queen.client.push.buffer import Buffered, BufferOptions

H = TypeVar("H", bound=Callable[..., Any])
Signal = asyncio.Event | threading.Event

_DECODE_CONFIGURED = msgspec.json.Decoder(Configured).decode
_DECODE_POP = msgspec.json.Decoder(Popped).decode


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What a pop or a consumer asks for; the defaults of a pop."""

    batch: int = 1
    partitions: int | None = None
    """None is one of a queue, and of a namespace or task as many as fill the batch."""
    wait: bool | None = None
    timeout_millis: int = 30_000
    auto_ack: bool | None = None
    group: str | None = None
    subscription_mode: str | None = None
    subscription_from: str | None = None
    lease_seconds: float | None = None
    concurrency: int | None = None
    """None is what the client's configuration says."""
    limit: int | None = None
    idle_millis: int | None = None
    renews_lease: bool = False
    renew_interval_millis: int | None = None
    is_each: bool = False
    on_success: "Callable[[Any], Any] | None" = None
    on_error: "Callable[[Any, BaseException], Any] | None" = None
    on_lease_lost: "Callable[[Message[Any]], Any] | None" = None


class Queue(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """
    A queue, a partition of it, or all queues of a namespace and task.

    Usage::

        orders = queen.queue("orders").group("billing")
        await orders.partition("user-7").push([{"data": {"total": 12}}])
        for message in await orders.batch(10).wait(True).pop():
            await queen.ack(message)
    """

    queen: "Queen"
    name: str | None
    type: "type[T] | None" = None
    partition_name: str | None = None
    namespace_name: str | None = None
    task_name: str | None = None
    options: Mapping[str, Any] = {}
    choice: Choice = Choice()
    buffering: "BufferOptions | None" = None

    # What it is.

    def namespace(self, name: str) -> Self:
        return msgspec.structs.replace(self, namespace_name=name)

    def task(self, name: str) -> Self:
        return msgspec.structs.replace(self, task_name=name)

    def partition(self, name: str) -> Self:
        if not name:
            raise errors.InvalidName("a partition needs a name")
        return msgspec.structs.replace(self, partition_name=name)

    def config(self, options: Mapping[str, Any]) -> Self:
        """Options for `create`; what is not named keeps its value."""
        return msgspec.structs.replace(self, options={**self.options, **options})

    async def create(self) -> Configured:
        """Make the queue, or change the options given to `config`."""
        request = ConfigureRequest(
            queue=self._own_name(),
            namespace=self.namespace_name,
            task=self.task_name,
            options=options_of(self.options),
        )
        reply = await self.queen.transport.exchange(
            "POST", "/api/v1/configure", msgspec.json.encode(request)
        )
        return decoded(reply, _DECODE_CONFIGURED)

    async def delete(self) -> None:
        """Delete the queue with its messages; dead letters stay."""
        try:
            await self.queen.transport.exchange(
                "DELETE", f"/api/v1/resources/queues/{quote(self._own_name(), safe='')}"
            )
        except errors.QueueNotFound as error:
            if not error.members.get("is_repeated"):
                raise
            # It was our own call, whose answer got lost, that deleted it.

    # Push.

    def buffer(
        self,
        options: Mapping[str, Any] | None = None,
        **others: Any,  # noqa: ANN401 - fields of BufferOptions
    ) -> "BufferedQueue[T]":
        """
        Gather pushes: sent when so many wait, or after so long, whichever comes first.

        ``message_count`` 100, ``time_millis`` 1000, ``when_full`` ``wait`` or ``raise``.
        """
        from queen.client.push.buffer import BufferOptions

        return BufferedQueue(
            queen=self.queen,
            name=self.name,
            type=self.type,
            partition_name=self.partition_name,
            namespace_name=self.namespace_name,
            task_name=self.task_name,
            options=self.options,
            choice=self.choice,
            buffering=BufferOptions.of({**(options or {}), **others}),
        )

    @overload
    async def push(
        self: "BufferedQueue[T]", items: "Sequence[Mapping[str, Any]] | Mapping[str, Any]"
    ) -> "Buffered": ...
    @overload
    async def push(
        self, items: "Sequence[Mapping[str, Any]] | Mapping[str, Any]"
    ) -> list[Pushed]: ...
    async def push(self, items: "Sequence[Mapping[str, Any]] | Mapping[str, Any]") -> list[Pushed]:
        """
        Store messages, durably, before this returns; ``[{"data": …, "transactionId": …}]``.

        Raises PushError with each item that was not stored. On a buffered queue it returns as soon
        as the items have room in the buffer, with ``status`` ``buffered``; ``await
        result.stored()`` waits until they are durable.
        """
        built = self.items(items)
        if not tracing.is_on():
            return await self._push(built)
        with tracing.sending(self._own_name(), built) as built:
            return await self._push(built)

    async def _push(self, built: list[PushItem]) -> list[Pushed]:
        if self.buffering is not None:
            return await self.queen.buffers.here().push(self, built)
        return await self.queen.push(built, key=self.key)

    def items(self, given: "Sequence[Mapping[str, Any]] | Mapping[str, Any]") -> list[PushItem]:
        """What would be pushed."""
        name, partition = self._own_name(), self.partition_name or "Default"
        return [
            item_of(each, name, partition)
            for each in ([given] if isinstance(given, Mapping) else given)
        ]

    async def flush_buffer(self) -> None:
        """Send what is buffered for this queue and partition, and wait until it is stored."""
        await self.queen.buffers.here().flush(self)

    # Pop and consume.

    def group(self, name: str) -> Self:
        return self._choose(group=name)

    def batch(self, size: int) -> Self:
        return self._choose(batch=size)

    def partitions(self, count: int) -> Self:
        return self._choose(partitions=count)

    def wait(self, is_waiting: bool = True) -> Self:
        return self._choose(wait=is_waiting)

    def timeout_millis(self, millis: Duration) -> Self:
        return self._choose(timeout_millis=millis_of(millis, "timeout_millis"))

    def auto_ack(self, is_on: bool = True) -> Self:
        """A pop: settled by the pop itself. A consumer: ack when the handler returns."""
        return self._choose(auto_ack=is_on)

    def concurrency(self, count: int) -> Self:
        return self._choose(concurrency=count)

    def limit(self, count: int | None) -> Self:
        return self._choose(limit=count)

    def idle_millis(self, millis: Duration | None) -> Self:
        return self._choose(
            idle_millis=None if millis is None else millis_of(millis, "idle_millis")
        )

    def lease(self, seconds: Duration) -> Self:
        """How long these deliveries last; the queue's leaseTime otherwise."""
        return self._choose(lease_seconds=seconds_of(seconds, "seconds"))

    def renew_lease(self, is_on: bool = True, interval_millis: Duration | None = None) -> Self:
        interval = (
            None if interval_millis is None else millis_of(interval_millis, "interval_millis")
        )
        return self._choose(renews_lease=is_on, renew_interval_millis=interval)

    def each(self) -> Self:
        """The handler gets one message at a time, whatever the batch."""
        return self._choose(is_each=True)

    def subscription_mode(self, mode: str) -> Self:
        return self._choose(subscription_mode=mode)

    def subscription_from(self, instant: str | datetime) -> Self:
        text = instant.isoformat() if isinstance(instant, datetime) else instant
        return self._choose(subscription_from=text)

    def on_success(self, callback: "Callable[[Any], Any]") -> Self:
        """Called with what was handled, after its ack."""
        return self._choose(on_success=callback)

    def on_error(self, callback: "Callable[[Any, BaseException], Any]") -> Self:
        """Called with what failed and the exception, after the nack."""
        return self._choose(on_error=callback)

    def on_lease_lost(self, callback: "Callable[[Message[T]], Any]") -> Self:
        """Called at once with a message that was lost; its handler is then not cancelled."""
        return self._choose(on_lease_lost=callback)

    async def pop(self) -> list[Message[T]]:
        """Messages that are there; none is an empty list, and a failure raises."""
        return messages_of(self, await pop_runs(self))

    def _pop_path(self, is_auto: bool) -> str:
        choice = self.choice
        given: dict[str, Any] = {
            "batch": choice.batch,
            "partitions": choice.partitions,
            "wait": "true" if choice.wait else None,
            "timeout": choice.timeout_millis if choice.wait else None,
            "consumerGroup": choice.group,
            "autoAck": "true" if is_auto else None,
            "subscriptionMode": choice.subscription_mode,
            "subscriptionFrom": choice.subscription_from,
            "leaseSeconds": choice.lease_seconds,
            "layout": "runs",
        }
        if self.name is None:
            path = "/api/v1/pop"
            given |= {"namespace": self.namespace_name, "task": self.task_name}
        else:
            path = f"/api/v1/pop/queue/{quote(self.name, safe='')}"
            if self.partition_name is not None:
                path += f"/partition/{quote(self.partition_name, safe='')}"
        return f"{path}?{urlencode({k: v for k, v in given.items() if v is not None})}"

    @overload
    async def consume(
        self,
        handler: "Callable[[Message[T]], object]",
        signal: Signal | None = None,
    ) -> None: ...
    @overload
    async def consume(
        self,
        handler: "Callable[[list[Message[T]]], object]",
        signal: Signal | None = None,
    ) -> None: ...
    async def consume(
        self, handler: "Callable[[Any], object]", signal: Signal | None = None
    ) -> None:
        """
        Hand messages to the handler until stopped: its return is the ack, its exception the nack.

        When ``signal`` is set, popping stops at once, and what is being handled is finished. It is
        an asyncio.Event, or a threading.Event that another thread sets. With batch 1 or `each` the
        handler gets a message, else a list. A plain function runs in a thread.
        """
        await self.start(handler, signal=signal)

    def start(
        self, handler: "Callable[[Any], object]", *, signal: Signal | None = None
    ) -> "Consumption":
        """Consume in the background; the handle can be awaited, and stopped."""
        from queen.client.consume.consumer import Consumption

        return Consumption(self, handler, signal)

    def handler(self, function: H) -> H:
        """Register a function that `queen.run` consumes with; it stays a plain function."""
        self.queen.handlers.append((self, function))
        return function

    @asynccontextmanager
    async def receive(self) -> "AsyncGenerator[Message[T]]":
        """One message: ack when the block ends, nack when it raises. Waits for it."""
        from queen.client.consume.pop import Popping

        popping = Popping(self.queen, asyncio.Event())
        while not (runs := await popping.pop(self._choose(batch=1, wait=True))):
            await popping.rest()
        (message,) = messages_of(self, runs)
        try:
            yield message
        except asyncio.CancelledError:
            # Nobody's failure: it goes back at once, uncounted.
            if not message.is_settled and message.lease_id is not None:
                await asyncio.shield(self.queen.release(message.lease_id))
            raise
        except BaseException as error:
            if not message.is_settled:
                await self.queen.settle([outcome(message, error)])
            raise
        if not message.is_settled:
            await message.ack()

    def dlq(self, group: str | None = None) -> "DeadLetters":
        """The queue's dead letters, of one group or all."""
        from queen.client.admin.dead_letters import DeadLetters

        return DeadLetters(queen=self.queen, queue=self._own_name(), group=group)

    @property
    def key(self) -> str:
        """What belongs together on one server."""
        name = self.name or f"{self.namespace_name or ''}/{self.task_name or ''}"
        return f"{name}:{self.partition_name or '*'}:{self.choice.group or ''}"

    def _own_name(self) -> str:
        if self.name is None:
            raise errors.BadRequest("name a queue: queen.queue(name)")
        return self.name

    def _choose(self, **changes: Any) -> Self:  # noqa: ANN401 - fields of Choice
        for name in ("batch", "partitions", "concurrency"):
            if changes.get(name, 1) < 1:
                raise errors.BadRequest(f"{name} must be at least 1")
        return msgspec.structs.replace(self, choice=msgspec.structs.replace(self.choice, **changes))


class BufferedQueue(Queue[T], Generic[T], frozen=True, kw_only=True):
    """A queue whose pushes are gathered."""


async def pop_runs(
    queue: Queue[Any], on_empty: "Callable[[Reply], None] | None" = None
) -> list[MessageRun]:
    """Pop without making a `Message` of each; ``on_empty`` gets the response without messages."""
    choice = queue.choice
    path = queue._pop_path(bool(choice.auto_ack))  # pyright: ignore[reportPrivateUsage] - of this file
    with tracing.receiving(queue.name, choice.group) as came:
        reply = await queue.queen.transport.exchange(
            "GET",
            path,
            key=queue.key,
            wait_seconds=choice.timeout_millis / 1000 if choice.wait else 0.0,
        )
        if reply.status == 204:
            if on_empty is not None:
                on_empty(reply)
            return []
        runs = decoded(reply, _DECODE_POP).runs
        came(sum(len(run.data) for run in runs))
    return runs


def messages_of(queue: Queue[T], runs: Sequence[MessageRun]) -> list[Message[T]]:
    """The messages of a pop, each able to settle itself."""
    codec: Codec[T] = queue.queen.codec(queue.type)
    return [Message(run, at, codec, queue.queen) for run in runs for at in range(len(run.data))]
