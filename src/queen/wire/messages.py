"""Bodies of push, pop, ack, transaction, lease and configure."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    Payload = bytes | msgspec.Raw
else:
    Payload = msgspec.Raw  # As decoded. Code that creates an item may pass bytes.


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """
    The base of all structs: snake_case here, camelCase on the wire.

    JSON has no cycles, so the garbage collector can skip thousands of messages.
    """


class Request(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request. Unknown fields are rejected, but responses stay open for older clients."""


class PushItem(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A message to push. Only its shape is checked here; the engine checks limits."""

    queue: str
    payload: Payload
    """JSON as it was sent: validated, but never re-encoded."""
    partition: str = "Default"
    transaction_id: str | None = None
    trace_id: str | None = None
    headers: dict[str, str] | None = None
    delay_seconds: float | None = None
    available_at: datetime | None = None
    ttl_seconds: float | None = None
    priority: int | None = None


class Pushed(Wire, frozen=True, kw_only=True):
    """The result of one item. id and offset are None while it has no offset."""

    status: Literal["queued", "duplicate", "buffered", "failed"]
    id: str | None = None
    transaction_id: str | None = None
    partition_id: str | None = None
    offset: int | None = None
    code: str | None = None
    error: str | None = None


class PushRequest(Request, frozen=True, kw_only=True):
    """With producerId and sequence, all items are stored together, and only once."""

    items: list[PushItem]
    producer_id: str | None = None
    sequence: int | None = None


class PushResponse(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One result per item, in request order."""

    messages: list[Pushed]
    replayed: bool = False


class PopRequest(Request, frozen=True, kw_only=True):
    """The queue, or a namespace and/or task, the group, and the limits of a pop."""

    queue: str | None = None
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    consumer_group: str | None = None
    batch: int = 1
    partitions: int = 1
    wait: bool = False
    timeout_seconds: float = 30.0
    auto_ack: bool = False
    subscription_mode: Literal["all", "new"] | None = None
    subscription_from: datetime | None = None
    lease_seconds: float | None = None


class Message(Wire, frozen=True, kw_only=True):
    """One delivered message."""

    id: str
    transaction_id: str
    queue: str
    partition: str
    data: msgspec.Raw
    attempt: int
    priority: int
    created_at: datetime
    partition_id: str
    lease_id: str | None
    lease_expires_at: datetime | None
    consumer_group: str | None
    offset: int
    headers: dict[str, str]
    trace_id: str | None
    retry_count: int = 0
    options: dict[str, float] = {}
    """The queue's leaseTime and retryLimit."""


class RunExtra(Wire, frozen=True, kw_only=True):
    """The fields of a message that differ from the rest of its run."""

    transaction_id: str | None = None
    """None: the same as its id."""
    trace_id: str | None = None
    headers: dict[str, str] | None = None


class RunOptions(Wire, frozen=True, kw_only=True):
    """The queue options that consumers use."""

    lease_time: float = 300.0
    retry_limit: int = 3


class MessageRun(Wire, frozen=True, kw_only=True):
    """Consecutive messages of a partition: their common fields, and each payload."""

    id: str
    """Id of the first message. The last twelve hexadecimal digits count up by one."""
    offset: int
    """Offset of the first message."""
    queue: str
    partition: str
    attempt: int
    priority: int
    created_at: datetime
    partition_id: str
    lease_id: str | None
    lease_expires_at: datetime | None
    consumer_group: str | None
    data: list[msgspec.Raw]
    extras: list[RunExtra | None] = []
    """One per payload; empty if no message has any."""
    retry_count: int = 0
    options: RunOptions = RunOptions()


class PopAnswer(Wire, frozen=True, kw_only=True):
    """Messages by partition, in order, under one leaseId each; the form depends on `layout`."""

    messages: list[Message] | msgspec.UnsetType = msgspec.UNSET
    runs: list[MessageRun] | msgspec.UnsetType = msgspec.UNSET


class Acknowledgment(Request, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one message, named by its id or its transactionId."""

    transaction_id: str | None = None
    id: str | None = None
    status: str = "completed"
    error: str | None = None
    partition_id: str | None = None
    lease_id: str | None = None
    consumer_group: str | None = None
    delay_seconds: float | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Result of a completed message, kept for ``resultSeconds`` under its transactionId."""
    result_seconds: float | None = None


class AckRequest(Request, frozen=True, kw_only=True):
    """Several acknowledgments; the accepted ones commit together."""

    acknowledgments: list[Acknowledgment]
    consumer_group: str | None = None


class Acknowledged(Wire, frozen=True, kw_only=True):
    """The result of one acknowledgment."""

    transaction_id: str | None
    success: bool
    noop: bool = False
    dlq: bool = False
    lease_released: bool = False
    retry_at: datetime | None = None
    code: str | None = None
    error: str | None = None
    settled: bool | msgspec.UnsetType = msgspec.UNSET
    """True with a lost lease: the group has already acknowledged the message."""


class AckResult(Acknowledged, frozen=True, kw_only=True):
    """The result of one of several acknowledgments."""

    index: int


class AckResponse(Wire, frozen=True, kw_only=True):
    """``success`` is false if any acknowledgment was rejected."""

    success: bool
    results: list[AckResult]


class AckOperation(Acknowledgment, frozen=True, kw_only=True, tag_field="type", tag="ack"):
    """An acknowledgment inside a transaction."""


class PushOperation(Request, frozen=True, kw_only=True, tag_field="type", tag="push"):
    """A push inside a transaction."""

    items: list[PushItem]


class AdvanceOperation(
    Request, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="advance"
):
    """
    Complete a workflow step in the transaction that acks its message.

    All but the last four fields come from the message's ``workflow``.
    """

    workflow: str
    step: str
    token: str
    part: int | None = None
    outcome: Literal["success", "failure"]
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: str | None = None
    attempt: int | None = None


class TransactionRequest(Request, frozen=True, kw_only=True):
    """Acks, pushes and workflow steps, applied together or not at all."""

    operations: list[AckOperation | PushOperation | AdvanceOperation]
    required_leases: list[str] = []
    consumer_group: str | None = None
    on_duplicate: Literal["accept", "rollback"] = "accept"
    producer_id: str | None = None
    sequence: int | None = None


class OperationResult(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one operation of a transaction."""

    index: int
    type: Literal["ack", "push", "advance"]
    transaction_id: str | None = None
    messages: list[Pushed] | msgspec.UnsetType = msgspec.UNSET
    advanced: bool | msgspec.UnsetType = msgspec.UNSET
    """False: the step had already ended, or was started again. Its message is acknowledged
    anyway."""


class TransactionResponse(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """All operations were applied."""

    transaction_id: str
    success: bool
    results: list[OperationResult]
    replayed: bool = False


class ExtendRequest(Request, frozen=True, kw_only=True):
    """The duration of the lease from now on; by default the queue's leaseTime."""

    seconds: float | None = None


class ExtendManyRequest(Request, frozen=True, kw_only=True):
    """Several leases to extend."""

    lease_ids: list[str]
    seconds: float | None = None


class Extended(Wire, frozen=True, kw_only=True):
    """A lease and its new end."""

    lease_id: str
    success: bool
    expires_at: datetime | None = None
    code: str | None = None
    error: str | None = None


class ExtendManyResponse(Wire, frozen=True, kw_only=True):
    """One result per lease, in request order."""

    results: list[Extended]


class Completed(Wire, frozen=True, kw_only=True):
    """The delivery has ended; ``settled``: the number of its remaining messages."""

    lease_id: str
    settled: int
    success: bool = True


class Released(Wire, frozen=True, kw_only=True):
    """The delivery has ended, and its remaining messages are available again."""

    lease_id: str
    success: bool = True
