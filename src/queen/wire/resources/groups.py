"""Consumer groups: lag, positions, seek, delete."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Count, Instant, Name, PageQuery


class LeaseInfo(Wire, frozen=True, kw_only=True):
    """The lease of a partition's messages, and its end."""

    consumer_group: str
    expires_at: datetime
    attempt: int
    messages: int


class GroupSummary(Wire, frozen=True, kw_only=True):
    """A consumer group of one queue. Pops without a group are the group ``__QUEUE_MODE__``."""

    consumer_group: str
    queue: str
    namespace: str
    lag: int | None
    """Unacknowledged messages of the group."""
    lag_seconds: float | None
    """Age of the oldest one; 0 if there is none."""
    held: int | None
    waiting: int | None
    subscription_mode: Literal["all", "new", "time"]
    subscription_from: datetime | None
    created_at: datetime
    last_pop_at: datetime | None
    """Time of the last delivery; null if it is long ago, or there was none."""


class GroupsQuery(PageQuery, frozen=True, kw_only=True):
    """A filter: one queue, one name, or a minimum lag."""

    queue: Name | None = None
    consumer_group: Name | None = None
    min_lag_seconds: Annotated[float, Meta(ge=0)] | None = None
    sort: Literal["createdAt", "name", "-name", "-lag", "-lagSeconds"] = "createdAt"
    """By the last sample, the largest value first. Unknown values are last."""


class Groups(Wire, frozen=True, kw_only=True):
    """A page of groups."""

    consumer_groups: list[GroupSummary]
    next_cursor: str | None


class GroupPartitionsQuery(PageQuery, frozen=True, kw_only=True):
    """Partitions with at least this lag in messages."""

    min_lag: Count = 0


class GroupPartition(Wire, frozen=True, kw_only=True):
    """The position of a group in a partition."""

    partition_id: str
    partition: str
    level: int
    position: int | None
    """The first unacknowledged offset; null: the group has no position yet."""
    claimed: int | None
    """The first offset that was never delivered."""
    next_offset: int
    lag: int | None
    lease: LeaseInfo | None


class GroupPartitions(Wire, frozen=True, kw_only=True):
    """A page of partitions, by name."""

    partitions: list[GroupPartition]
    next_cursor: str | None


class SeekRequest(Request, frozen=True, kw_only=True):
    """The new position: one of the fields. ``offset`` needs a single partition."""

    timestamp: Instant | None = None
    to_end: bool = False
    to_start: bool = False
    offset: Count | None = None


class Sought(Wire, frozen=True, kw_only=True):
    """The group was moved."""

    success: bool
    consumer_group: str
    queue: str
    partition: str | None


class GroupDeleted(Wire, frozen=True, kw_only=True):
    """The group was removed from these queues. The next pop creates it again."""

    success: bool
    consumer_group: str
    queues: list[str]
