"""Queues, namespaces, tasks, partitions and deliveries, and their figures."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, field

from queen.wire.messages import Request, Wire
from queen.wire.options import QueueOptions, RateLimit
from queen.wire.resources.groups import GroupSummary, LeaseInfo
from queen.wire.resources.paging import Name, PageQuery, Text


class Figures(Wire, frozen=True, kw_only=True):
    """Counts, each null where it is not known without visiting too much."""

    partitions: int | None
    consumer_groups: int | None
    pending: int | None
    """Messages that the slowest group has not settled."""
    held: int | None
    """Deliveries that somebody holds."""
    waiting: int | None
    """Deliveries that wait for their next attempt, or for somebody to take them again."""
    scheduled: int | None
    dead_letters: int | None
    oldest_age_seconds: float | None
    """Age of the oldest pending message; null also when there is none."""
    sampled_pending: int | None
    """The same as last measured, not long ago, and estimated where it is too much to visit."""
    sampled_oldest_age_seconds: float | None
    pushed_per_second: float | None
    """Over the last minute or two; null where nothing was ever counted."""
    popped_per_second: float | None


class OverviewQuery(Request, frozen=True, kw_only=True):
    """How many of the worst queues are told one by one, of each kind."""

    worst: Annotated[int, Meta(ge=0, le=100)] = 0


class Scope(Figures, frozen=True, kw_only=True):
    """A namespace or a task, its queues as one."""

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
    """Which queues, and in which order; a minus turns it round."""

    namespace: Text | None = None
    task: Text | None = None
    search: Text | None = None
    """Part of the name, in any case."""
    sort: Literal[
        "name",
        "-name",
        "createdAt",
        "-createdAt",
        "-pending",
        "-oldestAgeSeconds",
        "-deadLetters",
    ] = "name"
    """Figures as they were last sampled, the largest first; what is not known comes last."""
    history: bool = False
    """Also the depths of the last half hour."""


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
    """Deliveries that a group may hold; 0: any number."""
    history: list[int | None] | None = None
    """The depth in each of the last thirty minutes, where asked for; null where not sampled."""


class Overview(Figures, frozen=True, kw_only=True):
    """All queues that the caller may see, as one."""

    queues: int
    namespaces: int
    tasks: int
    worst: list[QueueSummary] = field(default_factory=list[QueueSummary])
    """Where asked for: queues whose oldest message has waited longest, then those that have most
    dead letters, then those that are paused."""


class Queues(Wire, frozen=True, kw_only=True):
    """A page of queues."""

    queues: list[QueueSummary]
    next_cursor: str | None


class QueueDetail(QueueSummary, frozen=True, kw_only=True):
    """A queue with all its options and groups."""

    options: QueueOptions
    groups: list[GroupSummary]
    most_counted: int | None = None
    """Up to this many of a kind are counted; a figure that is null is of more."""


class PartitionsQuery(PageQuery, frozen=True, kw_only=True):
    """Partitions whose names begin so, in this state."""

    prefix: Text = ""
    state: Literal["ready", "leased", "idle"] | None = None


class PartitionInfo(Wire, frozen=True, kw_only=True):
    """A partition, or its lane for messages of one priority (``level``)."""

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
    """Of one group, or of all."""

    consumer_group: Text | None = None


class DeliveryInfo(Wire, frozen=True, kw_only=True):
    """Messages that are out (held) or come again (waiting; parked: behind another delivery)."""

    id: str
    consumer_group: str
    partition: str
    partition_id: str
    state: Literal["held", "expired", "waiting", "parked"]
    until: datetime | None
    """The end of the lease, or the instant of the next attempt."""
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
    """Its messages were given back at once, uncounted; whoever held them has lost the lease."""

    id: str
    released: bool = True


class Paused(Wire, frozen=True, kw_only=True):
    """Whether the queue hands messages out."""

    paused: bool


class PurgeRequest(Request, frozen=True, kw_only=True):
    """What to remove: what all groups have settled, or everything."""

    scope: Literal["completed", "all"]
    older_than_seconds: Annotated[float, Meta(ge=0, le=3_153_600_000)] | None = None
    partition: Name | None = None
    dry_run: bool = False
    """Count alone."""
