"""Bodies of transactions: acks, pushes and workflow steps, applied together or not at all."""

from typing import Literal

import msgspec

from queen.wire.messages import Acknowledgment, Pushed, PushItem, Request, Wire


class AckOperation(Acknowledgment, frozen=True, kw_only=True, tag_field="type", tag="ack"):
    """An acknowledgment inside a transaction."""


class PushOperation(Request, frozen=True, kw_only=True, tag_field="type", tag="push"):
    """A push inside a transaction."""

    items: list[PushItem]
    """Messages to store."""


class AdvanceOperation(
    Request, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="advance"
):
    """
    Complete a workflow step in the transaction that acks its message.

    Copy `workflow`, `step`, `token` and `part` from the field `workflow` of the message's payload.
    """

    workflow: str
    """Id of the run: `workflow.id` of the message's payload."""
    step: str
    """Name of the step: `workflow.step` of the message's payload."""
    token: str
    """Token of the step: `workflow.token` of the message's payload. Only its consumer receives
    it."""
    part: int | None = None
    """Index of the part that the message runs, for a map step: `workflow.part` of the payload.
    Otherwise null."""
    outcome: Literal["success", "failure"]
    """Outcome of the step, which decides whether the steps on success or on failure follow."""
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Result of a successful step: any JSON value, passed to the next steps. Default: null."""
    error: str | None = None
    """Reason of a failure."""
    attempt: int | None = None
    """Number of the message's delivery attempt, shown as `attempts` of the step."""


class TransactionRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Acks, pushes and workflow steps, applied together or not at all."""

    operations: list[AckOperation | PushOperation | AdvanceOperation]
    """Operations in order, 1 to 10,000 by default."""
    required_leases: list[str] = []  # noqa: RUF012 - msgspec copies it
    """Ids of leases that must still be current, otherwise the transaction is rejected as
    `lease_lost`."""
    consumer_group: str | None = None
    """Group of acks that name neither a group nor a lease. Default: queue mode."""
    on_duplicate: Literal["accept", "rollback"] = "accept"
    """Effect of a pushed `transactionId` that is already stored: `accept` the transaction
    (default), or `rollback` all of it."""
    across_shards: Literal["reject", "outbox"] = "reject"
    """Effect of pushes to other databases than that of the acks: `reject` the transaction
    (default), or send them through the `outbox`: they are stored with the transaction, and arrive
    later, once and in order."""
    producer_id: str | None = None
    """Name of the producer, 1 to 255 bytes, which makes repeated requests safe. Requires
    `sequence`."""
    sequence: int | None = None
    """Number of the request, which must rise with each request of the producer."""


class OperationResult(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one operation of a transaction."""

    index: int
    """Index of the operation in the request, starting at 0."""
    type: Literal["ack", "push", "advance"]
    """Kind of the operation."""
    transaction_id: str | None = None
    """For an ack, the `transactionId` or `id` of its message; otherwise omitted."""
    messages: list[Pushed] | msgspec.UnsetType = msgspec.UNSET
    """For a push, the results of its items in request order; otherwise omitted."""
    advanced: bool | msgspec.UnsetType = msgspec.UNSET
    """For an advance, whether the step ended by it. False if the step had ended before or was
    started again; its message is acknowledged in both cases."""


class TransactionResponse(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """All operations were applied."""

    transaction_id: str
    """The `producerId` of the request, or else its request id."""
    success: bool
    """Always true: a rejected transaction returns a problem instead."""
    results: list[OperationResult]
    """Results of the operations, in request order."""
    replayed: bool = False
    """True if this request was applied before, so it changed nothing. Omitted if false."""
