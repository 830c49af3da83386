"""Jobs on Spark, as they report themselves."""

from datetime import datetime
from typing import Any, Final, Literal

from queen.wire.messages import Wire

STALE_SECONDS: Final = 60.0
"""Who is said to run beats every ten seconds."""


class Pipeline(Wire, frozen=True, kw_only=True):
    """A job on Spark and how far it is; null where a figure is not known."""

    name: str
    kind: str
    """archive, rollup, window, replay, compact, or stream: a query of somebody's own."""
    queues: list[str]
    """What it reads; empty: everything."""
    target: str | None
    """A queue, a table or a place of files."""
    state: Literal["running", "idle", "failed", "stopped"]
    stale: bool
    """It should be heard of and has not been for a minute."""
    position: int | None
    """What transactions below have stored is done."""
    lag_messages: int | None
    lag_seconds: float | None
    """Age of the oldest message that is not done."""
    batch_id: int | None
    batch_millis: int | None
    rows_per_second: float | None
    rows_total: int | None
    """Of this run."""
    detail: dict[str, Any] | None
    """Whatever else the job said last."""
    error: str | None
    ui_url: str | None
    """Spark's own page of it."""
    started_at: datetime
    updated_at: datetime


class Pipelines(Wire, frozen=True, kw_only=True):
    """A page of pipelines, by name."""

    pipelines: list[Pipeline]
    next_cursor: str | None
