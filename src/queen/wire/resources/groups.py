"""Consumer groups: how far behind, where they stand, seek, delete."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Count, Instant, Name, PageQuery


class LeaseInfo(Wire, frozen=True, kw_only=True):
    """Who holds messages of a partition, and until when."""

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
    """Messages that the group has not settled."""
    lag_seconds: float | None
    """Age of the oldest of them; 0 when there is none."""
    held: int | None
    waiting: int | None
    subscription_mode: Literal["all", "new", "time"]
    subscription_from: datetime | None
    created_at: datetime
    last_pop_at: datetime | None
    """When the group was last given messages; null where that is long ago, or never was."""


class GroupsQuery(PageQuery, frozen=True, kw_only=True):
    """Groups of one queue, of one name, or those that are so far behind."""

    queue: Name | None = None
    consumer_group: Name | None = None
    min_lag_seconds: Annotated[float, Meta(ge=0)] | None = None
    sort: Literal["createdAt", "name", "-name", "-lag", "-lagSeconds"] = "createdAt"
    """Figures as they were last sampled, the largest first; what is not known comes last."""


class Groups(Wire, frozen=True, kw_only=True):
    """A page of groups."""

    consumer_groups: list[GroupSummary]
    next_cursor: str | None


class GroupPartitionsQuery(PageQuery, frozen=True, kw_only=True):
    """Partitions in which the group is at least so many messages behind."""

    min_lag: Count = 0


class GroupPartition(Wire, frozen=True, kw_only=True):
    """Where a group stands in a partition."""

    partition_id: str
    partition: str
    level: int
    position: int | None
    """The first offset that the group has not settled; null: it has no place here yet."""
    claimed: int | None
    """The first offset that was never handed out."""
    next_offset: int
    lag: int | None
    lease: LeaseInfo | None


class GroupPartitions(Wire, frozen=True, kw_only=True):
    """A page of partitions, by name."""

    partitions: list[GroupPartition]
    next_cursor: str | None


class SeekRequest(Request, frozen=True, kw_only=True):
    """One of them; ``offset`` in one partition alone."""

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
    """The group is gone from these queues; the next pop makes it anew."""

    success: bool
    consumer_group: str
    queues: list[str]
