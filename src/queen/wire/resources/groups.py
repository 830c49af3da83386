"""Consumer groups: lag, positions, seek, delete."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Count, Instant, Name, PageQuery


class LeaseInfo(Wire, frozen=True, kw_only=True):
    """The lease of a partition's messages, and its end."""

    consumer_group: str
    """Group that has the lease; `__QUEUE_MODE__` in queue mode."""
    expires_at: datetime
    """End of the lease."""
    attempt: int
    """Number of the delivery attempt, starting at 1."""
    messages: int
    """Number of open messages of the delivery."""


class GroupSummary(Wire, frozen=True, kw_only=True):
    """A consumer group of one queue. Pops without a group are the group ``__QUEUE_MODE__``."""

    consumer_group: str
    """Name of the group; `__QUEUE_MODE__` in queue mode."""
    queue: str
    """Name of the queue."""
    namespace: str
    """Namespace of the queue; empty if it has none."""
    lag: int | None
    """Number of messages that the group has not acknowledged; null if there are too many rows to
    count."""
    lag_seconds: float | None
    """Age in seconds of the oldest of these messages; 0 if there are none, null if `lag` is
    null."""
    held: int | None
    """Number of leased deliveries; null if there are too many to count."""
    waiting: int | None
    """Number of deliveries that wait for a retry or for a consumer; null if there are too many to
    count."""
    subscription_mode: Literal["all", "new", "time"]
    """Start of the group when it was created: `all` messages, only `new` ones, or those from a
    `time` on."""
    subscription_from: datetime | None
    """Time from which the group receives messages; null with the mode `all`."""
    created_at: datetime
    """Time when the group was created, by its first pop."""
    last_pop_at: datetime | None
    """Time when the group last received messages; null if the stored counters don't contain it."""


class GroupsQuery(PageQuery, frozen=True, kw_only=True):
    """A filter: one queue, one name, or a minimum lag."""

    queue: Name | None = None
    """Only groups of this queue."""
    consumer_group: Name | None = None
    """Only groups with this name."""
    min_lag_seconds: Annotated[float, Meta(ge=0)] | None = None
    """Only groups whose oldest unacknowledged message has at least this age, or an unknown one.
    Default: 0."""
    sort: Literal["createdAt", "name", "-name", "-lag", "-lagSeconds"] = "createdAt"
    """Order of the list: by time of creation (default), by name (a minus reverses it), or the
    largest sampled `lag` or `lagSeconds` first."""


class Groups(Wire, frozen=True, kw_only=True):
    """A page of groups."""

    consumer_groups: list[GroupSummary]
    """Groups of this page, one entry per group and queue."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class GroupPartitionsQuery(PageQuery, frozen=True, kw_only=True):
    """Partitions with at least this lag in messages."""

    min_lag: Count = 0
    """Only partitions with at least this many unacknowledged messages. Default: 0."""


class GroupPartition(Wire, frozen=True, kw_only=True):
    """The position of a group in a partition."""

    partition_id: str
    """Id of the partition."""
    partition: str
    """Name of the partition."""
    level: int
    """Message priority of this entry, 0 to 9. A partition with messages of several priorities has
    one entry each."""
    position: int | None
    """First offset that the group has not acknowledged; null if the group has no position yet."""
    claimed: int | None
    """First offset that was never delivered to the group; null if it has no position yet."""
    next_offset: int
    """Offset of the next message to be pushed."""
    lag: int | None
    """Number of messages that the group has not acknowledged; null if it has no position yet."""
    lease: LeaseInfo | None
    """Lease of the group with the earliest end; null if no message is leased."""


class GroupPartitions(Wire, frozen=True, kw_only=True):
    """A page of partitions, by name."""

    partitions: list[GroupPartition]
    """Positions of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class SeekRequest(Request, frozen=True, kw_only=True):
    """The new position: one of the fields. ``offset`` needs a single partition."""

    timestamp: Instant | None = None
    """Move to the first message that was stored after this time."""
    to_end: bool = False
    """Move behind the last message. Default: false."""
    to_start: bool = False
    """Move to the first stored message. Default: false."""
    offset: Count | None = None
    """Move to this offset. Only for a single partition."""


class Sought(Wire, frozen=True, kw_only=True):
    """The group was moved."""

    success: bool
    """Always true: a rejected request returns a problem instead."""
    consumer_group: str
    """Name of the group."""
    queue: str
    """Name of the queue."""
    partition: str | None
    """Name of the partition; null if the group was moved in all of them."""


class GroupDeleted(Wire, frozen=True, kw_only=True):
    """The group was removed from these queues. The next pop creates it again."""

    success: bool
    """Always true: a rejected request returns a problem instead."""
    consumer_group: str
    """Name of the deleted group."""
    queues: list[str]
    """Queues in which the group was deleted."""
