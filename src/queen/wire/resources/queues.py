"""Queues, namespaces, tasks, partitions and deliveries, with their counts."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, field

from queen.wire.messages import Request, Wire
from queen.wire.options import QueueConfiguration, QueueOptions, RateLimit
from queen.wire.resources.groups import GroupSummary, LeaseInfo
from queen.wire.resources.paging import Name, PageQuery, Text


class Figures(Wire, frozen=True, kw_only=True):
    """Counts. A value is null if it would take too long to count."""

    partitions: int | None
    """Number of partitions."""
    consumer_groups: int | None
    """Number of consumer groups, including queue mode."""
    pending: int | None
    """Messages that the slowest group has not acknowledged; all messages if there is no group."""
    held: int | None
    """Number of leased deliveries."""
    waiting: int | None
    """Number of deliveries that wait for a retry or for a consumer."""
    scheduled: int | None
    """Number of scheduled messages that are not due yet."""
    dead_letters: int | None
    """Number of dead letters."""
    oldest_age_seconds: float | None
    """Age in seconds of the oldest pending message; also null if there is none."""
    sampled_pending: int | None
    """`pending` as sampled in the last ten minutes; an estimate if there are too many
    partitions."""
    sampled_oldest_age_seconds: float | None
    """Age in seconds of the oldest pending message, as sampled in the last ten minutes."""
    pushed_per_second: float | None
    """Pushed messages per second, over the last one or two minutes; null if there never were
    any."""
    popped_per_second: float | None
    """Delivered messages per second, over the last one or two minutes; null if there never were
    any."""


class OverviewQuery(Request, frozen=True, kw_only=True):
    """How many queues of each kind of problem to list."""

    worst: Annotated[int, Meta(ge=0, le=100)] = 0
    """How many queues of each kind of problem to list, at most 100. Default: 0."""


class Scope(Figures, frozen=True, kw_only=True):
    """The totals of a namespace or a task."""

    name: str
    """Name of the namespace or task."""
    queues: int
    """Number of its queues."""


class Namespaces(Wire, frozen=True, kw_only=True):
    """Namespaces in use, by name."""

    namespaces: list[Scope]
    """Namespaces of this page, with the totals of their queues."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class Tasks(Wire, frozen=True, kw_only=True):
    """Tasks in use, by name."""

    tasks: list[Scope]
    """Tasks of this page, with the totals of their queues."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class QueuesQuery(PageQuery, frozen=True, kw_only=True):
    """A filter and an order of queues; a minus reverses the order."""

    namespace: Text | None = None
    """Only queues of this namespace."""
    task: Text | None = None
    """Only queues of this task."""
    search: Text | None = None
    """Only queues whose name contains this text, ignoring case."""
    sort: Literal[
        "name",
        "-name",
        "createdAt",
        "-createdAt",
        "-pending",
        "-oldestAgeSeconds",
        "-deadLetters",
    ] = "name"
    """Order of the list: by name (default), by time of creation (a minus reverses both), or the
    largest sampled value first."""
    history: bool = False
    """Whether to include the depths of the last 30 minutes. Default: false."""


class QueueSummary(Figures, frozen=True, kw_only=True):
    """A queue in a list."""

    name: str
    """Name of the queue."""
    namespace: str
    """Namespace of the queue; empty if it has none."""
    task: str
    """Task of the queue; empty if it has none."""
    version: int
    """Version of the configuration, which rises with each change."""
    created_at: datetime
    """Time when the queue was created."""
    paused: bool
    """Whether deliveries are paused."""
    ordered: bool
    """Whether each partition is delivered in order, under one lease per group."""
    priority: int
    """Order of queues in a pop across a namespace or task, higher first."""
    rate_limit: RateLimit | None = None
    """Largest number of messages per period, for each group; null if there is no limit."""
    concurrency_limit: int = 0
    """Largest number of leased deliveries per group; 0 if there is no limit."""
    history: list[int | None] | None = None
    """Depth in each of the last 30 minutes, oldest first, if requested; null for minutes without a
    sample."""


class Overview(Figures, frozen=True, kw_only=True):
    """The totals of all queues that the caller may see."""

    queues: int
    """Number of queues."""
    namespaces: int
    """Number of namespaces in use."""
    tasks: int
    """Number of tasks in use."""
    worst: list[QueueSummary] = field(default_factory=list[QueueSummary])
    """If requested: queues with the oldest messages, then those with the most dead letters, then
    paused ones."""


class Queues(Wire, frozen=True, kw_only=True):
    """A page of queues."""

    queues: list[QueueSummary]
    """Queues of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class QueueDetail(QueueSummary, frozen=True, kw_only=True):
    """A queue with all its options and groups."""

    options: QueueOptions
    """All options of the queue, as they are in force."""
    groups: list[GroupSummary]
    """Consumer groups of the queue, oldest first, by default at most 1,000."""
    most_counted: int | None = None
    """Largest number of rows of a kind that are counted; counts above it are null."""


class QueueConfigurations(Wire, frozen=True, kw_only=True):
    """A page of queues with their options, by name."""

    queues: list[QueueConfiguration]
    """Queues that the caller may see."""
    defaults: QueueOptions
    """Options of a new queue on this server."""
    next_cursor: str | None
    """Cursor of the next page; null on the last one."""


class PartitionsQuery(PageQuery, frozen=True, kw_only=True):
    """A filter by the prefix of the name and by state."""

    prefix: Text = ""
    """Only partitions whose name begins with this text. Default: all."""
    state: Literal["ready", "leased", "idle"] | None = None
    """Only partitions in this state."""


class PartitionInfo(Wire, frozen=True, kw_only=True):
    """A partition, or the part of it with messages of one priority (``level``)."""

    id: str
    """Id of the partition."""
    name: str
    """Name of the partition."""
    priority: int
    """Priority of the partition, higher first."""
    level: int
    """Message priority of this entry, 0 to 9. A partition with messages of several priorities has
    one entry each."""
    state: Literal["ready", "leased", "idle"]
    """`ready`: a group can take messages. `leased`: a group has leased messages. `idle`:
    neither."""
    first_offset: int
    """Offset of the first stored message."""
    next_offset: int
    """Offset of the next message to be pushed."""
    last_pushed_at: datetime | None
    """Time of the last stored push; null if the partition is empty."""
    pending: int | None
    """Messages that the slowest group has not acknowledged; all messages if there is no group."""
    lease: LeaseInfo | None
    """Lease with the earliest end; null if no message is leased."""


class Partitions(Wire, frozen=True, kw_only=True):
    """A page of partitions, by name."""

    partitions: list[PartitionInfo]
    """Partitions of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class DeliveriesQuery(PageQuery, frozen=True, kw_only=True):
    """The deliveries of one group, or of all."""

    consumer_group: Text | None = None
    """Only deliveries of this group. In queue mode the group is `__QUEUE_MODE__`."""


class DeliveryInfo(Wire, frozen=True, kw_only=True):
    """A delivery: leased (held), or waiting for a retry (waiting; parked: behind another one)."""

    id: str
    """Id of the delivery, with which it can be released."""
    consumer_group: str
    """Name of the group; `__QUEUE_MODE__` in queue mode."""
    partition: str
    """Name of the partition."""
    partition_id: str
    """Id of the partition."""
    state: Literal["held", "expired", "waiting", "parked"]
    """`held`: leased. `expired`: its lease has ended and no consumer took it yet. `waiting`: for
    its retry. `parked`: behind another delivery."""
    until: datetime | None
    """End of the lease, or time of the next attempt; null for a parked delivery."""
    attempt: int
    """Number of the current or next delivery attempt, starting at 1."""
    messages: int
    """Number of messages that are not acknowledged."""
    first_offset: int
    """Offset of the first unacknowledged message."""
    end_offset: int
    """Offset after the last unacknowledged message."""
    error: str | None
    """Error of the last failed attempt; null if there is none."""


class Deliveries(Wire, frozen=True, kw_only=True):
    """A page of deliveries."""

    deliveries: list[DeliveryInfo]
    """Deliveries of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class DeliveryReleased(Wire, frozen=True, kw_only=True):
    """The messages were released without counting an attempt. Their consumer lost the lease."""

    id: str
    """Id of the released delivery."""
    released: bool = True
    """Always true: a lost lease returns a problem instead."""


class Paused(Wire, frozen=True, kw_only=True):
    """Whether the queue is paused."""

    paused: bool
    """Whether deliveries are paused."""


class PurgeRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Messages to delete: those that all groups have acknowledged, or all."""

    scope: Literal["completed", "all"]
    """`completed` deletes messages that all groups have acknowledged. `all` also deletes
    unacknowledged ones and ends their leases."""
    older_than_seconds: Annotated[float, Meta(ge=0, le=3_153_600_000)] | None = None
    """Smallest age in seconds of the deleted messages. Default: any age."""
    partition: Name | None = None
    """Name of the partition to purge. Default: all partitions."""
    dry_run: bool = False
    """Whether to only count the messages. Default: false."""
    force: bool = False
    """Whether to delete messages that a hold keeps, for example for an archive that has not copied
    them yet. Default: false."""
