"""Queues, namespaces, tasks, partitions and deliveries, with their counts."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, field

from queen.wire.messages import Request, Wire
from queen.wire.options import QueueOptions, RateLimit
from queen.wire.resources.groups import GroupSummary, LeaseInfo
from queen.wire.resources.paging import Name, PageQuery, Text


class Figures(Wire, frozen=True, kw_only=True):
    """Counts. A value is null if it would take too long to count."""

    partitions: int | None
    consumer_groups: int | None
    pending: int | None
    """Unacknowledged messages of the slowest group."""
    held: int | None
    """Leased deliveries."""
    waiting: int | None
    """Deliveries that wait for a retry, or for a consumer to lease them again."""
    scheduled: int | None
    dead_letters: int | None
    oldest_age_seconds: float | None
    """Age of the oldest pending message; also null if there is none."""
    sampled_pending: int | None
    """``pending`` as last sampled; an estimate if there are too many partitions to visit."""
    sampled_oldest_age_seconds: float | None
    pushed_per_second: float | None
    """Over the last one or two minutes; null if no message was ever counted."""
    popped_per_second: float | None


class OverviewQuery(Request, frozen=True, kw_only=True):
    """How many queues of each kind of problem to list."""

    worst: Annotated[int, Meta(ge=0, le=100)] = 0


class Scope(Figures, frozen=True, kw_only=True):
    """The totals of a namespace or a task."""

    name: str
    queues: int


class Namespaces(Wire, frozen=True, kw_only=True):
    """Namespaces in use, by name."""

    namespaces: list[Scope]
    next_cursor: str | None


class Tasks(Wire, frozen=True, kw_only=True):
    """Tasks in use, by name."""

    tasks: list[Scope]
    next_cursor: str | None


class QueuesQuery(PageQuery, frozen=True, kw_only=True):
    """A filter and an order of queues; a minus reverses the order."""

    namespace: Text | None = None
    task: Text | None = None
    search: Text | None = None
    """Part of the name, case-insensitive."""
    sort: Literal[
        "name",
        "-name",
        "createdAt",
        "-createdAt",
        "-pending",
        "-oldestAgeSeconds",
        "-deadLetters",
    ] = "name"
    """By the last sample, the largest value first. Unknown values are last."""
    history: bool = False
    """Include the depths of the last half hour."""


class QueueSummary(Figures, frozen=True, kw_only=True):
    """A queue in a list."""

    name: str
    namespace: str
    task: str
    version: int
    created_at: datetime
    paused: bool
    ordered: bool
    priority: int
    rate_limit: RateLimit | None = None
    concurrency_limit: int = 0
    """Largest number of leased deliveries per group; 0: no limit."""
    history: list[int | None] | None = None
    """Depth in each of the last thirty minutes, if requested; null if not sampled."""


class Overview(Figures, frozen=True, kw_only=True):
    """The totals of all queues that the caller may see."""

    queues: int
    namespaces: int
    tasks: int
    worst: list[QueueSummary] = field(default_factory=list[QueueSummary])
    """If requested: the queues with the oldest messages, then those with the most dead letters,
    then paused ones."""


class Queues(Wire, frozen=True, kw_only=True):
    """A page of queues."""

    queues: list[QueueSummary]
    next_cursor: str | None


class QueueDetail(QueueSummary, frozen=True, kw_only=True):
    """A queue with all its options and groups."""

    options: QueueOptions
    groups: list[GroupSummary]
    most_counted: int | None = None
    """The largest number of a kind that is counted; null counts are larger."""


class PartitionsQuery(PageQuery, frozen=True, kw_only=True):
    """A filter by the prefix of the name and by state."""

    prefix: Text = ""
    state: Literal["ready", "leased", "idle"] | None = None


class PartitionInfo(Wire, frozen=True, kw_only=True):
    """A partition, or the part of it with messages of one priority (``level``)."""

    id: str
    name: str
    priority: int
    level: int
    state: Literal["ready", "leased", "idle"]
    first_offset: int
    next_offset: int
    last_pushed_at: datetime | None
    pending: int | None
    lease: LeaseInfo | None


class Partitions(Wire, frozen=True, kw_only=True):
    """A page of partitions, by name."""

    partitions: list[PartitionInfo]
    next_cursor: str | None


class DeliveriesQuery(PageQuery, frozen=True, kw_only=True):
    """The deliveries of one group, or of all."""

    consumer_group: Text | None = None


class DeliveryInfo(Wire, frozen=True, kw_only=True):
    """A delivery: leased (held), or waiting for a retry (waiting; parked: behind another one)."""

    id: str
    consumer_group: str
    partition: str
    partition_id: str
    state: Literal["held", "expired", "waiting", "parked"]
    until: datetime | None
    """The end of the lease, or the time of the next attempt."""
    attempt: int
    messages: int
    first_offset: int
    end_offset: int
    error: str | None


class Deliveries(Wire, frozen=True, kw_only=True):
    """A page of deliveries."""

    deliveries: list[DeliveryInfo]
    next_cursor: str | None


class DeliveryReleased(Wire, frozen=True, kw_only=True):
    """The messages were released without counting an attempt. Their consumer lost the lease."""

    id: str
    released: bool = True


class Paused(Wire, frozen=True, kw_only=True):
    """Whether the queue is paused."""

    paused: bool


class PurgeRequest(Request, frozen=True, kw_only=True):
    """Messages to delete: those that all groups have acknowledged, or all."""

    scope: Literal["completed", "all"]
    older_than_seconds: Annotated[float, Meta(ge=0, le=3_153_600_000)] | None = None
    partition: Name | None = None
    dry_run: bool = False
    """Only count them."""
