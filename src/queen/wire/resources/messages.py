"""Stored messages: list, show, retry, dead-letter, redact."""

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import field

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Instant, Name, PageQuery, Text
from queen.wire.resources.traces import TraceEvent


class MessagesQuery(PageQuery, frozen=True, kw_only=True):
    """A filter for the messages of a queue. The status is that of a group, or of all groups."""

    queue: Name
    """Name of the queue."""
    partition: Name | None = None
    """Only messages of this partition."""
    consumer_group: Name | None = None
    """Group whose status is shown. Default: the most active status of all groups."""
    status: (
        Literal["pending", "processing", "failed", "completed", "dead_letter", "scheduled"] | None
    ) = None
    """Only messages with this status. Scheduled messages are only listed with `scheduled`."""
    from_: Instant | None = field(default=None, name="from")
    """Only messages that were stored, or are due if scheduled, at this time or later."""
    to: Instant | None = None
    """Only messages that were stored, or are due if scheduled, before this time."""
    transaction_id: Name | None = None
    """Only messages with this `transactionId`."""
    contains: Name | None = None
    """Only messages whose payload contains this text, as written in JSON."""
    where: Name | None = None
    """Only messages with a value at a path of the payload, for example `customer.id=42`."""
    reveal: bool = False
    """Whether to decrypt payloads of an encrypted queue. Needs the permission `consume`, and is
    recorded in the audit log. Default: false."""


class MessageInfo(Wire, frozen=True, kw_only=True):
    """A stored or scheduled message."""

    id: str | None
    """Id of the message; null while it is scheduled."""
    transaction_id: str
    """The `transactionId` of the push; without one, the same as `id`."""
    queue: str
    """Name of the queue."""
    partition: str
    """Name of the partition."""
    partition_id: str
    """Id of the partition."""
    offset: int | None
    """Position in the partition, starting at 0; null while the message is scheduled."""
    priority: int
    """Priority of the message if it is above 0, otherwise of its partition."""
    data: msgspec.Raw
    """Payload; null if it is masked or redacted."""
    data_error: str | None = None
    """Error code that explains why `data` is null and headers are missing; otherwise null."""
    masked: bool = False
    """True if the message is encrypted and not revealed: `data` is null, and headers are
    missing."""
    headers: dict[str, str]
    """Headers by name; empty if the message has none."""
    trace_id: str | None
    """Id of the trace that the message belongs to; null if it has none."""
    created_at: datetime | None
    """Time when the message was stored; null while it is scheduled."""
    available_at: datetime | None = None
    """Time when a scheduled message becomes available; otherwise null."""
    expires_at: datetime | None = None
    """Time when the message expires; null if it has no `ttlSeconds` and its queue no `ttl`."""
    status: Literal["pending", "processing", "failed", "completed", "dead_letter", "scheduled"]
    """`pending`, `processing` (leased), `failed` (waits for a retry), `completed`, `dead_letter` or
    `scheduled`."""
    redacted: bool = False
    """True if payload and headers were erased."""


class Messages(Wire, frozen=True, kw_only=True):
    """A page of messages, newest first; scheduled messages by the time when they are due."""

    messages: list[MessageInfo]
    """Messages of this page. A page can be shorter than its limit, or empty."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""
    scanned: int
    """Number of messages that were scanned for this page, at most 5,000."""
    complete: bool
    """True if there are no older messages to scan."""


class MessageGroup(Wire, frozen=True, kw_only=True):
    """The state of a message in one group."""

    consumer_group: str
    """Name of the group; `__QUEUE_MODE__` in queue mode."""
    status: Literal["pending", "processing", "failed", "completed", "dead_letter"]
    """`pending`, `processing` (leased), `failed` (waits for a retry), `completed` or
    `dead_letter`."""
    attempts: int
    """Number of delivery attempts that have begun; 0 after the message is completed."""
    lease_expires_at: datetime | None
    """End of the lease; null unless the message is leased."""
    next_attempt_at: datetime | None
    """Time of the next delivery attempt; null unless the message waits for a retry."""
    error: str | None
    """Error of the last failed attempt; null if there is none."""
    dead_letter_id: str | None
    """Id of the dead letter; null if the message is not dead-lettered."""


class MessageDetail(MessageInfo, frozen=True, kw_only=True):
    """A message with its state per group and its traces, oldest first."""

    groups: list[MessageGroup]
    """State of the message in each group."""
    traces: list[TraceEvent]
    """Trace events of the message, at most 1,000, oldest first."""


class RetryRequest(Request, frozen=True, kw_only=True):
    """The group for which to retry the message."""

    consumer_group: Text | None = None
    """Name of the group. Default: queue mode."""


class GiveUpRequest(RetryRequest, frozen=True, kw_only=True):
    """The group for which to dead-letter the message, and the reason."""

    error: Text | None = None
    """Reason, stored with the dead letter; cut to 16 KiB by default."""


class MessageChanged(Wire, frozen=True, kw_only=True):
    """The message was changed."""

    success: bool
    """Always true: a rejected request returns a problem instead."""
    id: str | None
    """Id of the message; null if it was scheduled."""
    transaction_id: str | None = None
    """Name of the message in the request: its `transactionId`, or else its id."""
    consumer_group: str | None = None
    """Group for which the message changed; null if it changed for all."""
    redacted: bool = False
    """True if payload and headers were erased."""
    cancelled: bool = False
    """True if a scheduled message was deleted."""
