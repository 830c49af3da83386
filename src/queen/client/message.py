"""A delivered message: attributes for Python, and the mapping that older code knows."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec

from queen import errors
from queen.client.payloads import Codec
from queen.wire.messages import Acknowledgment, Wire

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # That of `typing` has defaults from Python 3.13 on.

    from queen.client.client import Queen

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")
V = TypeVar("V")


_INSTANT: Final = msgspec.json.Decoder(datetime).decode
_LEASE_END: Final = msgspec.json.Decoder(datetime | None).decode
_HEADERS: Final = msgspec.json.Decoder(dict[str, str]).decode


class _Options(Wire, frozen=True, kw_only=True):
    """Of its queue, what a consumer goes by."""

    lease_time: float = 300.0


_OPTIONS: Final = msgspec.json.Decoder(_Options).decode


class Delivered(Wire, frozen=True, kw_only=True):
    """A message as it comes: what few look at is not read before somebody does."""

    id: str
    transaction_id: str
    queue: str
    partition: str
    data: msgspec.Raw
    attempt: int
    priority: int
    created_at: msgspec.Raw
    partition_id: str
    lease_id: str | None
    lease_expires_at: msgspec.Raw
    consumer_group: str | None
    offset: int
    headers: msgspec.Raw
    trace_id: str | None
    options: msgspec.Raw = msgspec.Raw(b"{}")


class Popped(Wire, frozen=True, kw_only=True):
    """What a pop answers."""

    messages: list[Delivered]


class Message(Mapping[str, Any], Generic[T]):
    """
    One message under its lease.

    Usage::

        message.data, message.partition, message.attempt
        message["data"], message["transactionId"]
        await message.ack()
    """

    __slots__ = (
        "_codec",
        "_data",
        "_headers",
        "_queen",
        "_wire",
        "is_delivery_over",
        "is_lost",
        "is_settled",
    )

    def __init__(self, wire: Delivered, codec: Codec[T], queen: "Queen") -> None:
        self._wire = wire
        self._codec = codec
        self._queen = queen
        self._data: T | msgspec.UnsetType = msgspec.UNSET
        self._headers: dict[str, str] | None = None
        self.is_lost = False
        """The lease is gone: another consumer has the message, or will."""
        self.is_settled = False
        """This process has said what became of it."""
        self.is_delivery_over = False
        """Nothing more is held under its lease."""

    @property
    def data(self) -> T:
        """The payload, decoded when it is first looked at; raises UndecodablePayload."""
        data = self._data
        if data is msgspec.UNSET:
            data = self._data = self._codec.decode(self._wire.data)
        return data

    @property
    def raw(self) -> bytes:
        """The payload, byte for byte as it was pushed."""
        return bytes(self._wire.data)

    @property
    def id(self) -> str:
        return self._wire.id

    @property
    def transaction_id(self) -> str:
        return self._wire.transaction_id

    @property
    def queue(self) -> str:
        return self._wire.queue

    @property
    def partition(self) -> str:
        return self._wire.partition

    @property
    def partition_id(self) -> str:
        return self._wire.partition_id

    @property
    def offset(self) -> int:
        return self._wire.offset

    @property
    def attempt(self) -> int:
        """1 for the first delivery; counts failures and expired leases."""
        return self._wire.attempt

    @property
    def retry_count(self) -> int:
        return self._wire.attempt - 1

    @property
    def priority(self) -> int:
        return self._wire.priority

    @property
    def headers(self) -> dict[str, str]:
        if self._headers is None:
            self._headers = _read(self._wire.headers, _HEADERS)
        return self._headers

    @property
    def trace_id(self) -> str | None:
        return self._wire.trace_id

    @property
    def created_at(self) -> datetime:
        return _read(self._wire.created_at, _INSTANT)

    @property
    def lease_id(self) -> str | None:
        """None for a message that was settled when it was popped."""
        return self._wire.lease_id

    @property
    def lease_expires_at(self) -> datetime | None:
        return _read(self._wire.lease_expires_at, _LEASE_END)

    @property
    def lease_seconds(self) -> float:
        """The queue's lease time."""
        return _read(self._wire.options, _OPTIONS).lease_time

    @property
    def consumer_group(self) -> str | None:
        return self._wire.consumer_group

    def done(self) -> Acknowledgment:
        """What says that it is done; always with its lease."""
        wire = self._wire
        return Acknowledgment(
            id=wire.id,
            lease_id=wire.lease_id,
            partition_id=wire.partition_id,
            consumer_group=wire.consumer_group,
        )

    async def ack(self) -> None:
        """Settle: this message is done."""
        await self._queen.ack(self)

    async def nack(self, error: str | None = None, *, delay: float | str | None = None) -> None:
        """Give it back: it comes again after its backoff, or after ``delay``."""
        await self._queen.ack(self, False, {"error": error, "delay": delay})

    async def extend(self, seconds: float | None = None) -> datetime:
        """Keep it longer; until when. Raises AlreadySettled if its pop has settled it."""
        (until,) = await self._queen.renew(self, seconds=seconds)
        return until

    async def trace(self, event: Mapping[str, Any]) -> None:
        """Record an event of this message: ``traceName``, ``eventType``, ``data``."""
        await self._queen.record_trace(self, event)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - of many types
        return _FIELDS[name](self)

    def __iter__(self) -> Iterator[str]:
        return iter(_FIELDS)

    def __len__(self) -> int:
        return len(_FIELDS)

    def __hash__(self) -> int:
        return hash(self._wire.id)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"Message({self.queue}/{self.partition}#{self.offset}, attempt {self.attempt})"


def _read(raw: msgspec.Raw, decode: Callable[[msgspec.Raw], V]) -> V:
    try:
        return decode(raw)
    except msgspec.DecodeError as error:
        raise errors.OutcomeUnknown(f"a message is not one of a Queen server: {error}") from error


def wire_of(message: Message[Any]) -> Delivered:
    """What came over the wire, for those who send it on."""
    return message._wire  # pyright: ignore[reportPrivateUsage] - of this file


_FIELDS: Final[dict[str, Callable[[Message[Any]], Any]]] = {
    "id": lambda m: m.id,
    "transactionId": lambda m: m.transaction_id,
    "queue": lambda m: m.queue,
    "partition": lambda m: m.partition,
    "partitionId": lambda m: m.partition_id,
    "data": lambda m: m.data,
    "payload": lambda m: m.data,
    "offset": lambda m: m.offset,
    "attempt": lambda m: m.attempt,
    "retryCount": lambda m: m.retry_count,
    "priority": lambda m: m.priority,
    "headers": lambda m: m.headers,
    "traceId": lambda m: m.trace_id,
    "createdAt": lambda m: m.created_at,
    "leaseId": lambda m: m.lease_id,
    "leaseExpiresAt": lambda m: m.lease_expires_at,
    "consumerGroup": lambda m: m.consumer_group,
    "trace": lambda m: m.trace,
}
"""Under the names of the wire."""
