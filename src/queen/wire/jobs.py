"""Jobs: their payload, and the requests and responses of `/jobs`."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from queen.wire.messages import Extended, Request, Wire
from queen.wire.options import QueueOptions
from queen.wire.resources.paging import Count, Instant, Name, PageQuery, RevealQuery, Text
from queen.wire.workflows import Attempts, Priority, WorkflowPlace

Seconds = Annotated[float, Meta(ge=0)]
Bin = Annotated[int, Meta(ge=0, le=127)]
JobStatus = Literal["scheduled", "waiting", "active", "completed", "failed", "cancelled"]

LEVELS = {1: 9, 2: 7, 3: 5, 4: 3, 5: 1}
"""Message priority by job priority. Of jobs, 1 is first; of messages, the highest."""
QUEUE = QueueOptions(
    ordered=False,
    # A job defines its own attempts, so the limit of the queue must be higher.
    retry_limit=1000,
    # Used if a worker died. Otherwise the job defines its backoff.
    retry_delay=500,
    max_retry_delay=5000,
)
"""Options of a queue for jobs."""
PRIORITIES = {level: priority for priority, level in LEVELS.items()}
NORMAL = 3


class RetryBackoff(Request, frozen=True, kw_only=True, omit_defaults=True):
    """The delay before the next attempt of a job."""

    type: Literal["fixed", "exponential"]
    delay_seconds: Seconds
    factor: Annotated[float, Meta(ge=1)] = 2.0
    max_seconds: Seconds = 3600.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """Largest random part that is subtracted from the delay, as a share."""


class Running(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Options of a job run. The processor provides the defaults."""

    attempts: Attempts | None = None
    backoff: RetryBackoff | None = None
    timeout_seconds: Annotated[float, Meta(gt=0)] | None = None
    result_seconds: Annotated[float, Meta(gt=0)] | None = None
    metadata: dict[str, Any] | None = None
    """``correlationId``, ``tags`` and other data of the job."""


class Link(Running, frozen=True, kw_only=True, omit_defaults=True):
    """A job of a chain, pushed in the transaction that completes the job before it."""

    queue: Name
    name: Name
    data: msgspec.Raw | UnsetType = UNSET
    """By default the result of the job before it."""
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
    """Several jobs. With producerId and sequence they are added together, and only once."""

    jobs: list[AddJob]
    producer_id: str | None = None
    sequence: int | None = None


class Parent(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The previous job of a chain, and its result."""

    queue: str
    id: str
    name: str
    result: msgspec.Raw = msgspec.Raw(b"null")


class WorkflowStep(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The workflow step, or the part of one, that a job runs."""

    id: str
    step: str
    part: int | None = None


class Envelope(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of a job. Unknown fields of later releases are ignored."""

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
    """An added job. ``duplicate``: a job with this ``unique`` exists, and ``id`` is its id."""

    id: str | None
    queue: str
    status: Literal["queued", "duplicate", "buffered", "failed"]
    code: str | None = None
    error: str | None = None


class JobsAdded(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One result per job, in request order."""

    jobs: list[JobAdded]
    replayed: bool = False


class JobInfo(Wire, frozen=True, kw_only=True):
    """A job and its state. Null means unknown or not applicable."""

    id: str
    queue: str
    name: str | None
    status: JobStatus
    priority: int | None
    key: str | None
    data: msgspec.Raw
    masked: bool = False
    """The job is encrypted and not revealed. Then its payload fields (`name`, `data`, `attempts`,
    `metadata`, `workflow`) are null, and so are `result` and `progress` if they are encrypted."""
    attempt: int | None
    """Attempts begun."""
    attempts: int | None
    """Allowed attempts, if the job defines them."""
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
    """A page of jobs, newest first. ``complete``: there are no older jobs to search."""

    jobs: list[JobInfo]
    next_cursor: str | None
    scanned: int
    complete: bool


class JobsQuery(PageQuery, frozen=True, kw_only=True):
    """A filter for the jobs of a queue."""

    queue: Name
    status: JobStatus | None = None
    name: Name | None = None
    tag: Name | None = None
    key: Name | None = None
    reveal: bool = False


class JobQuery(RevealQuery, frozen=True, kw_only=True):
    """The queue of a job that is named by its ``unique``, and whether to wait for its end."""

    key: Name = "Default"
    wait: bool = False
    timeout: Annotated[int, Meta(ge=0)] | None = None
    """Milliseconds."""


class JobRequest(Request, frozen=True, kw_only=True):
    """The queue of a job that is named by its ``unique``."""

    key: Name = "Default"


class ProgressRequest(Request, frozen=True, kw_only=True):
    """The progress of a job: any JSON, often a number from 0 to 1."""

    lease_id: Name
    progress: msgspec.Raw
    key: Name = "Default"
    result_seconds: Seconds | None = None


class JobChanged(Wire, frozen=True, kw_only=True):
    """The job was changed; ``was`` is its earlier state."""

    success: bool
    id: str
    queue: str
    was: JobStatus | None = None


class HeldJob(Request, frozen=True, kw_only=True):
    """A job that a worker has leased."""

    id: Text
    message_id: Text


class JobFigures(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Counts of the jobs of one name since the worker's last report, and those in progress."""

    queue: Name
    name: Text
    completed: Count = 0
    failed: Count = 0
    retried: Count = 0
    running: Count = 0
    seconds: Seconds = 0.0
    """Total duration of all attempts."""
    bins: dict[Bin, Count] = msgspec.field(default_factory=dict[int, int])
    """Attempts by duration: a bin ends at 2^((bin - 52) / 4) seconds."""


class WorkerReport(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Counts since a worker's last report. Each job is counted once, so reports add up."""

    worker: Name
    number: Count = 0
    """Rises with each report, so that a report repeated after a lost response counts once."""
    queues: list[Name]
    jobs: list[JobFigures]


class RenewRequest(Request, frozen=True, kw_only=True):
    """All leases of a worker, and the jobs that it can stop if they are cancelled."""

    lease_ids: list[Text]
    seconds: float | None = None
    jobs: list[HeldJob] = msgspec.field(default_factory=list[HeldJob])
    report: WorkerReport | None = None
    """For the server's metrics."""


class RenewResponse(Wire, frozen=True, kw_only=True):
    """One result per lease, in request order, and the indexes of cancelled jobs."""

    results: list[Extended]
    cancelled: list[int]


class RunningJobs(Wire, frozen=True, kw_only=True):
    """The number of jobs of a queue that a worker runs."""

    queue: str
    running: int


class WorkerInfo(Wire, frozen=True, kw_only=True):
    """A worker, as of its last report."""

    worker: str
    heard_at: datetime
    queues: list[RunningJobs]


class Workers(Wire, frozen=True, kw_only=True):
    """Workers that report to this host, by name."""

    workers: list[WorkerInfo]


class MetricsQuery(PageQuery, frozen=True, kw_only=True):
    """One queue, or a page of all queues that may have jobs."""

    queue: Name | None = None


class Millis(Wire, frozen=True, kw_only=True):
    """Percentiles in milliseconds."""

    p50: float
    p95: float
    p99: float


class QueueMetrics(Wire, frozen=True, kw_only=True):
    """The jobs of a queue now, and counts of the last hour."""

    queue: str
    paused: bool
    waiting: int | None
    active: int | None
    delayed: int | None
    """Scheduled, or waiting for the next attempt."""
    stalled: int | None
    """Leased by workers that no longer report."""
    failed: int | None
    """Dead letters."""
    completed: int | None
    retried: int | None
    lost: int | None
    """Attempts that ended because their worker stopped reporting."""
    throughput: float | None
    """Completed jobs per second."""
    wait_millis: Millis | None
    processing_millis: Millis | None


class AllMetrics(Wire, frozen=True, kw_only=True):
    """One row per queue, by name."""

    queues: list[QueueMetrics]
    next_cursor: str | None = None


class CleanRequest(Request, frozen=True, kw_only=True):
    """Completed or failed jobs of a queue to delete, older than a number of seconds."""

    queue: Name
    status: Literal["completed", "failed"] = "completed"
    grace_seconds: Annotated[int, Meta(ge=0, le=3_153_600_000)] = 86_400
