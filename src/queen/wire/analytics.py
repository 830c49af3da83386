"""Responses of analytics: counts and durations over time, null if not recorded."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType, field

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Instant

Count = int | UnsetType | None
Figure = float | UnsetType | None


class RangeQuery(Request, frozen=True, kw_only=True):
    """A time range, and the bucket size in seconds (a multiple of 60)."""

    from_: Instant | None = field(default=None, name="from")
    to: Instant | None = None
    bucket_seconds: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ScopeQuery(RangeQuery, frozen=True, kw_only=True):
    """One queue, or the queues of a namespace, a task, or both."""

    queue: str | None = None
    namespace: str | None = None
    task: str | None = None


class SeriesQuery(ScopeQuery, frozen=True, kw_only=True):
    """``metric``: one name, or several separated by commas."""

    metric: str
    consumer_group: str | None = None


class QueuesQuery(RangeQuery, frozen=True, kw_only=True):
    """A page of queues."""

    namespace: str | None = None
    task: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cursor: str | None = None


class Percentiles(Wire, frozen=True, kw_only=True):
    """Percentiles in milliseconds, accurate to 20 %."""

    p50: float
    p95: float
    p99: float


class Figures(Wire, frozen=True, kw_only=True):
    """Counts, depths and durations. A value is null if it was not recorded."""

    pushed: Count = UNSET
    popped: Count = UNSET
    acked: Count = UNSET
    nacked: Count = UNSET
    dead_lettered: Count = UNSET
    expired: Count = UNSET
    """Messages whose time to live has ended."""
    evicted: Count = UNSET
    """Messages that waited longer than the queue allows."""
    duplicates: Count = UNSET
    leases_expired: Count = UNSET
    depth: Figure = UNSET
    """Unacknowledged messages of the slowest group."""
    lag: Figure = UNSET
    """Unacknowledged messages of all groups together."""
    oldest_age_seconds: Figure = UNSET
    wait_millis: Percentiles | UnsetType | None = UNSET
    """From push to pop."""
    processing_millis: Percentiles | UnsetType | None = UNSET
    """From pop to acknowledgment."""


class Point(Figures, frozen=True, kw_only=True):
    """One bucket, starting at ``t``."""

    t: datetime


class Series(Wire, frozen=True, kw_only=True):
    """Metrics over time, one point per bucket."""

    from_: datetime = field(name="from")
    to: datetime
    bucket_seconds: int
    series: list[Point]


class Rates(Wire, frozen=True, kw_only=True):
    """Messages per second, over the recent window."""

    pushed: float
    popped: float
    acked: float


class Throughput(Series, frozen=True, kw_only=True):
    """Pushed, delivered and acknowledged messages."""

    per_second: Rates
    window_seconds: int


class GroupFigures(Wire, frozen=True, kw_only=True):
    """A consumer group as last sampled; null: queue mode."""

    consumer_group: str | None
    lag: int
    oldest_age_seconds: float | None
    deliveries: int
    exact: bool
    """False if the lag was estimated from a part of the partitions."""


class QueueDepth(Wire, frozen=True, kw_only=True):
    """A queue as last sampled; null if it was not sampled yet."""

    queue: str
    namespace: str
    task: str
    paused: bool
    depth: int | None = None
    oldest_age_seconds: float | None = None
    dead_letters: int | None = None
    scheduled: int | None = None
    exact: bool | None = None
    sampled_at: datetime | None = None
    groups: list[GroupFigures] = field(default_factory=list[GroupFigures])


class QueueDepths(Series, frozen=True, kw_only=True):
    """Queue depths, now and over time."""

    queues: list[QueueDepth]


class QueueFigures(QueueDepth, frozen=True, kw_only=True):
    """A queue now, and its totals in the time range."""

    totals: Figures


class QueueAnalytics(Series, frozen=True, kw_only=True):
    """One queue."""

    queue: QueueFigures


class QueuesAnalytics(Series, frozen=True, kw_only=True):
    """A page of queues. The series is their sum."""

    queues: list[QueueFigures]
    next_cursor: str | None


class ScopeAnalytics(Series, frozen=True, kw_only=True):
    """The sum over the queues of a namespace or task."""

    namespace: str | None
    task: str | None
    queues: int
    totals: Figures
