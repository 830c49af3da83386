"""Messages as they are stored, and what people do to one."""

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import field

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Instant, Name, PageQuery, Text
from queen.wire.resources.traces import TraceEvent


class MessagesQuery(PageQuery, frozen=True, kw_only=True):
    """Which messages of a queue; the status is that in the eyes of the group, or of all groups."""

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
    """``customer.id=42``: what the payload has at a path."""
    reveal: bool = False


class MessageInfo(Wire, frozen=True, kw_only=True):
    """A message as it is stored. ``id`` and ``offset`` are null while it is scheduled."""

    id: str | None
    transaction_id: str
    queue: str
    partition: str
    partition_id: str
    offset: int | None
    priority: int
    data: msgspec.Raw
    data_error: str | None = None
    """Why ``data`` is null, and there are no headers: the code of an error."""
    masked: bool = False
    """It is sealed and was not asked to be revealed: ``data`` is null, and there are no headers."""
    headers: dict[str, str]
    trace_id: str | None
    created_at: datetime | None
    available_at: datetime | None = None
    """When a scheduled message is due."""
    expires_at: datetime | None = None
    status: Literal["pending", "processing", "failed", "completed", "dead_letter", "scheduled"]
    redacted: bool = False


class Messages(Wire, frozen=True, kw_only=True):
    """A page of messages, newest first. ``complete``: nothing older is left to look at."""

    messages: list[MessageInfo]
    next_cursor: str | None
    scanned: int
    complete: bool


class MessageGroup(Wire, frozen=True, kw_only=True):
    """What one group has done with a message."""

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
    """For which group; queue mode if not said."""

    consumer_group: Text | None = None


class GiveUpRequest(Request, frozen=True, kw_only=True):
    """For which group, and why."""

    consumer_group: Text | None = None
    error: Text | None = None


class MessageChanged(Wire, frozen=True, kw_only=True):
    """It was done."""

    success: bool
    id: str | None
    transaction_id: str | None = None
    consumer_group: str | None = None
    redacted: bool = False
    cancelled: bool = False
