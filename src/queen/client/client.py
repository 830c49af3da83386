"""`Queen`: the way into the SDK."""

import asyncio
import logging
import os
import signal
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload
from urllib.parse import quote

import msgspec

from queen import errors
from queen.client.admin import Admin
from queen.client.buffer import Buffers
from queen.client.config import Config
from queen.client.consumer import Consumption
from queen.client.durations import seconds_of
from queen.client.message import Message
from queen.client.payloads import Codec
from queen.client.producers import Producer, Producers
from queen.client.queue import Queue
from queen.client.transaction import Transaction
from queen.client.transport import HttpTransport, Transport
from queen.wire.messages import (
    Acknowledged,
    Acknowledgment,
    AckRequest,
    AckResponse,
    AckResult,
    ExtendManyRequest,
    ExtendManyResponse,
    Pushed,
    PushItem,
    PushRequest,
    PushResponse,
)

T = TypeVar("T")

_LOG: Final = logging.getLogger("queen.client")
_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE_PUSH: Final = msgspec.json.Decoder(PushResponse).decode
_DECODE_ACK: Final = msgspec.json.Decoder(Acknowledged).decode
_DECODE_ACKS: Final = msgspec.json.Decoder(AckResponse).decode
_DECODE_EXTENDED: Final = msgspec.json.Decoder(ExtendManyResponse).decode
_CHUNK_ITEMS: Final = 5_000
_CHUNK_BYTES: Final = 16 * 2**20


class Queen:
    """
    A client. Making one does no I/O, needs no event loop and touches no signal.

    Usage::

        async with Queen("http://localhost:6632") as queen:
            await queen.queue("orders").push([{"data": {"total": 12}}])
    """

    def __init__(
        self,
        where: "str | Sequence[str] | Mapping[str, Any] | None" = None,
        *,
        transport: Transport | None = None,
        **options: Any,  # noqa: ANN401 - fields of Config
    ) -> None:
        self.config = Config.of(where, **options)
        self.transport: Transport = transport or HttpTransport(self.config)
        self.buffers = Buffers(self)
        self.admin = Admin(self)
        self._producers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Producers] = (
            weakref.WeakKeyDictionary()
        )
        self._codecs: dict[Any, Codec[Any]] = {}
        self._handlers: list[tuple[Queue[Any], Callable[[Any], Any]]] = []
        self._running: set[Consumption] = set()
        self._stop: asyncio.Event | None = None
        if os.environ.get("QUEEN_CLIENT_LOG", "").lower() in ("1", "true", "yes"):
            _log_to_stderr()
        _LOG.info("client.initialized", extra={"urls": len(self.config.urls)})

    @classmethod
    def from_env(cls) -> Self:
        """A client as QUEEN_BASE_URL and the CLIENT_ variables say."""
        config = Config.from_env()
        return cls({name: getattr(config, name) for name in config.__struct_fields__})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop consumers, flush buffers (or raise with what is left), close connections."""
        await asyncio.gather(*(each.stop() for each in list(self._running)))
        try:
            await self.buffers.close()
        finally:
            await self.transport.close()

    # Queues.

    @overload
    def queue(self, name: str | None = None) -> Queue[Any]: ...
    @overload
    def queue(self, name: str | None = None, *, type: type[T]) -> Queue[T]: ...
    def queue(self, name: str | None = None, *, type: type[Any] | None = None) -> Queue[Any]:
        """A queue by name; without, whatever ``namespace`` and ``task`` say."""
        return Queue(queen=self, name=name, type=type)

    def transaction(self) -> Transaction:
        return Transaction(queen=self)

    # Push.

    async def push(self, items: Sequence[PushItem], *, key: str | None = None) -> list[Pushed]:
        """Store items, durably; a repeat after a lost answer stores nothing twice."""
        results: list[Pushed] = []
        for chunk in _chunks(items):
            try:
                results += await self._push(chunk, key)
            except errors.QueenError as error:
                if isinstance(error, errors.RequestError | errors.ServiceError):
                    rest = items[len(results) :]
                    raise errors.PushError(str(error), stored=results, items=rest) from error
                raise
        failed = [each for each in results if each.status == "failed"]
        if failed:
            raise errors.PushError(f"{len(failed)} items were refused", stored=results, items=[])
        return results

    async def _push(self, items: Sequence[PushItem], key: str | None) -> list[Pushed]:
        async with self.producers().lend() as producer:
            return await self.send(items, producer, key=key)

    async def send(
        self, items: Sequence[PushItem], producer: Producer, *, key: str | None
    ) -> list[Pushed]:
        """One request under a producer's number: sent again with it, it is stored once."""
        request = PushRequest(
            items=list(items), producer_id=producer.id, sequence=producer.sequence
        )
        reply = await self.transport.exchange("POST", "/api/v1/push", _ENCODE(request), key=key)
        return _DECODE_PUSH(reply.body).messages

    # Settle.

    async def ack(
        self,
        messages: "Message[Any] | Sequence[Message[Any]]",
        status: "bool | str" = True,
        context: Mapping[str, Any] | None = None,
    ) -> "Acknowledged | list[AckResult]":
        """
        Say what became of messages: True is done, False failed; or ``retry``, ``dlq``.

        ``context``: ``error`` (why), ``group``, ``delay``. Raises LeaseLost when another consumer
        has a message by now; of several, the others are settled all the same.
        """
        if isinstance(messages, Message):
            body = _ENCODE(self.acknowledgment(messages, status, context))
            reply = await self.transport.exchange("POST", "/api/v1/ack", body, key=_key(messages))
            return _DECODE_ACK(reply.body)
        return await self.settle([(each, status, context) for each in messages])

    async def settle(
        self, outcomes: "Sequence[tuple[Message[Any], bool | str, Mapping[str, Any] | None]]"
    ) -> list[AckResult]:
        """Say of each message what became of it, in one call."""
        if not outcomes:
            return []
        request = AckRequest(acknowledgments=[self.acknowledgment(*each) for each in outcomes])
        key = _key(outcomes[0][0])
        reply = await self.transport.exchange(
            "POST", "/api/v1/ack/batch", _ENCODE(request), key=key
        )
        answer = _DECODE_ACKS(reply.body)
        if not answer.success:
            first = next(each for each in answer.results if not each.success)
            kind = errors.of_code(first.code or "") or errors.RequestError
            raise kind(first.error or "refused", results=answer.results)
        return answer.results

    def acknowledgment(
        self, message: Message[Any], status: "bool | str", context: Mapping[str, Any] | None
    ) -> Acknowledgment:
        """What is said of a message; always with its lease."""
        context = context or {}
        unknown = set(context) - {"error", "group", "delay", "delaySeconds"}
        if unknown:
            raise errors.BadRequest(f"an ack has no option {sorted(unknown)[0]}")
        delay = context.get("delay", context.get("delaySeconds"))
        if isinstance(status, bool):
            status = "completed" if status else "failed"
        return Acknowledgment(
            id=message.id,
            lease_id=message.lease_id,
            partition_id=message.partition_id,
            consumer_group=context.get("group", message.consumer_group),
            status=status,
            error=context.get("error"),
            delay_seconds=None if delay is None else seconds_of(delay),
        )

    async def renew(
        self, messages: "Message[Any] | Sequence[Message[Any]]", *, seconds: float | None = None
    ) -> list[datetime]:
        """Keep messages longer, by one call; raises LeaseLost when a lease is gone."""
        given = [messages] if isinstance(messages, Message) else list(messages)
        leases = list(dict.fromkeys(each.lease_id for each in given if each.lease_id))
        ends = await self.extend(leases, seconds=seconds)
        if lost := [lease for lease in leases if ends[lease] is None]:
            raise errors.LeaseLost(f"{len(lost)} of {len(leases)} leases are lost")
        return [until for lease in leases if (until := ends[lease]) is not None]

    async def extend(
        self, lease_ids: Sequence[str], *, seconds: float | None = None
    ) -> dict[str, datetime | None]:
        """Move the ends of leases; None for one that is lost."""
        if not lease_ids:
            return {}
        request = ExtendManyRequest(lease_ids=list(lease_ids), seconds=seconds)
        reply = await self.transport.exchange("POST", "/api/v1/lease/extend", _ENCODE(request))
        results = _DECODE_EXTENDED(reply.body).results
        return {each.lease_id: each.expires_at for each in results}

    async def release(self, lease_id: str) -> None:
        """Give back what is left of a delivery, at once and uncounted."""
        await self.transport.exchange("POST", f"/api/v1/lease/{quote(lease_id, safe='')}/release")

    async def record_trace(self, message: Message[Any], event: Mapping[str, Any]) -> None:
        """Record an event of a message."""
        body = {
            "transactionId": message.transaction_id,
            "partitionId": message.partition_id,
            "consumerGroup": message.consumer_group,
            **event,
        }
        await self.transport.exchange("POST", "/api/v1/traces", _ENCODE(body))

    # Buffers.

    async def flush_all_buffers(self) -> None:
        """Send what is buffered, and wait until it is stored."""
        await self.buffers.flush_all()

    def get_buffer_stats(self) -> dict[str, Any]:
        return self.buffers.stats()

    # Handlers.

    def register(self, queue: Queue[Any], function: Callable[[Any], Any]) -> None:
        """Let `run` consume the queue with this function."""
        self._handlers.append((queue, function))

    async def run(self, *, handle_signals: bool = False) -> None:
        """Run all registered handlers until `stop`, or with ``handle_signals`` until SIGTERM."""
        self._stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT) if handle_signals else ()
        for number in numbers:
            loop.add_signal_handler(number, self._stop.set)
        try:
            async with asyncio.TaskGroup() as group:
                for queue, function in self._handlers:
                    group.create_task(queue.consume(function, signal=self._stop))
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Let `run` end: no new messages, what is being handled is finished."""
        if self._stop is not None:
            self._stop.set()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncGenerator[None]:
        """For FastAPI and Starlette: ``FastAPI(lifespan=queen.lifespan)``."""
        del app
        async with self:
            yield

    # For the other parts of the SDK.

    def producers(self) -> Producers:
        loop = asyncio.get_running_loop()
        found = self._producers.get(loop)
        if found is None:
            found = self._producers[loop] = Producers()
        return found

    def codec(self, type_: "type[T] | None") -> Codec[T]:
        found = self._codecs.get(type_)
        if found is None:
            found = self._codecs[type_] = Codec(type_)
        return found

    def began(self, consumption: Consumption) -> None:
        self._running.add(consumption)

    def ended(self, consumption: Consumption) -> None:
        self._running.discard(consumption)


def _key(message: Message[Any]) -> str:
    return f"{message.queue}:{message.partition}:{message.consumer_group or ''}"


def _chunks(items: Sequence[PushItem]) -> list[Sequence[PushItem]]:
    """Requests that a server takes whole: bounded in items and bytes."""
    size = sum(len(item.payload) for item in items)
    if len(items) <= _CHUNK_ITEMS and size <= _CHUNK_BYTES:
        return [items]
    chunks: list[Sequence[PushItem]] = []
    first = size = 0
    for at, item in enumerate(items):
        if at > first and (at - first >= _CHUNK_ITEMS or size + len(item.payload) > _CHUNK_BYTES):
            chunks.append(items[first:at])
            first, size = at, 0
        size += len(item.payload)
    return [*chunks, items[first:]]


def _log_to_stderr() -> None:
    if not _LOG.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(
            logging.Formatter("[%(asctime)s] [%(levelname)s] [%(name)s] %(message)s")
        )
        _LOG.addHandler(handler)
        _LOG.setLevel(logging.DEBUG)
