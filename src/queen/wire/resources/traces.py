"""Trace events of messages, recorded by consumers."""

from datetime import datetime

import msgspec

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Name, PageQuery, Text


class TraceEvent(Wire, frozen=True, kw_only=True):
    """An event of a message, as a consumer recorded it."""

    id: str
    transaction_id: str
    partition_id: str
    queue: str | None
    partition: str | None
    consumer_group: str | None
    event_type: str
    trace_names: list[str]
    data: msgspec.Raw
    created_at: datetime


class TraceRequest(Request, frozen=True, kw_only=True):
    """An event of a message to record."""

    transaction_id: Name
    partition_id: Text
    data: msgspec.Raw
    trace_name: Name | list[Name] | None = None
    trace_names: Name | list[Name] | None = None
    event_type: Name = "info"
    consumer_group: Text | None = None


class Traced(Wire, frozen=True, kw_only=True):
    """The event was stored."""

    success: bool
    trace_id: str


class Traces(Wire, frozen=True, kw_only=True):
    """A page of events in time order."""

    traces: list[TraceEvent]
    next_cursor: str | None


class TraceNamesQuery(PageQuery, frozen=True, kw_only=True):
    """A filter by the prefix of the name."""

    prefix: Text = ""


class TraceName(Wire, frozen=True, kw_only=True):
    """A name, and how often it was used; null above ten thousand."""

    name: str
    count: int | None
    last_seen_at: datetime


class TraceNames(Wire, frozen=True, kw_only=True):
    """A page of names."""

    names: list[TraceName]
    next_cursor: str | None
