"""A delivered message: attributes for Python, and a mapping under the names of the wire."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol

import msgspec

from queen.client.durations import Duration
from queen.client.payloads import Codec
from queen.wire.messages import Acknowledgment, MessageRun, RunExtra

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # `typing` has defaults only since Python 3.13.

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


_TAIL: Final = -12
"""Digits of an id that count the messages of a run."""
_PLAIN: Final = RunExtra()


class MessageClient(Protocol):
    """The calls that a message makes on its client."""

    async def ack(
        self,
        messages: "Message[Any]",
        status: "bool | str" = True,
        context: Mapping[str, Any] | None = None,
    ) -> object: ...

    async def renew(
        self, messages: "Message[Any]", *, seconds: Duration | None = None
    ) -> list[datetime]: ...

    async def record_trace(self, message: "Message[Any]", event: Mapping[str, Any]) -> None: ...


class Message(Mapping[str, Any], Generic[T]):
    """
    One message under its lease.

    Usage::

        message.data, message.partition, message.attempt
        message["data"], message["transactionId"]
        await message.ack()
    """

    __slots__ = (
        "_at",
        "_client",
        "_codec",
        "_data",
        "_headers",
        "_run",
        "is_delivery_over",
        "is_lost",
        "is_settled",
    )

    def __init__(self, run: MessageRun, at: int, codec: Codec[T], client: MessageClient) -> None:
        """The message at an index of a run."""
        self._run = run
        self._at = at
        self._codec = codec
        self._client = client
        self._data: T | msgspec.UnsetType = msgspec.UNSET
        self._headers: dict[str, str] | None = None
        self.is_lost = False
        """The lease expired: another consumer has the message, or will get it."""
        self.is_settled = False
        """This process has acknowledged or nacked it."""
        self.is_delivery_over = False
        """Its lease holds no other message."""

    @property
    def data(self) -> T:
        """The payload, decoded on first access; raises UndecodablePayload."""
        data = self._data
        if data is msgspec.UNSET:
            data = self._data = self._codec.decode(self._run.data[self._at])
        return data

    @property
    def raw(self) -> bytes:
        """The payload, byte for byte as it was pushed."""
        return bytes(self._run.data[self._at])

    @property
    def id(self) -> str:
        """The id of the message, unique in all queues."""
        return _id_of(self._run, self._at)

    @property
    def _extra(self) -> RunExtra:
        extras = self._run.extras
        return extras[self._at] or _PLAIN if extras else _PLAIN

    @property
    def transaction_id(self) -> str:
        """The id that the producer set, or the message's own id."""
        return self._extra.transaction_id or self.id

    @property
    def queue(self) -> str:
        """The name of the queue."""
        return self._run.queue

    @property
    def partition(self) -> str:
        """The name of the partition."""
        return self._run.partition

    @property
    def partition_id(self) -> str:
        """The id of the partition."""
        return self._run.partition_id

    @property
    def offset(self) -> int:
        """The position in the partition. The first message has offset 0."""
        return self._run.offset + self._at

    @property
    def attempt(self) -> int:
        """1 for the first delivery; counts failures and expired leases."""
        return self._run.attempt

    @property
    def retry_count(self) -> int:
        """The number of earlier deliveries that failed or expired."""
        return self._run.attempt - 1

    @property
    def priority(self) -> int:
        """The priority of the message. Higher values are delivered first."""
        return self._run.priority

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the producer set."""
        if self._headers is None:
            self._headers = dict(self._extra.headers or {})
        return self._headers

    @property
    def trace_id(self) -> str | None:
        """The trace id that the producer set, or None."""
        return self._extra.trace_id

    @property
    def created_at(self) -> datetime:
        """The time when the server stored the message."""
        return self._run.created_at

    @property
    def lease_id(self) -> str | None:
        """None for a message that was acknowledged by its pop."""
        return self._run.lease_id

    @property
    def lease_expires_at(self) -> datetime | None:
        """The time when the lease expires, as of the pop. None without a lease."""
        return self._run.lease_expires_at

    @property
    def lease_seconds(self) -> float:
        """The queue's lease time."""
        return self._run.options.lease_time

    @property
    def consumer_group(self) -> str | None:
        """The group that received the message, or None for the default group."""
        return self._run.consumer_group

    def done(self) -> Acknowledgment:
        """The acknowledgment that it is completed; always with its lease."""
        run = self._run
        return Acknowledgment(
            id=self.id,
            lease_id=run.lease_id,
            partition_id=run.partition_id,
            consumer_group=run.consumer_group,
        )

    async def ack(self) -> None:
        """Acknowledge the message as completed."""
        await self._client.ack(self)

    async def nack(self, error: str | None = None, *, delay: Duration | None = None) -> None:
        """Reject the message: it is redelivered after its backoff, or after ``delay``."""
        await self._client.ack(self, False, {"error": error, "delay": delay})

    async def extend(self, seconds: Duration | None = None) -> datetime:
        """Extend the lease and return its new end. Raises AlreadySettled if the pop acked it."""
        (until,) = await self._client.renew(self, seconds=seconds)
        return until

    async def trace(self, event: Mapping[str, Any]) -> None:
        """Record an event of this message: ``traceName``, ``eventType``, ``data``."""
        await self._client.record_trace(self, event)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - of many types
        return (_FIELDS.get(name) or _OTHERS[name])(self)

    def __iter__(self) -> Iterator[str]:
        return iter(_FIELDS)

    def __len__(self) -> int:
        return len(_FIELDS)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"Message({self.queue}/{self.partition}#{self.offset}, attempt {self.attempt})"


def part(run: MessageRun, at: int) -> MessageRun:
    """Return one message of a run as a separate run, to be forwarded."""
    return msgspec.structs.replace(
        run,
        id=_id_of(run, at),
        offset=run.offset + at,
        data=run.data[at : at + 1],
        extras=run.extras[at : at + 1],
    )


def _id_of(run: MessageRun, at: int) -> str:
    return f"{run.id[:_TAIL]}{int(run.id[_TAIL:], 16) + at:012x}" if at else run.id


def _text(timestamp: datetime | None) -> str | None:
    return None if timestamp is None else msgspec.to_builtins(timestamp)


_FIELDS: Final[dict[str, Callable[[Message[Any]], Any]]] = {
    "id": lambda m: m.id,
    "transactionId": lambda m: m.transaction_id,
    "queue": lambda m: m.queue,
    "partition": lambda m: m.partition,
    "partitionId": lambda m: m.partition_id,
    "data": lambda m: m.data,
    "offset": lambda m: m.offset,
    "attempt": lambda m: m.attempt,
    "retryCount": lambda m: m.retry_count,
    "priority": lambda m: m.priority,
    "headers": lambda m: m.headers,
    "traceId": lambda m: m.trace_id,
    "createdAt": lambda m: _text(m.created_at),
    "leaseId": lambda m: m.lease_id,
    "leaseExpiresAt": lambda m: _text(m.lease_expires_at),
    "consumerGroup": lambda m: m.consumer_group,
}
"""Keyed by the names in JSON."""
_OTHERS: Final[dict[str, Callable[[Message[Any]], Any]]] = {
    "payload": lambda m: m.data,
    "trace": lambda m: m.trace,
}
"""Available by name, but not part of ``dict(message)``."""
