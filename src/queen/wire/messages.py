"""Bodies of push, pop, ack and lease."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

if TYPE_CHECKING:
    Payload = bytes | msgspec.Raw
else:
    Payload = msgspec.Raw  # As decoded. Code that creates an item may pass bytes.

Manager = Annotated[
    str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$(?!\n)")
]
"""The configuration that owns an object: the `manager` of a manifest for `queen apply`."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """
    The base of all structs: snake_case here, camelCase on the wire.

    JSON has no cycles, so the garbage collector can skip thousands of messages.
    """


class Request(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request. Unknown fields are rejected, but responses stay open for older clients."""


class PushItem(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A message to push."""

    # Only its shape is checked here. The engine checks limits.

    queue: str
    """Name of the queue, 1 to 255 bytes. By default, the first push creates the queue."""
    payload: Payload
    """Any JSON value, by default at most 1 MiB. It is stored and delivered byte for byte."""
    partition: str = "Default"
    """Name of the partition, 1 to 512 bytes; `Default` if omitted."""
    transaction_id: str | None = None
    """Id that is stored only once per partition within the queue's `dedupWindowSeconds`, 1 to 255
    bytes. Default: the message's id."""
    trace_id: str | None = None
    """Id of the trace that the message belongs to. Default: the trace of the header
    `traceparent`."""
    headers: dict[str, str] | None = None
    """Headers of the message by name: at most 64, and 8 KiB in total."""
    delay_seconds: float | None = None
    """Seconds until the message is available, at most 31,536,000. Excludes `availableAt`."""
    available_at: datetime | None = None
    """Time when the message becomes available, with a time zone. Excludes `delaySeconds`."""
    ttl_seconds: float | None = None
    """Seconds until an undelivered message expires, counted from when it is available. Default: the
    queue's `ttl`."""
    priority: int | None = None
    """Priority from 0 to 9, higher first; only for unordered queues. Default: 0."""


class Pushed(Wire, frozen=True, kw_only=True):
    """The result of one item of a push."""

    status: Literal["queued", "duplicate", "buffered", "failed"]
    """`queued`: stored. Without `partitionId`, in the outbox of another database. `duplicate`: its
    `transactionId` was stored before. `buffered`: on disk until the database is available.
    `failed`: rejected."""
    id: str | None = None
    """Id of the message; null if it is scheduled, buffered, failed or in the outbox of another
    database. For a duplicate, the id of the first message."""
    transaction_id: str | None = None
    """Its `transactionId`: as sent, or else the id of the message, or a UUID if it is scheduled.
    Null for a message in the outbox of another database that was sent without one."""
    partition_id: str | None = None
    """Id of the partition; null if the message is buffered, failed or in the outbox of another
    database."""
    offset: int | None = None
    """Position in the partition, starting at 0; null if the message is scheduled, buffered, failed
    or in the outbox of another database."""
    code: str | None = None
    """Error code of a failed item, for example `payload_too_large`; null if it was stored."""
    error: str | None = None
    """Explanation of `code`; null if the item was stored."""


class PushRequest(Request, frozen=True, kw_only=True):
    """Messages to push. With `producerId` and `sequence`, they are stored together, only once."""

    items: list[PushItem]
    """Messages to store, 1 to 10,000 by default."""
    producer_id: str | None = None
    """Name of the producer, 1 to 255 bytes, which makes repeated requests safe. Requires
    `sequence`."""
    sequence: int | None = None
    """Number of the request, which must rise with each request of the producer. Repeat a request
    under its own number."""


class PushResponse(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The results of a push, one per item."""

    messages: list[Pushed]
    """Results of the items, in request order."""
    replayed: bool = False
    """True if this request was stored before, so its messages were not stored again. Omitted if
    false."""


class PopRequest(Request, frozen=True, kw_only=True):
    """The queue, or a namespace and/or task, the group, and the limits of a pop."""

    queue: str | None = None
    """Name of the queue to pop from. Excludes `namespace` and `task`."""
    partition: str | None = None
    """Name of the partition to pop from. Default: any partition of the queue."""
    namespace: str | None = None
    """Namespace of the queues to pop from."""
    task: str | None = None
    """Task of the queues to pop from."""
    consumer_group: str | None = None
    """Name of the consumer group. Default: queue mode, in which all consumers share the
    messages."""
    batch: int = 1
    """Largest number of messages. Default: 1."""
    partitions: int = 1
    """Largest number of partitions to take messages from. Default: 1."""
    wait: bool = False
    """Whether to wait for messages if there are none. Default: false."""
    timeout_seconds: float = 30.0
    """Longest wait in seconds. Default: 30."""
    auto_ack: bool = False
    """Whether the pop also acknowledges the messages, so that each is delivered at most once.
    Default: false."""
    subscription_mode: Literal["all", "new"] | None = None
    """Start of a new group: `all` stored messages, or only `new` ones. Default: `all`."""
    subscription_from: datetime | None = None
    """Time from which a new group receives messages."""
    lease_seconds: float | None = None
    """Lease time of this delivery in seconds. Default: the queue's `leaseTime`."""


class Message(Wire, frozen=True, kw_only=True):
    """One delivered message."""

    id: str
    """Id of the message."""
    transaction_id: str
    """The `transactionId` of the push; without one, the same as `id`."""
    queue: str
    """Name of the queue."""
    partition: str
    """Name of the partition."""
    data: msgspec.Raw
    """Payload, byte for byte as it was pushed."""
    attempt: int
    """Number of this delivery attempt, starting at 1."""
    priority: int
    """Priority of the message in an unordered queue, otherwise of its partition."""
    created_at: datetime
    """Time when the message was stored."""
    partition_id: str
    """Id of the partition, for acknowledgments and traces."""
    lease_id: str | None
    """Id of the lease, shared by all messages of the delivery; null with `autoAck`."""
    lease_expires_at: datetime | None
    """End of the lease; null with `autoAck`."""
    consumer_group: str | None
    """Group that received the message; null in queue mode."""
    offset: int
    """Position in the partition, starting at 0."""
    headers: dict[str, str]
    """Headers of the push by name; empty if it had none."""
    trace_id: str | None
    """Id of the trace that the message belongs to; null if it has none."""
    retry_count: int = 0
    """Number of earlier delivery attempts: `attempt` minus 1."""
    options: dict[str, float] = {}
    """Options of the queue: `leaseTime` in seconds, and `retryLimit`."""


class RunExtra(Wire, frozen=True, kw_only=True):
    """The fields of a message that differ from the rest of its run."""

    transaction_id: str | None = None
    """The `transactionId` of the push; null if it is the same as the message's id."""
    trace_id: str | None = None
    """Id of the trace that the message belongs to; null if it has none."""
    headers: dict[str, str] | None = None
    """Headers of the push by name; null if it had none."""


class RunOptions(Wire, frozen=True, kw_only=True):
    """The queue options that consumers use."""

    lease_time: float = 300.0
    """Lease time of the queue in seconds. Default: 300."""
    retry_limit: int = 3
    """Retries of the queue after the first attempt. Default: 3."""


class MessageRun(Wire, frozen=True, kw_only=True):
    """Consecutive messages of a partition: their common fields, and each payload."""

    id: str
    """Id of the first message. Its last twelve hexadecimal digits rise by one per message."""
    offset: int
    """Position of the first message in the partition. It rises by one per message."""
    queue: str
    """Name of the queue."""
    partition: str
    """Name of the partition."""
    attempt: int
    """Number of this delivery attempt, starting at 1."""
    priority: int
    """Priority of the messages in an unordered queue, otherwise of their partition."""
    created_at: datetime
    """Time when the messages were stored."""
    partition_id: str
    """Id of the partition, for acknowledgments and traces."""
    lease_id: str | None
    """Id of the lease, which other runs of the delivery share; null with `autoAck`."""
    lease_expires_at: datetime | None
    """End of the lease; null with `autoAck`."""
    consumer_group: str | None
    """Group that received the messages; null in queue mode."""
    data: list[msgspec.Raw]
    """Payloads in order, byte for byte as they were pushed."""
    extras: list[RunExtra | None] = []
    """One entry per payload, null for a message without extras. Omitted if no message has any."""
    retry_count: int = 0
    """Number of earlier delivery attempts: `attempt` minus 1."""
    options: RunOptions = RunOptions()
    """Options of the queue that consumers use."""


class Acknowledgment(Request, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one message, named by its id or its transactionId."""

    transaction_id: str | None = None
    """The `transactionId` of the message. Use it instead of `id`, or with `id` to store a
    result."""
    id: str | None = None
    """Id of the message."""
    status: str = "completed"
    """`completed` (default; also `success`, `acked`, `ok`), `failed` to retry after the backoff,
    `retry` to redeliver immediately without counting an attempt, or `dlq` to dead-letter."""
    error: str | None = None
    """Reason of a failure, stored with the message; cut to 16 KiB by default."""
    partition_id: str | None = None
    """Id of the message's partition, which makes a `transactionId` unambiguous."""
    lease_id: str | None = None
    """Id of the lease. If the lease is no longer current, the acknowledgment is rejected as
    `lease_lost`."""
    consumer_group: str | None = None
    """Group that received the message, if there is no `leaseId`. Default: queue mode."""
    delay_seconds: float | None = None
    """Seconds until a failed message is redelivered. Default: the backoff of the queue."""
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Result of a completed message: any JSON value except null. Requires `transactionId`."""
    result_seconds: float | None = None
    """Seconds for which the result is stored, at most 31,536,000. Default: 86,400."""


class AckRequest(Request, frozen=True, kw_only=True):
    """Several acknowledgments; the accepted ones commit together."""

    acknowledgments: list[Acknowledgment]
    """Acknowledgments, 1 to 10,000 by default."""
    consumer_group: str | None = None
    """Group of acknowledgments that name neither a group nor a lease. Default: queue mode."""


class Acknowledged(Wire, frozen=True, kw_only=True):
    """The result of one acknowledgment."""

    transaction_id: str | None
    """The `transactionId` of the request; null if it only had an `id`."""
    success: bool
    """Whether the acknowledgment was applied, now or by an earlier call."""
    noop: bool = False
    """True if the group had already acknowledged the message, so this call changed nothing."""
    dlq: bool = False
    """True if the message was dead-lettered, by its status or because its retries are exhausted."""
    lease_released: bool = False
    """True if the lease has ended: it has no open messages left, or a message of an ordered queue
    failed."""
    retry_at: datetime | None = None
    """Time of the next delivery attempt; null if there is none."""
    code: str | None = None
    """Error code if the acknowledgment was rejected, for example `lease_lost`; otherwise null."""
    error: str | None = None
    """Explanation of `code`; otherwise null."""
    settled: bool | msgspec.UnsetType = msgspec.UNSET
    """True with `lease_lost` if the group has already acknowledged the message; otherwise
    omitted."""


class AckResult(Acknowledged, frozen=True, kw_only=True):
    """The result of one of several acknowledgments."""

    index: int
    """Index of the acknowledgment in the request, starting at 0."""


class AckResponse(Wire, frozen=True, kw_only=True):
    """The results of several acknowledgments."""

    success: bool
    """True if all acknowledgments were applied."""
    results: list[AckResult]
    """Results of the acknowledgments, in request order."""


class PopAnswer(Wire, frozen=True, kw_only=True):
    """Delivered messages. Those of a partition are adjacent, in order, and share a `leaseId`."""

    messages: list[Message] | msgspec.UnsetType = msgspec.UNSET
    """Delivered messages; omitted with `layout=runs`."""
    runs: list[MessageRun] | msgspec.UnsetType = msgspec.UNSET
    """Delivered messages, with common fields listed once per run; only with `layout=runs`."""
    acknowledged: AckResponse | msgspec.UnsetType = msgspec.UNSET
    """Results of the `acknowledgments` of the request; omitted without them."""


class ExtendRequest(Request, frozen=True, kw_only=True):
    """The duration of the lease from now on; by default the queue's leaseTime."""

    seconds: float | None = None
    """Duration of the lease from now, in seconds, at most 43,200 by default. Default: the queue's
    `leaseTime`."""


class ExtendManyRequest(Request, frozen=True, kw_only=True):
    """Several leases to extend."""

    lease_ids: list[str]
    """Ids of the leases, 1 to 10,000 by default."""
    seconds: float | None = None
    """Duration of the leases from now, in seconds. Default: each queue's `leaseTime`."""


class Extended(Wire, frozen=True, kw_only=True):
    """The result of extending a lease."""

    lease_id: str
    """Id of the lease."""
    success: bool
    """Whether the lease was extended."""
    expires_at: datetime | None = None
    """End of the lease; null if it was lost."""
    code: str | None = None
    """`lease_lost` if the lease is no longer current; otherwise null."""
    error: str | None = None
    """Explanation of `code`; otherwise null."""


class ExtendManyResponse(Wire, frozen=True, kw_only=True):
    """The results of extending several leases."""

    results: list[Extended]
    """Results of the leases, in request order."""


class Completed(Wire, frozen=True, kw_only=True):
    """The delivery has ended, and its remaining messages are acknowledged."""

    lease_id: str
    """Id of the ended lease."""
    settled: int
    """Number of messages that this call acknowledged."""
    success: bool = True
    """Always true: a lost lease returns a problem instead."""


class Released(Wire, frozen=True, kw_only=True):
    """The delivery has ended, and its remaining messages are available again."""

    lease_id: str
    """Id of the ended lease."""
    success: bool = True
    """Always true: a lost lease returns a problem instead."""
