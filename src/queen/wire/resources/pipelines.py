"""Spark pipelines and their last reports."""

from datetime import datetime
from typing import Any, Final, Literal

from queen.wire.messages import Wire

STALE_SECONDS: Final = 60.0
"""A running pipeline reports every ten seconds."""


class Pipeline(Wire, frozen=True, kw_only=True):
    """A Spark pipeline and its progress. A value is null if unknown."""

    name: str
    kind: str
    """archive, rollup, window, replay, compact, or stream for a query of the user."""
    queues: list[str]
    """The queues that it reads; empty: all."""
    target: str | None
    """A queue, a table or a directory."""
    state: Literal["running", "idle", "failed", "stopped"]
    stale: bool
    """The pipeline should run, but has not reported for a minute."""
    position: int | None
    """Messages of transactions below this id are processed."""
    lag_messages: int | None
    lag_seconds: float | None
    """Age of the oldest unprocessed message."""
    batch_id: int | None
    batch_millis: int | None
    rows_per_second: float | None
    rows_total: int | None
    """Rows of this run."""
    detail: dict[str, Any] | None
    """Other data of the last report."""
    error: str | None
    ui_url: str | None
    """URL of the job in Spark's UI."""
    started_at: datetime
    updated_at: datetime


class Pipelines(Wire, frozen=True, kw_only=True):
    """A page of pipelines, by name."""

    pipelines: list[Pipeline]
    next_cursor: str | None
