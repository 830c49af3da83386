"""Trace events of messages, recorded by consumers."""

from datetime import datetime

import msgspec

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Name, PageQuery, Text


class TraceEvent(Wire, frozen=True, kw_only=True):
    """An event of a message, as a consumer recorded it."""

    id: str
    """Id of the event."""
    transaction_id: str
    """The `transactionId` of the message."""
    partition_id: str
    """Id of the message's partition."""
    queue: str | None
    """Name of the queue; null if it was deleted."""
    partition: str | None
    """Name of the partition; null if it was deleted."""
    consumer_group: str | None
    """Group that recorded the event; null if the request named none."""
    event_type: str
    """Type of the event, as the consumer named it."""
    trace_names: list[str]
    """Names under which the event can be listed."""
    data: msgspec.Raw
    """Data of the event: any JSON value."""
    created_at: datetime
    """Time when the event was stored."""


class TraceRequest(Request, frozen=True, kw_only=True):
    """An event of a message to record."""

    transaction_id: Name
    """The `transactionId` of the message, or its id, 1 to 255 bytes."""
    partition_id: Text
    """Id of the message's partition."""
    data: msgspec.Raw
    """Data of the event: any JSON value, at most 64 KiB by default."""
    trace_name: Name | list[Name] | None = None
    """Name or names under which the event can be listed. Added to `traceNames`."""
    trace_names: Name | list[Name] | None = None
    """Name or names under which the event can be listed, at most 100."""
    event_type: Name = "info"
    """Type of the event. Default: `info`."""
    consumer_group: Text | None = None
    """Group that records the event. Default: none."""


class Traced(Wire, frozen=True, kw_only=True):
    """The event was stored."""

    success: bool
    """Always true: a rejected request returns a problem instead."""
    trace_id: str
    """Id of the stored event."""


class Traces(Wire, frozen=True, kw_only=True):
    """A page of events in time order."""

    traces: list[TraceEvent]
    """Events of this page, oldest first."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class TraceNamesQuery(PageQuery, frozen=True, kw_only=True):
    """A filter by the prefix of the name."""

    prefix: Text = ""
    """Only names that begin with this text. Default: all."""


class TraceName(Wire, frozen=True, kw_only=True):
    """A name of trace events, and how often it was used."""

    name: str
    """Name that consumers gave to events."""
    count: int | None
    """Number of events with this name; null above 10,000."""
    last_seen_at: datetime
    """Time of the newest of these events."""


class TraceNames(Wire, frozen=True, kw_only=True):
    """A page of names."""

    names: list[TraceName]
    """Names of this page, in alphabetical order."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""
