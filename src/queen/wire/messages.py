"""Push, pop, ack, transaction, lease, configure: what their bodies hold."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    Payload = bytes | msgspec.Raw
else:
    Payload = msgspec.Raw  # What is decoded; whoever makes an item may give bytes.


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """
    Fields are snake_case here and camelCase on the wire.

    What JSON holds has no cycles, so nobody needs to look for them in thousands of messages.
    """


class Request(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Closed: a misspelt option is refused, not ignored. Answers stay open for older clients."""


class PushItem(Request, frozen=True, kw_only=True, omit_defaults=True):
    """The shape alone; limits that an operator sets are the engine's to check."""

    queue: str
    payload: Payload
    """JSON as it was sent: checked and carried, never rebuilt."""
    partition: str = "Default"
    transaction_id: str | None = None
    trace_id: str | None = None
    headers: dict[str, str] | None = None
    delay_seconds: float | None = None
    available_at: datetime | None = None
    ttl_seconds: float | None = None
    priority: int | None = None


class Pushed(Wire, frozen=True, kw_only=True):
    """What became of one item of a push. id and offset are None while it has no place yet."""

    status: Literal["queued", "duplicate", "buffered", "failed"]
    id: str | None = None
    transaction_id: str | None = None
    partition_id: str | None = None
    offset: int | None = None
    code: str | None = None
    error: str | None = None


class PushRequest(Request, frozen=True, kw_only=True):
    """With producerId and sequence: all or nothing, and stored once however often it is sent."""

    items: list[PushItem]
    producer_id: str | None = None
    sequence: int | None = None


class PushResponse(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One answer an item, in the order of the items."""

    messages: list[Pushed]
    replayed: bool = False


class PopRequest(Request, frozen=True, kw_only=True):
    """Where to look (a queue, or a namespace and/or task), for whom, how much, how long."""

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
    """What one message of a run has and others have not."""

    transaction_id: str | None = None
    """None: its id."""
    trace_id: str | None = None
    headers: dict[str, str] | None = None


class RunOptions(Wire, frozen=True, kw_only=True):
    """Of the queue, what consumers go by."""

    lease_time: float = 300.0
    retry_limit: int = 3


class MessageRun(Wire, frozen=True, kw_only=True):
    """Messages of a partition that follow each other: what they share, and each one's payload."""

    id: str
    """Of the first; the last twelve digits of each next one, hexadecimal, are one more."""
    offset: int
    """Of the first."""
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
    """One for each payload; none where no message has any."""
    retry_count: int = 0
    options: RunOptions = RunOptions()


class PopAnswer(Wire, frozen=True, kw_only=True):
    """Messages of a partition stand together, in order, under one leaseId; as `layout` says."""

    messages: list[Message] | msgspec.UnsetType = msgspec.UNSET
    runs: list[MessageRun] | msgspec.UnsetType = msgspec.UNSET


class Acknowledgment(Request, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one message: named by its id, or by the transactionId that it has."""

    transaction_id: str | None = None
    id: str | None = None
    status: str = "completed"
    error: str | None = None
    partition_id: str | None = None
    lease_id: str | None = None
    consumer_group: str | None = None
    delay_seconds: float | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """What a completed message came to, kept for ``resultSeconds`` under its transactionId."""
    result_seconds: float | None = None


class AckRequest(Request, frozen=True, kw_only=True):
    """Several acknowledgments; the accepted ones commit together."""

    acknowledgments: list[Acknowledgment]
    consumer_group: str | None = None


class Acknowledged(Wire, frozen=True, kw_only=True):
    """The answer to one acknowledgment."""

    transaction_id: str | None
    success: bool
    noop: bool = False
    dlq: bool = False
    lease_released: bool = False
    retry_at: datetime | None = None
    code: str | None = None
    error: str | None = None
    settled: bool | msgspec.UnsetType = msgspec.UNSET
    """True beside a lost lease: the group is done with the message all the same."""


class AckResult(Acknowledged, frozen=True, kw_only=True):
    """The answer to one of several acknowledgments."""

    index: int


class AckResponse(Wire, frozen=True, kw_only=True):
    """``success`` is false if any was refused."""

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
    A step of a workflow is settled, with the ack of its message in the same transaction.

    All but the last four are what the message's ``workflow`` says.
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
    """Acks, pushes and steps of workflows, all applied or none."""

    operations: list[AckOperation | PushOperation | AdvanceOperation]
    required_leases: list[str] = []
    consumer_group: str | None = None
    on_duplicate: Literal["accept", "rollback"] = "accept"
    producer_id: str | None = None
    sequence: int | None = None


class OperationResult(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one operation of a transaction."""

    index: int
    type: Literal["ack", "push", "advance"]
    transaction_id: str | None = None
    messages: list[Pushed] | msgspec.UnsetType = msgspec.UNSET
    advanced: bool | msgspec.UnsetType = msgspec.UNSET
    """False: the step was settled before, or begun anew since; its message is settled all the
    same."""


class TransactionResponse(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """All was applied."""

    transaction_id: str
    success: bool
    results: list[OperationResult]
    replayed: bool = False


class ExtendRequest(Request, frozen=True, kw_only=True):
    """How long the lease shall last from now; the queue's leaseTime if not said."""

    seconds: float | None = None


class ExtendManyRequest(Request, frozen=True, kw_only=True):
    """Several leases at once."""

    lease_ids: list[str]
    seconds: float | None = None


class Extended(Wire, frozen=True, kw_only=True):
    """A lease and its end."""

    lease_id: str
    success: bool
    expires_at: datetime | None = None
    code: str | None = None
    error: str | None = None


class ExtendManyResponse(Wire, frozen=True, kw_only=True):
    """One result a lease, in the order asked."""

    results: list[Extended]


class Completed(Wire, frozen=True, kw_only=True):
    """The delivery is over; ``settled``: how many messages were left of it."""

    lease_id: str
    settled: int
    success: bool = True


class Released(Wire, frozen=True, kw_only=True):
    """The delivery is over, and what was left of it may be popped at once."""

    lease_id: str
    success: bool = True
