"""What analytics answer: figures over time, null where nothing was recorded."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType, field

from queen.wire.messages import Request, Wire

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
Count = int | UnsetType | None
Figure = float | UnsetType | None


class RangeQuery(Request, frozen=True, kw_only=True):
    """Which time, in buckets of how many seconds (a multiple of 60)."""

    from_: Instant | None = field(default=None, name="from")
    to: Instant | None = None
    bucket_seconds: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ScopeQuery(RangeQuery, frozen=True, kw_only=True):
    """Of one queue, or of those of a namespace, a task, or both."""

    queue: str | None = None
    namespace: str | None = None
    task: str | None = None


class SeriesQuery(ScopeQuery, frozen=True, kw_only=True):
    """``metric``: one name, or several with commas."""

    metric: str
    consumer_group: str | None = None


class QueuesQuery(RangeQuery, frozen=True, kw_only=True):
    """A page of queues."""

    namespace: str | None = None
    task: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cursor: str | None = None


class Percentiles(Wire, frozen=True, kw_only=True):
    """Milliseconds, right to within a fifth."""

    p50: float
    p95: float
    p99: float


class Figures(Wire, frozen=True, kw_only=True):
    """What was counted, sampled and timed; null where nothing was recorded."""

    pushed: Count = UNSET
    popped: Count = UNSET
    acked: Count = UNSET
    nacked: Count = UNSET
    dead_lettered: Count = UNSET
    expired: Count = UNSET
    """Messages whose time to live was over."""
    evicted: Count = UNSET
    """Messages that waited longer than the queue allows."""
    duplicates: Count = UNSET
    leases_expired: Count = UNSET
    depth: Figure = UNSET
    """What the slowest group has not settled."""
    lag: Figure = UNSET
    """What groups have not settled, together."""
    oldest_age_seconds: Figure = UNSET
    wait_millis: Percentiles | UnsetType | None = UNSET
    """From push to pop."""
    processing_millis: Percentiles | UnsetType | None = UNSET
    """From pop to settlement."""


class Point(Figures, frozen=True, kw_only=True):
    """One bucket, which begins at ``t``."""

    t: datetime


class Series(Wire, frozen=True, kw_only=True):
    """Figures over a time, a point a bucket."""

    from_: datetime = field(name="from")
    to: datetime
    bucket_seconds: int
    series: list[Point]


class Rates(Wire, frozen=True, kw_only=True):
    """Messages a second, lately."""

    pushed: float
    popped: float
    acked: float


class Throughput(Series, frozen=True, kw_only=True):
    """How many messages came, were handed out and were settled."""

    per_second: Rates
    window_seconds: int


class GroupFigures(Wire, frozen=True, kw_only=True):
    """A consumer group as it was last sampled; null: queue mode."""

    consumer_group: str | None
    lag: int
    oldest_age_seconds: float | None
    deliveries: int
    exact: bool
    """False where the lag was estimated from some of very many partitions."""


class QueueDepth(Wire, frozen=True, kw_only=True):
    """A queue as it was last sampled; null where it was not yet."""

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
    """Depths now and over time."""

    queues: list[QueueDepth]


class QueueFigures(QueueDepth, frozen=True, kw_only=True):
    """A queue now, and what it came to in the range."""

    totals: Figures


class QueueAnalytics(Series, frozen=True, kw_only=True):
    """One queue."""

    queue: QueueFigures


class QueuesAnalytics(Series, frozen=True, kw_only=True):
    """A page of queues; the series is of these queues together."""

    queues: list[QueueFigures]
    next_cursor: str | None


class ScopeAnalytics(Series, frozen=True, kw_only=True):
    """The queues of a namespace or task together."""

    namespace: str | None
    task: str | None
    queues: int
    totals: Figures
