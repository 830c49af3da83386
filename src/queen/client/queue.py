"""`Queue`: an immutable builder. Only its last method does I/O."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, Generic, Self, TypeVar, overload
from urllib.parse import quote

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.admin.dead_letters import DeadLetters
from queen.client.consume.consumer import Consumption, Signal
from queen.client.consume.dispatch import Handler
from queen.client.consume.options import ConsumeOptions, PopRequest
from queen.client.consume.outcomes import outcome
from queen.client.consume.pop import Poller, messages_of, pop_runs
from queen.client.durations import Duration, millis_of, seconds_of
from queen.client.message import Message, T
from queen.client.options import options_of
from queen.client.push.buffered import Buffered, BufferOptions
from queen.client.push.items import item_of
from queen.client.session import Session
from queen.client.transport.base import decoded
from queen.wire.messages import Pushed, PushItem
from queen.wire.options import Configured, ConfigureRequest

H = TypeVar("H", bound=Callable[..., Any])

_DECODE_CONFIGURED: Final = msgspec.json.Decoder(Configured).decode


class Queue(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """
    A queue, a partition of it, or all queues of a namespace and task.

    Usage::

        orders = queen.queue("orders").group("billing")
        await orders.partition("user-7").push([{"data": {"total": 12}}])
        for message in await orders.batch(10).wait(True).pop():
            await queen.ack(message)
    """

    queen: Session
    """The client."""
    name: str | None
    """The name of the queue, or None for all queues of a namespace or task."""
    type: "type[T] | None" = None
    """The type of payloads, or None for plain JSON."""
    partition_name: str | None = None
    """The partition, or None."""
    namespace_name: str | None = None
    """The namespace, or None."""
    task_name: str | None = None
    """The task, or None."""
    options: Mapping[str, Any] = {}
    """The options that `create` sends."""
    choice: ConsumeOptions = ConsumeOptions()
    """The options of pops and consumers."""
    buffering: BufferOptions | None = None
    """The options of the buffer, or None without one."""

    # Name and options.

    def namespace(self, name: str) -> Self:
        """Select all queues of a namespace, or set the namespace for `create`."""
        return msgspec.structs.replace(self, namespace_name=name)

    def task(self, name: str) -> Self:
        """Select all queues of a task, or set the task for `create`."""
        return msgspec.structs.replace(self, task_name=name)

    def partition(self, name: str) -> Self:
        """Select a partition. Messages of one partition are delivered in order."""
        if not name:
            raise errors.InvalidName("a partition needs a name")
        return msgspec.structs.replace(self, partition_name=name)

    def config(self, options: Mapping[str, Any]) -> Self:
        """Set options for `create`. Other options keep their values."""
        return msgspec.structs.replace(self, options={**self.options, **options})

    async def create(self) -> Configured:
        """Create the queue, or change the options given to `config`."""
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
            # An earlier attempt of this call, whose response got lost, deleted it.

    # Push.

    def buffer(
        self,
        options: Mapping[str, Any] | None = None,
        **others: Any,  # noqa: ANN401 - fields of BufferOptions
    ) -> "BufferedQueue[T]":
        """
        Buffer pushes. They are sent at a message count or after an interval.

        ``message_count`` 100, ``time_millis`` 1000, ``when_full`` ``wait`` or ``raise``.
        """
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
    ) -> Buffered: ...
    @overload
    async def push(
        self, items: "Sequence[Mapping[str, Any]] | Mapping[str, Any]"
    ) -> list[Pushed]: ...
    async def push(self, items: "Sequence[Mapping[str, Any]] | Mapping[str, Any]") -> list[Pushed]:
        """
        Store messages durably before this returns; ``[{"data": …, "transactionId": …}]``.

        Raises PushError with each item that was not stored. On a buffered queue it returns as soon
        as the items have room in the buffer, with ``status`` ``buffered``; ``await
        result.stored()`` waits until they are durable.
        """
        built = self.items(items)
        if not tracing.is_on():
            return await self._push(built)
        with tracing.sending(self._own_name(), built) as built:
            return await self._push(built)

    def _push(self, built: list[PushItem]) -> Awaitable[list[Pushed]]:
        if self.buffering is not None:
            buffers = self.queen.buffers.here()
            return buffers.push(self._buffer_key, built, self.buffering, key=self._key)
        return self.queen.push(built, key=self.key)

    def items(self, given: "Sequence[Mapping[str, Any]] | Mapping[str, Any]") -> list[PushItem]:
        """The items of a push."""
        name, partition = self._own_name(), self.partition_name or "Default"
        return [
            item_of(each, name, partition)
            for each in ([given] if isinstance(given, Mapping) else given)
        ]

    async def flush_buffer(self) -> None:
        """Send the buffered messages of this queue and partition, and wait for their storage."""
        await self.queen.buffers.here().flush(self._buffer_key)

    # Pop and consume.

    def group(self, name: str) -> Self:
        """Set the consumer group. Each group receives every message."""
        return self._choose(group=name)

    def batch(self, size: int) -> Self:
        """Set the largest number of messages per pop. Default: 1."""
        return self._choose(batch=size)

    def partitions(self, count: int) -> Self:
        """Set the largest number of partitions per pop. Default: 1 for a queue."""
        return self._choose(partitions=count)

    def wait(self, is_waiting: bool = True) -> Self:
        """Wait for messages if there are none. Consumers always wait."""
        return self._choose(wait=is_waiting)

    def timeout_millis(self, millis: Duration) -> Self:
        """Set how long a pop waits for messages. Default: 30000."""
        return self._choose(timeout_millis=millis_of(millis, "timeout_millis"))

    def auto_ack(self, is_on: bool = True) -> Self:
        """Acknowledge in the pop itself, or in a consumer when the handler returns."""
        return self._choose(auto_ack=is_on)

    def concurrency(self, count: int) -> Self:
        """Set the number of handlers that a consumer runs at the same time. Default: 1."""
        return self._choose(concurrency=count)

    def limit(self, count: int | None) -> Self:
        """Stop the consumer after this number of messages."""
        return self._choose(limit=count)

    def idle_millis(self, millis: Duration | None) -> Self:
        """Stop the consumer if no message arrives for this time."""
        return self._choose(
            idle_millis=None if millis is None else millis_of(millis, "idle_millis")
        )

    def lease(self, seconds: Duration) -> Self:
        """Set the lease of these deliveries, instead of the queue's leaseTime."""
        return self._choose(lease_seconds=seconds_of(seconds, "seconds"))

    def renew_lease(self, is_on: bool = True, interval_millis: Duration | None = None) -> Self:
        """Extend leases while their handler runs, by default three times per lease time."""
        interval = (
            None if interval_millis is None else millis_of(interval_millis, "interval_millis")
        )
        return self._choose(renews_lease=is_on, renew_interval_millis=interval)

    def each(self) -> Self:
        """Call the handler with one message at a time, regardless of the batch."""
        return self._choose(is_each=True)

    def subscription_mode(self, mode: str) -> Self:
        """Let a new group start with the oldest message (``all``), or only with ``new`` ones."""
        return self._choose(subscription_mode=mode)

    def subscription_from(self, instant: str | datetime) -> Self:
        """Let a new group start with messages that were pushed at or after this time."""
        text = instant.isoformat() if isinstance(instant, datetime) else instant
        return self._choose(subscription_from=text)

    def on_success(self, callback: "Callable[[Any], Any]") -> Self:
        """Call back with the handled message or list, after its ack."""
        return self._choose(on_success=callback)

    def on_error(self, callback: "Callable[[Any, BaseException], Any]") -> Self:
        """Call back with the failed message or list and the exception, after the nack."""
        return self._choose(on_error=callback)

    def on_lease_lost(self, callback: "Callable[[Message[T]], Any]") -> Self:
        """Call back when a lease is lost, instead of cancelling the handler."""
        return self._choose(on_lease_lost=callback)

    async def pop(self) -> list[Message[T]]:
        """Pop messages; an empty list if there are none."""
        runs = await pop_runs(self.queen, self.pop_request)
        return messages_of(self.queen, runs, self.type)

    @overload
    async def consume(
        self, handler: "Callable[[Message[T]], object]", signal: Signal | None = None
    ) -> None: ...
    @overload
    async def consume(
        self, handler: "Callable[[list[Message[T]]], object]", signal: Signal | None = None
    ) -> None: ...
    async def consume(
        self, handler: "Callable[[Any], object]", signal: Signal | None = None
    ) -> None:
        """
        Hand messages to the handler until stopped: its return acks, its exception nacks.

        When ``signal`` is set, popping stops, and handlers finish their messages. It is an
        asyncio.Event, or a threading.Event that another thread sets. With batch 1 or `each` the
        handler gets a message, otherwise a list. A plain function runs in a thread.
        """
        await self.start(handler, signal=signal)

    def start(
        self, handler: "Callable[[Any], object]", *, signal: Signal | None = None
    ) -> Consumption:
        """Start consuming in the background. Use the returned handle to wait for it or stop it."""
        return self.queen.consumers.start(self._handler(handler), signal)

    def handler(self, function: H) -> H:
        """Register a function that `queen.run` consumes with; returns it unchanged."""
        self.queen.handlers.append(self._handler(function))
        return function

    @asynccontextmanager
    async def receive(self) -> AsyncGenerator[Message[T]]:
        """Wait for one message: ack when the block ends, nack when it raises."""
        poller = Poller(self.queen, asyncio.Event())
        request = self.pop_request.replaced(batch=1, wait=True)
        while not (runs := await poller.pop(request)):
            await poller.pause()
        (message,) = messages_of(self.queen, runs, self.type)
        try:
            yield message
        except asyncio.CancelledError:
            # Not a failure: release the message without counting an attempt.
            if not message.is_settled and message.lease_id is not None:
                await asyncio.shield(self.queen.release(message.lease_id))
            raise
        except BaseException as error:
            if not message.is_settled:
                await self.queen.settle([outcome(message, error)])
            raise
        if not message.is_settled:
            await message.ack()

    def dlq(self, group: str | None = None) -> DeadLetters:
        """The queue's dead letters, of one group or all."""
        return DeadLetters(queen=self.queen, queue=self._own_name(), group=group)

    @property
    def key(self) -> str:
        """Affinity key: requests with the same key go to the same server."""
        return self.pop_request.key

    def _key(self) -> str:
        return self.key

    @property
    def pop_request(self) -> PopRequest:
        """The pop that this builder describes."""
        return PopRequest(
            queue=self.name,
            partition=self.partition_name,
            namespace=self.namespace_name,
            task=self.task_name,
            options=self.choice,
        )

    @property
    def _buffer_key(self) -> tuple[str, str]:
        return self.name or "", self.partition_name or "Default"

    def _handler(self, function: Callable[[Any], object]) -> Handler:
        return Handler(function, self.pop_request, self.type)

    def _own_name(self) -> str:
        if self.name is None:
            raise errors.BadRequest("this needs a queue name: queen.queue(name)")
        return self.name

    def _choose(self, **changes: Any) -> Self:  # noqa: ANN401 - fields of ConsumeOptions
        return msgspec.structs.replace(self, choice=self.choice.replaced(**changes))


class BufferedQueue(Queue[T], Generic[T], frozen=True, kw_only=True):
    """A queue whose pushes are buffered."""
