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
    """Start of the time range, with a time zone. Default: 24 hours before its end."""
    to: Instant | None = None
    """End of the time range, with a time zone. Default: now."""
    bucket_seconds: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Size of a bucket in seconds, a multiple of 60, at most 86,400. Default: about 120 buckets."""


class ScopeQuery(RangeQuery, frozen=True, kw_only=True):
    """One queue, or the queues of a namespace, a task, or both."""

    queue: str | None = None
    """Only this queue."""
    namespace: str | None = None
    """Only queues of this namespace."""
    task: str | None = None
    """Only queues of this task."""


class SeriesQuery(ScopeQuery, frozen=True, kw_only=True):
    """Metrics, and the queues and the group to show them for."""

    metric: str
    """Names of metrics, separated by commas, for example `pushed,depth`."""
    consumer_group: str | None = None
    """Only this group. Metrics of the whole queue, such as `pushed`, are null then."""


class QueuesQuery(RangeQuery, frozen=True, kw_only=True):
    """A time range, and a page of queues."""

    namespace: str | None = None
    """Only queues of this namespace."""
    task: str | None = None
    """Only queues of this task."""
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Largest number of queues on the page, by default at most 1,000; higher values are lowered.
    Default: 100."""
    cursor: str | None = None
    """The `nextCursor` of the previous page. Default: the start of the list."""


class Percentiles(Wire, frozen=True, kw_only=True):
    """Percentiles in milliseconds, accurate to 20 %."""

    p50: float
    """Median in milliseconds."""
    p95: float
    """95th percentile in milliseconds."""
    p99: float
    """99th percentile in milliseconds."""


class Figures(Wire, frozen=True, kw_only=True):
    """Counts, depths and durations. A value is null if it was not recorded."""

    pushed: Count = UNSET
    """Messages stored by pushes."""
    popped: Count = UNSET
    """Messages delivered."""
    acked: Count = UNSET
    """Messages acknowledged as completed."""
    nacked: Count = UNSET
    """Messages acknowledged as failed or for a retry, and redelivered."""
    dead_lettered: Count = UNSET
    """Messages dead-lettered."""
    expired: Count = UNSET
    """Messages that expired before their delivery."""
    evicted: Count = UNSET
    """Messages that waited longer than the queue's `maxWaitTimeSeconds`."""
    duplicates: Count = UNSET
    """Pushed messages whose `transactionId` was already stored."""
    leases_expired: Count = UNSET
    """Leases that expired without an acknowledgment."""
    depth: Figure = UNSET
    """Messages that the slowest group has not acknowledged, and scheduled messages."""
    lag: Figure = UNSET
    """Messages that the groups have not acknowledged, summed over all groups."""
    oldest_age_seconds: Figure = UNSET
    """Age of the oldest unacknowledged message in seconds."""
    wait_millis: Percentiles | UnsetType | None = UNSET
    """Time from push to delivery; null if there were too few messages."""
    processing_millis: Percentiles | UnsetType | None = UNSET
    """Time from delivery to acknowledgment; null if there were too few messages."""


class Point(Figures, frozen=True, kw_only=True):
    """The metrics of one bucket."""

    t: datetime
    """Start of the bucket."""


class Series(Wire, frozen=True, kw_only=True):
    """Metrics over time, one point per bucket."""

    from_: datetime = field(name="from")
    """Start of the time range, rounded down to a whole bucket."""
    to: datetime
    """End of the time range, rounded up to a whole bucket."""
    bucket_seconds: int
    """Size of a bucket in seconds."""
    series: list[Point]
    """One point per bucket, in order and without gaps."""


class Rates(Wire, frozen=True, kw_only=True):
    """Messages per second, over the recent window."""

    pushed: float
    """Pushed messages per second."""
    popped: float
    """Delivered messages per second."""
    acked: float
    """Completed messages per second."""


class Throughput(Series, frozen=True, kw_only=True):
    """Pushed, delivered and acknowledged messages."""

    per_second: Rates
    """Current rates, over the last `windowSeconds`."""
    window_seconds: int
    """Window of the current rates in seconds, from 60 to 120 by default."""


class GroupFigures(Wire, frozen=True, kw_only=True):
    """A consumer group as last sampled."""

    consumer_group: str | None
    """Name of the group; null in queue mode."""
    lag: int
    """Messages that the group has not acknowledged."""
    oldest_age_seconds: float | None
    """Age of the oldest of them in seconds; null if there are none."""
    deliveries: int
    """Deliveries that are leased or wait for a retry."""
    exact: bool
    """False if the lag was estimated from a part of the partitions."""


class QueueDepth(Wire, frozen=True, kw_only=True):
    """A queue as last sampled. Its values are null before the first sample."""

    queue: str
    """Name of the queue."""
    namespace: str
    """Namespace of the queue; empty if it has none."""
    task: str
    """Task of the queue; empty if it has none."""
    paused: bool
    """Whether deliveries are paused."""
    depth: int | None = None
    """Messages that the slowest group has not acknowledged, and scheduled messages."""
    oldest_age_seconds: float | None = None
    """Age of the oldest unacknowledged message in seconds."""
    dead_letters: int | None = None
    """Number of dead letters, at most 10,000."""
    scheduled: int | None = None
    """Number of scheduled messages, at most 10,000."""
    exact: bool | None = None
    """False if the depth was estimated from a part of the partitions."""
    sampled_at: datetime | None = None
    """Time of the sample."""
    groups: list[GroupFigures] = field(default_factory=list[GroupFigures])
    """Consumer groups of the queue, as last sampled."""


class QueueDepths(Series, frozen=True, kw_only=True):
    """Queue depths, now and over time."""

    queues: list[QueueDepth]
    """Queues as last sampled, by name."""


class QueueFigures(QueueDepth, frozen=True, kw_only=True):
    """A queue now, and its totals in the time range."""

    totals: Figures
    """Counts and percentiles of the queue in the time range."""


class QueueAnalytics(Series, frozen=True, kw_only=True):
    """One queue now, in the time range, and over time."""

    queue: QueueFigures
    """The queue now, and its totals in the time range."""


class QueuesAnalytics(Series, frozen=True, kw_only=True):
    """A page of queues. The series is their sum."""

    queues: list[QueueFigures]
    """Queues of this page, now and in the time range."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class ScopeAnalytics(Series, frozen=True, kw_only=True):
    """The sum over the queues of a namespace or task."""

    namespace: str | None
    """Namespace of the request; null if it named none."""
    task: str | None
    """Task of the request; null if it named none."""
    queues: int
    """Number of queues, by default at most 1,000."""
    totals: Figures
    """Counts of all these queues in the time range."""
