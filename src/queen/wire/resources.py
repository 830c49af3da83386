"""Queues, groups, messages, dead letters, traces, operations, processes: as people see them."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from queen.wire.messages import Request, Wire
from queen.wire.options import QueueOptions

Instant = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
# PostgreSQL stores every character but NUL.
Text = Annotated[str, Meta(pattern=r"^[^\x00]*\Z")]
Name = Annotated[str, Meta(min_length=1, pattern=r"^[^\x00]*\Z")]


class PageQuery(Request, frozen=True, kw_only=True):
    """A page of a list; ``cursor`` is the ``nextCursor`` of the page before."""

    limit: Annotated[int, Meta(ge=1)] | None = None
    cursor: Text | None = None


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
    pushed_per_second: float | None
    """Over the last minute or two; null where nothing was ever counted."""
    popped_per_second: float | None


class Overview(Figures, frozen=True, kw_only=True):
    """All queues that the caller may see, as one."""

    queues: int
    namespaces: int
    tasks: int


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
    sort: Literal["name", "-name", "createdAt", "-createdAt"] = "name"


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


class Queues(Wire, frozen=True, kw_only=True):
    """A page of queues."""

    queues: list[QueueSummary]
    next_cursor: str | None


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


class QueueDetail(QueueSummary, frozen=True, kw_only=True):
    """A queue with all its options and groups."""

    options: QueueOptions
    groups: list[GroupSummary]


class LeaseInfo(Wire, frozen=True, kw_only=True):
    """Who holds messages of a partition, and until when."""

    consumer_group: str
    expires_at: datetime
    attempt: int
    messages: int


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


class Paused(Wire, frozen=True, kw_only=True):
    """Whether the queue hands messages out."""

    paused: bool


class PurgeRequest(Request, frozen=True, kw_only=True):
    """What to remove: what all groups have settled, or everything."""

    scope: Literal["completed", "all"]
    older_than_seconds: Annotated[float, Meta(ge=0, le=3_153_600_000)] | None = None
    partition: Name | None = None


class Operation(Wire, frozen=True, kw_only=True):
    """Long work, and how far it came."""

    id: str
    kind: str
    state: Literal["running", "done", "failed", "cancelled"]
    done: int
    total: int | None
    error: str | None
    queue: str | None
    created_by: str
    created_at: datetime
    finished_at: datetime | None


class OperationStarted(Wire, frozen=True, kw_only=True):
    """The work goes on after this answer."""

    operation: Operation


class Operations(Wire, frozen=True, kw_only=True):
    """A page of operations, newest first."""

    operations: list[Operation]
    next_cursor: str | None


class GroupsQuery(PageQuery, frozen=True, kw_only=True):
    """Groups of one queue, or those that are so far behind."""

    queue: Name | None = None
    min_lag_seconds: Annotated[float, Meta(ge=0)] | None = None


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


class MessagesQuery(PageQuery, frozen=True, kw_only=True):
    """Which messages of a queue; the status is that in the eyes of the group, or of all groups."""

    queue: Name
    partition: Name | None = None
    consumer_group: Name | None = None
    status: (
        Literal["pending", "processing", "failed", "completed", "dead_letter", "scheduled"] | None
    ) = None
    from_: Instant | None = field(default=None, name="from")
    to: Instant | None = None
    transaction_id: Name | None = None
    contains: Name | None = None


class MessageInfo(Wire, frozen=True, kw_only=True):
    """A message as it is stored. ``id`` and ``offset`` are null while it is scheduled."""

    id: str | None
    transaction_id: str
    queue: str
    partition: str
    partition_id: str
    offset: int | None
    priority: int
    data: msgspec.Raw
    headers: dict[str, str]
    trace_id: str | None
    created_at: datetime | None
    available_at: datetime | None = None
    """When a scheduled message is due."""
    expires_at: datetime | None = None
    status: Literal["pending", "processing", "failed", "completed", "dead_letter", "scheduled"]
    redacted: bool = False


class Messages(Wire, frozen=True, kw_only=True):
    """A page of messages, newest first. ``complete``: nothing older is left to look at."""

    messages: list[MessageInfo]
    next_cursor: str | None
    scanned: int
    complete: bool


class MessageGroup(Wire, frozen=True, kw_only=True):
    """What one group has done with a message."""

    consumer_group: str
    status: Literal["pending", "processing", "failed", "completed", "dead_letter"]
    attempts: int
    lease_expires_at: datetime | None
    next_attempt_at: datetime | None
    error: str | None
    dead_letter_id: str | None


class TraceEvent(Wire, frozen=True, kw_only=True):
    """Something that happened to a message, as a consumer told it."""

    id: str
    transaction_id: str
    partition_id: str
    queue: str | None
    partition: str | None
    consumer_group: str | None
    event_type: str
    trace_names: list[str]
    data: msgspec.Raw
    created_at: datetime


class MessageDetail(MessageInfo, frozen=True, kw_only=True):
    """A message with its state per group and its traces, oldest first."""

    groups: list[MessageGroup]
    traces: list[TraceEvent]


class RetryRequest(Request, frozen=True, kw_only=True):
    """For which group; queue mode if not said."""

    consumer_group: Text | None = None


class GiveUpRequest(Request, frozen=True, kw_only=True):
    """For which group, and why."""

    consumer_group: Text | None = None
    error: Text | None = None


class MessageChanged(Wire, frozen=True, kw_only=True):
    """It was done."""

    success: bool
    id: str | None
    transaction_id: str | None = None
    consumer_group: str | None = None
    redacted: bool = False
    cancelled: bool = False


class DeadLetterFilter(Request, frozen=True, kw_only=True):
    """Which dead letters of a queue."""

    queue: Name | None = None
    consumer_group: Name | None = None
    partition: Name | None = None
    fingerprint: Name | None = None
    from_: Instant | None = field(default=None, name="from")
    to: Instant | None = None


class DeadLettersQuery(DeadLetterFilter, frozen=True, kw_only=True):
    """A page of them."""

    limit: Annotated[int, Meta(ge=1)] | None = None
    cursor: Text | None = None


class DeadLetter(Wire, frozen=True, kw_only=True):
    """A message that gave up, with its own copy."""

    id: str
    message_id: str
    transaction_id: str
    queue: str
    partition: str
    partition_id: str
    offset: int
    priority: int
    consumer_group: str
    data: msgspec.Raw
    headers: dict[str, str]
    trace_id: str | None
    created_at: datetime
    error_message: str | None
    reason: str
    fingerprint: str
    attempts: int
    failed_at: datetime


class DeadLetters(Wire, frozen=True, kw_only=True):
    """A page of dead letters, newest first; ``total`` is null when there are very many."""

    messages: list[DeadLetter]
    next_cursor: str | None
    total: int | None


class ErrorsQuery(Request, frozen=True, kw_only=True):
    """Of which queue."""

    queue: Name


class ErrorKind(Wire, frozen=True, kw_only=True):
    """Dead letters whose errors differ in figures alone."""

    fingerprint: str
    reason: str
    sample: str | None
    count: int
    first_at: datetime
    last_at: datetime


class ErrorKinds(Wire, frozen=True, kw_only=True):
    """The most frequent first, out of the newest dead letters."""

    errors: list[ErrorKind]
    scanned: int
    complete: bool


class RedriveFilter(DeadLetterFilter, frozen=True, kw_only=True):
    """By what they have in common, or by their ids."""

    ids: list[Text] | None = None


class Destination(Request, frozen=True, kw_only=True):
    """Where new messages go."""

    queue: Name
    partition: Name = "Default"


class RedriveRequest(Request, frozen=True, kw_only=True):
    """Deliver again; with a destination as new messages there."""

    filter: RedriveFilter
    dry_run: bool = False
    rate_per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    destination: Destination | None = None


class Counted(Wire, frozen=True, kw_only=True):
    """How many it concerns."""

    count: int


class TraceRequest(Request, frozen=True, kw_only=True):
    """An event of a message."""

    transaction_id: Name
    partition_id: Text
    data: msgspec.Raw
    trace_name: Name | list[Name] | None = None
    trace_names: Name | list[Name] | None = None
    event_type: Name = "info"
    consumer_group: Text | None = None


class Traced(Wire, frozen=True, kw_only=True):
    """The event is kept."""

    success: bool
    trace_id: str


class Traces(Wire, frozen=True, kw_only=True):
    """A page of events in time order."""

    traces: list[TraceEvent]
    next_cursor: str | None


class TraceNamesQuery(PageQuery, frozen=True, kw_only=True):
    """Names that begin so."""

    prefix: Text = ""


class TraceName(Wire, frozen=True, kw_only=True):
    """A name, and how often it was used; null above ten thousand."""

    name: str
    count: int | None
    last_seen_at: datetime


class TraceNames(Wire, frozen=True, kw_only=True):
    """A page of names."""

    names: list[TraceName]
    next_cursor: str | None


class Instance(Wire, frozen=True, kw_only=True):
    """A server process."""

    id: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    alive: bool
    waiters: int


class Instances(Wire, frozen=True, kw_only=True):
    """A page of processes over this database."""

    instances: list[Instance]
    next_cursor: str | None


class Setting(Wire, frozen=True, kw_only=True):
    """A setting in force; secrets are masked."""

    name: str
    value: Any
    source: Literal["environment", "default"]


class Config(Wire, frozen=True, kw_only=True):
    """All settings of the process that answers."""

    settings: list[Setting]


class Migration(Wire, frozen=True, kw_only=True):
    """A change of the schema."""

    name: str
    applied_at: datetime


class Migrations(Wire, frozen=True, kw_only=True):
    """What was applied to the database, and what this release would apply."""

    applied: list[Migration]
    pending: list[str]


class Table(Wire, frozen=True, kw_only=True):
    """A table as PostgreSQL's statistics know it."""

    name: str
    total_bytes: int
    heap_bytes: int
    index_bytes: int
    live_rows: int
    dead_rows: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


class OldestTransaction(Wire, frozen=True, kw_only=True):
    """What keeps vacuum from removing dead rows."""

    pid: int
    application: str | None
    user: str | None
    state: str | None
    started_at: datetime
    age_seconds: float


class Tables(Wire, frozen=True, kw_only=True):
    """Our tables, and the oldest open transaction of the database."""

    tables: list[Table]
    oldest_transaction: OldestTransaction | None


class MaintenanceRequest(Request, frozen=True, kw_only=True):
    """On or off."""

    enabled: bool


class Maintenance(Wire, frozen=True, kw_only=True):
    """Whether maintenance is on, since when, and by whom."""

    enabled: bool
    changed_at: datetime | None = None
    changed_by: str | None = None
