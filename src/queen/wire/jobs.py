"""Jobs: what the payload of one holds, and what the routes under `/jobs` take and answer."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from queen.wire.messages import Extended, Request, Wire
from queen.wire.options import QueueOptions
from queen.wire.resources.paging import Instant, Name, PageQuery, RevealQuery, Text
from queen.wire.workflows import WorkflowPlace

Seconds = Annotated[float, Meta(ge=0)]
Attempts = Annotated[int, Meta(ge=1, le=1000)]
Priority = Annotated[int, Meta(ge=1, le=5)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Bin = Annotated[int, Meta(ge=0, le=127)]
JobStatus = Literal["scheduled", "waiting", "active", "completed", "failed", "cancelled"]

LEVELS = {1: 9, 2: 7, 3: 5, 4: 3, 5: 1}
"""The priority of a job, 1 is first, as the priority of its message, where higher is first."""
QUEUE = QueueOptions(
    ordered=False,
    # How often a job is tried is its own to say: the queue must not give up first.
    retry_limit=1000,
    # Of a job whose worker was not heard of any more; any other says its backoff itself.
    retry_delay=500,
    max_retry_delay=5000,
)
"""What makes a queue one of jobs."""
PRIORITIES = {level: priority for priority, level in LEVELS.items()}
NORMAL = 3


class RetryBackoff(Request, frozen=True, kw_only=True, omit_defaults=True):
    """How long a job waits before its next attempt."""

    type: Literal["fixed", "exponential"]
    delay_seconds: Seconds
    factor: Annotated[float, Meta(ge=1)] = 2.0
    max_seconds: Seconds = 3600.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """Up to this share of the delay is taken off, by chance."""


class Running(Request, frozen=True, kw_only=True, omit_defaults=True):
    """How a job is run; what is not said is its processor's to say."""

    attempts: Attempts | None = None
    backoff: RetryBackoff | None = None
    timeout_seconds: Annotated[float, Meta(gt=0)] | None = None
    result_seconds: Annotated[float, Meta(gt=0)] | None = None
    metadata: dict[str, Any] | None = None
    """``correlationId``, ``tags`` and whatever else belongs to the job."""


class Link(Running, frozen=True, kw_only=True, omit_defaults=True):
    """A job of a chain: pushed when the one before it is completed, in the same transaction."""

    queue: Name
    name: Name
    data: msgspec.Raw | UnsetType = UNSET
    """Not given: the result of the one before."""
    priority: Priority | None = None
    key: Name | None = None
    unique: Name | None = None
    delay_seconds: Seconds | None = None
    chain: "tuple[Link, ...]" = ()


class AddJob(Link, frozen=True, kw_only=True, omit_defaults=True):
    """A job to add."""

    scheduled_at: Instant | None = None
    ttl_seconds: Seconds | None = None


class AddJobs(Request, frozen=True, kw_only=True):
    """Several jobs; with producerId and sequence all or nothing, once however often it is sent."""

    jobs: list[AddJob]
    producer_id: str | None = None
    sequence: int | None = None


class Parent(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The job before one in a chain, and what it came to."""

    queue: str
    id: str
    name: str
    result: msgspec.Raw = msgspec.Raw(b"null")


class WorkflowStep(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Which step of a workflow a job is, or which part of it."""

    id: str
    step: str
    part: int | None = None


class Envelope(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of a job. Open: what a later release adds is passed over."""

    name: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    attempts: int | None = None
    backoff: RetryBackoff | None = None
    timeout_seconds: float | None = None
    result_seconds: float | None = None
    chain: tuple[Link, ...] = ()
    metadata: dict[str, Any] | None = None
    parent: Parent | None = None
    workflow: WorkflowPlace | None = None


class JobAdded(Wire, frozen=True, kw_only=True):
    """A job that was added; ``duplicate``: one with this ``unique`` is known, and ``id`` is its."""

    id: str | None
    queue: str
    status: Literal["queued", "duplicate", "buffered", "failed"]
    code: str | None = None
    error: str | None = None


class JobsAdded(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One answer a job, in the order given."""

    jobs: list[JobAdded]
    replayed: bool = False


class JobInfo(Wire, frozen=True, kw_only=True):
    """A job as it stands; null is what is not known, or does not apply."""

    id: str
    queue: str
    name: str | None
    status: JobStatus
    priority: int | None
    key: str | None
    data: msgspec.Raw
    masked: bool = False
    """It is sealed and was not asked to be revealed: null is what its payload would tell (`name`,
    `data`, `attempts`, `metadata`, `workflow`), and `result` and `progress` if they are sealed."""
    attempt: int | None
    """Attempts begun."""
    attempts: int | None
    """Attempts allowed, if the job says so itself."""
    result: msgspec.Raw
    progress: msgspec.Raw
    error: str | None
    metadata: dict[str, Any] | None
    created_at: datetime | None
    scheduled_at: datetime | None
    next_attempt_at: datetime | None
    lease_expires_at: datetime | None
    settled_at: datetime | None
    dead_letter_id: str | None
    message_id: str | None
    workflow: WorkflowStep | None


class Jobs(Wire, frozen=True, kw_only=True):
    """A page of jobs, newest first. ``complete``: nothing older is left to look at."""

    jobs: list[JobInfo]
    next_cursor: str | None
    scanned: int
    complete: bool


class JobsQuery(PageQuery, frozen=True, kw_only=True):
    """Which jobs of a queue."""

    queue: Name
    status: JobStatus | None = None
    name: Name | None = None
    tag: Name | None = None
    key: Name | None = None
    reveal: bool = False


class JobQuery(RevealQuery, frozen=True, kw_only=True):
    """Where a job was put that is named by its ``unique``, and whether to wait for its end."""

    key: Name = "Default"
    wait: bool = False
    timeout: Annotated[int, Meta(ge=0)] | None = None
    """Milliseconds."""


class JobRequest(Request, frozen=True, kw_only=True):
    """Where a job was put that is named by its ``unique``."""

    key: Name = "Default"


class ProgressRequest(Request, frozen=True, kw_only=True):
    """How far a job has come: any JSON, often a share from 0 to 1."""

    lease_id: Name
    progress: msgspec.Raw
    key: Name = "Default"
    result_seconds: Seconds | None = None


class JobChanged(Wire, frozen=True, kw_only=True):
    """It was done; ``was`` is what the job was before."""

    success: bool
    id: str
    queue: str
    was: JobStatus | None = None


class HeldJob(Request, frozen=True, kw_only=True):
    """A job that a worker has."""

    id: Text
    message_id: Text


class JobFigures(Request, frozen=True, kw_only=True, omit_defaults=True):
    """What became of jobs of one name since a worker last told, and how many it runs now."""

    queue: Name
    name: Text
    completed: Count = 0
    failed: Count = 0
    retried: Count = 0
    running: Count = 0
    seconds: Seconds = 0.0
    """All attempts together."""
    bins: dict[Bin, Count] = msgspec.field(default_factory=dict[int, int])
    """Attempts by how long they took: a bin ends at 2^((bin - 52) / 4) seconds."""


class WorkerReport(Request, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker has done since it last told; each is counted once, so figures add up."""

    worker: Name
    number: Count = 0
    """Rises with each report: one that is sent again, its answer was lost, counts once."""
    queues: list[Name]
    jobs: list[JobFigures]


class RenewRequest(Request, frozen=True, kw_only=True):
    """All that a worker holds: its leases, and jobs that it would stop if they were cancelled."""

    lease_ids: list[Text]
    seconds: float | None = None
    jobs: list[HeldJob] = msgspec.field(default_factory=list[HeldJob])
    report: WorkerReport | None = None
    """For the server's metrics."""


class RenewResponse(Wire, frozen=True, kw_only=True):
    """One result a lease, in the order asked, and the numbers of jobs that were cancelled."""

    results: list[Extended]
    cancelled: list[int]


class RunningJobs(Wire, frozen=True, kw_only=True):
    """How many jobs of a queue a worker runs."""

    queue: str
    running: int


class WorkerInfo(Wire, frozen=True, kw_only=True):
    """A worker, as it last told of itself."""

    worker: str
    heard_at: datetime
    queues: list[RunningJobs]


class Workers(Wire, frozen=True, kw_only=True):
    """Those that the host of this server hears of, by name."""

    workers: list[WorkerInfo]


class MetricsQuery(PageQuery, frozen=True, kw_only=True):
    """One queue, or a page of all that may have jobs."""

    queue: Name | None = None


class Millis(Wire, frozen=True, kw_only=True):
    """Percentiles in milliseconds."""

    p50: float
    p95: float
    p99: float


class QueueMetrics(Wire, frozen=True, kw_only=True):
    """What there is to do in a queue now, and what was done in the last hour."""

    queue: str
    paused: bool
    waiting: int | None
    active: int | None
    delayed: int | None
    """Scheduled, or waiting for the next attempt."""
    stalled: int | None
    """Held by workers that are not heard of any more."""
    failed: int | None
    """Dead letters."""
    completed: int | None
    retried: int | None
    lost: int | None
    """Attempts that ended because their worker was not heard of any more."""
    throughput: float | None
    """Completed a second."""
    wait_millis: Millis | None
    processing_millis: Millis | None


class AllMetrics(Wire, frozen=True, kw_only=True):
    """A row a queue, by name."""

    queues: list[QueueMetrics]
    next_cursor: str | None = None


class CleanRequest(Request, frozen=True, kw_only=True):
    """Which jobs of a queue to remove: completed or failed ones, older than so many seconds."""

    queue: Name
    status: Literal["completed", "failed"] = "completed"
    grace_seconds: Annotated[int, Meta(ge=0, le=3_153_600_000)] = 86_400
