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
    partition: Name | None = None
    consumer_group: Name | None = None
    status: (
        Literal["pending", "processing", "failed", "completed", "dead_letter", "scheduled"] | None
    ) = None
    from_: Instant | None = field(default=None, name="from")
    to: Instant | None = None
    transaction_id: Name | None = None
    contains: Name | None = None
    where: Name | None = None
    """``customer.id=42``: the value at a path of the payload."""
    reveal: bool = False


class MessageInfo(Wire, frozen=True, kw_only=True):
    """A stored message. ``id`` and ``offset`` are null while it is scheduled."""

    id: str | None
    transaction_id: str
    queue: str
    partition: str
    partition_id: str
    offset: int | None
    priority: int
    data: msgspec.Raw
    data_error: str | None = None
    """The error code that explains why ``data`` is null and headers are missing."""
    masked: bool = False
    """The message is encrypted and not revealed: ``data`` is null, and headers are missing."""
    headers: dict[str, str]
    trace_id: str | None
    created_at: datetime | None
    available_at: datetime | None = None
    """When a scheduled message is due."""
    expires_at: datetime | None = None
    status: Literal["pending", "processing", "failed", "completed", "dead_letter", "scheduled"]
    redacted: bool = False


class Messages(Wire, frozen=True, kw_only=True):
    """A page of messages, newest first. ``complete``: there are no older messages to search."""

    messages: list[MessageInfo]
    next_cursor: str | None
    scanned: int
    complete: bool


class MessageGroup(Wire, frozen=True, kw_only=True):
    """The state of a message in one group."""

    consumer_group: str
    status: Literal["pending", "processing", "failed", "completed", "dead_letter"]
    attempts: int
    lease_expires_at: datetime | None
    next_attempt_at: datetime | None
    error: str | None
    dead_letter_id: str | None


class MessageDetail(MessageInfo, frozen=True, kw_only=True):
    """A message with its state per group and its traces, oldest first."""

    groups: list[MessageGroup]
    traces: list[TraceEvent]


class RetryRequest(Request, frozen=True, kw_only=True):
    """The group; by default queue mode."""

    consumer_group: Text | None = None


class GiveUpRequest(RetryRequest, frozen=True, kw_only=True):
    """The group, and the reason."""

    error: Text | None = None


class MessageChanged(Wire, frozen=True, kw_only=True):
    """The message was changed."""

    success: bool
    id: str | None
    transaction_id: str | None = None
    consumer_group: str | None = None
    redacted: bool = False
    cancelled: bool = False
