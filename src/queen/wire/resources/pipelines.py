"""Spark pipelines and their last reports."""

from datetime import datetime
from typing import Any, Final, Literal

from msgspec import field

from queen.wire.messages import Wire

STALE_SECONDS: Final = 60.0
"""A running pipeline reports every ten seconds."""


class Pipeline(Wire, frozen=True, kw_only=True):
    """A Spark pipeline and its progress. A value is null if unknown."""

    name: str
    """Name of the pipeline."""
    kind: str
    """`archive`, `rollup`, `window`, `replay`, `compact`, or `stream` for a query of your own."""
    queues: list[str]
    """Queues that the pipeline reads; empty: all queues."""
    target: str | None
    """Queue, table or directory that the pipeline writes to."""
    state: Literal["running", "idle", "failed", "stopped"]
    """`running`, `idle` (no work now), `failed` or `stopped`."""
    stale: bool
    """True if the pipeline is running or idle, but has not reported for 60 seconds."""
    position: int | None
    """Number of the first database transaction whose messages are not processed yet."""
    lag_messages: int | None
    """Number of unprocessed messages; null if there are too many to count."""
    lag_seconds: float | None
    """Age of the oldest unprocessed message in seconds."""
    batch_id: int | None
    """Number of the last batch."""
    batch_millis: int | None
    """Duration of the last batch in milliseconds."""
    rows_per_second: float | None
    """Rows per second of the last batch."""
    rows_total: int | None
    """Rows that all runs of the pipeline have processed."""
    detail: dict[str, Any] | None
    """Other data of the last report."""
    error: str | None
    """Reason of a failure."""
    ui_url: str | None
    """URL of the job in Spark's UI."""
    started_at: datetime
    """Time when the run started."""
    updated_at: datetime
    """Time of the last report."""
    held_back_by: str | None = None
    """The open transaction that newer messages wait for, such as `pid 4711 of database x since
    00:41:10 UTC`; null if none. It may belong to another database of the same PostgreSQL server."""


class Hold(Wire, frozen=True, kw_only=True):
    """Messages of a queue that retention keeps for another system."""

    queue: str
    """Name of the queue."""
    name: str
    """Name of the hold; `archive:` and the name of an archive, if an archive created it."""
    position: int
    """Number of the first database transaction whose messages are kept."""
    messages: int | None
    """Number of messages that the hold keeps; null if there are too many to count."""
    age_seconds: float
    """Age in seconds of the oldest message that the hold keeps; 0 if it keeps none."""
    held_at: datetime
    """Time when the hold was created or last moved."""
    expires_at: datetime | None
    """Time when the hold ends by itself; null if it stays until it is moved or released."""


class Holds(Wire, frozen=True, kw_only=True):
    """A page of holds, by queue and name."""

    holds: list[Hold]
    """Holds of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class Archive(Wire, frozen=True, kw_only=True):
    """A queue whose messages are copied to a lake, and how far."""

    name: str
    """Name of the archive."""
    queue: str
    """Name of the queue."""
    format: str
    """Format of the lake: `iceberg`, `delta` or `parquet`."""
    location: str
    """Directory or URI of the lake, without credentials."""
    position: int
    """Number of the first database transaction whose messages are not archived yet."""
    batch: int
    """Number of the last batch in the lake; 0 before the first one."""
    batch_messages: int | None
    """Number of messages of the last batch; null before the first one."""
    archived_at: datetime | None
    """Time when the last batch was archived; null before the first one."""
    missed_messages: int
    """Number of messages that were removed from the queue before they were archived."""
    misfit_messages: int
    """Number of archived messages that don't fit the queue's schema; 0 without a typed table."""
    created_at: datetime
    """Time when the archive was created."""


class Archives(Wire, frozen=True, kw_only=True):
    """A page of archives, by name."""

    archives: list[Archive]
    """Archives of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class PipelinePoint(Wire, frozen=True, kw_only=True):
    """A bucket in the history of a pipeline. A value is null if the pipeline has not reported."""

    t: datetime
    """Start of the bucket."""
    rows_per_second: float | None
    """Processed rows per second, averaged over the bucket."""
    late: int | None
    """Rows that arrived too late for their window."""
    lag_messages: int | None
    """Largest number of unprocessed messages."""
    lag_seconds: float | None
    """Largest age of the oldest unprocessed message in seconds."""
    batch_millis: int | None
    """Duration of the longest batch in milliseconds."""


class PipelineSeries(Wire, frozen=True, kw_only=True):
    """The history of a pipeline, one point per bucket."""

    from_: datetime = field(name="from")
    """Start of the time range, rounded down to a whole bucket."""
    to: datetime
    """End of the time range, rounded up to a whole bucket."""
    bucket_seconds: int
    """Size of a bucket in seconds."""
    series: list[PipelinePoint]
    """One point per bucket, in order and without gaps."""


class Pipelines(Wire, frozen=True, kw_only=True):
    """A page of pipelines, by name."""

    pipelines: list[Pipeline]
    """Pipelines of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""
