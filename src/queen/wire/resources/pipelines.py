"""Spark pipelines and their last reports."""

from datetime import datetime
from typing import Any, Final, Literal

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
    """Rows that this run has processed."""
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


class Pipelines(Wire, frozen=True, kw_only=True):
    """A page of pipelines, by name."""

    pipelines: list[Pipeline]
    """Pipelines of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""
