"""Queues of jobs: requests and responses about their workers, metrics and old jobs."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from queen.wire.jobs import Seconds
from queen.wire.messages import Extended, Request, Wire
from queen.wire.resources.paging import Count, Name, PageQuery, Text

Bin = Annotated[int, Meta(ge=0, le=127)]


class HeldJob(Request, frozen=True, kw_only=True):
    """A job that a worker has leased."""

    id: Text
    """Id of the job."""
    message_id: Text
    """Id of the job's message."""


class JobFigures(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Counts of the jobs of one name since the worker's last report, and those in progress."""

    queue: Name
    """Name of the queue."""
    name: Text
    """Name of the job."""
    completed: Count = 0
    """Number of completed jobs. Default: 0."""
    failed: Count = 0
    """Number of jobs that were dead-lettered. Default: 0."""
    retried: Count = 0
    """Number of attempts that failed and will be retried. Default: 0."""
    running: Count = 0
    """Number of jobs that run now. Default: 0."""
    seconds: Seconds = 0.0
    """Total duration of all attempts in seconds. Default: 0."""
    bins: dict[Bin, Count] = msgspec.field(default_factory=dict[int, int])
    """Number of attempts by duration. A bin ends at 2^((bin - 52) / 4) seconds."""


class WorkerReport(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Counts since a worker's last report. Each job is counted once, so reports add up."""

    worker: Name
    """Name of the worker, in the SDK `host:pid:suffix`."""
    number: Count = 0
    """Number of the report. It rises, so that a report that is repeated after a lost response
    counts once. Default: 0, always counts."""
    queues: list[Name]
    """Queues that the worker serves."""
    jobs: list[JobFigures]
    """Counts by queue and job name."""


class RenewRequest(Request, frozen=True, kw_only=True):
    """All leases of a worker, and the jobs that it can stop if they are cancelled."""

    lease_ids: list[Text]
    """Ids of all leases of the worker."""
    seconds: float | None = None
    """Duration of the leases from now, in seconds. Default: each queue's `leaseTime`."""
    jobs: list[HeldJob] = msgspec.field(default_factory=list[HeldJob])
    """Leased jobs to check for cancellation. Default: none."""
    report: WorkerReport | None = None
    """Counts for the server's metrics. Default: no report."""


class RenewResponse(Wire, frozen=True, kw_only=True):
    """The results of renewing leases, and the cancelled jobs."""

    results: list[Extended]
    """Results of the leases, in request order."""
    cancelled: list[int]
    """Indexes of cancelled jobs in `jobs` of the request."""


class RunningJobs(Wire, frozen=True, kw_only=True):
    """The number of jobs of a queue that a worker runs."""

    queue: str
    """Name of the queue."""
    running: int
    """Number of jobs of this queue that the worker runs."""


class WorkerInfo(Wire, frozen=True, kw_only=True):
    """A worker, as of its last report."""

    worker: str
    """Name of the worker, in the SDK `host:pid:suffix`."""
    heard_at: datetime
    """Time of its last report."""
    queues: list[RunningJobs]
    """Queues that the worker serves and the caller may see."""


class Workers(Wire, frozen=True, kw_only=True):
    """Workers that report to this host, by name."""

    workers: list[WorkerInfo]
    """Workers that reported in the last 15 seconds."""


class MetricsQuery(PageQuery, frozen=True, kw_only=True):
    """One queue, or a page of all queues that may have jobs."""

    queue: Name | None = None
    """Name of a queue. Default: all unordered queues."""


class Millis(Wire, frozen=True, kw_only=True):
    """Percentiles in milliseconds."""

    p50: float
    """Median in milliseconds."""
    p95: float
    """95th percentile in milliseconds."""
    p99: float
    """99th percentile in milliseconds."""


class QueueMetrics(Wire, frozen=True, kw_only=True):
    """The jobs of a queue now, and counts of the last hour."""

    queue: str
    """Name of the queue."""
    paused: bool
    """Whether deliveries are paused."""
    waiting: int | None
    """Jobs that a worker can take now."""
    active: int | None
    """Jobs that workers run."""
    delayed: int | None
    """Jobs that are scheduled or wait for their next attempt."""
    stalled: int | None
    """Jobs whose lease has expired, because their worker stopped renewing it."""
    failed: int | None
    """Dead letters of the queue."""
    completed: int | None
    """Jobs that completed in the last hour; null without counters."""
    retried: int | None
    """Failed attempts in the last hour that are retried; null without counters."""
    lost: int | None
    """Attempts in the last hour that ended because their lease expired; null without counters."""
    throughput: float | None
    """Completed jobs per second, over the last hour."""
    wait_millis: Millis | None
    """Time from adding a job to its start in the last hour; null if there were too few jobs."""
    processing_millis: Millis | None
    """Time from the start of a job to its end in the last hour; null if there were too few jobs."""


class AllMetrics(Wire, frozen=True, kw_only=True):
    """A page of job metrics, by queue."""

    queues: list[QueueMetrics]
    """Metrics of each queue."""
    next_cursor: str | None = None
    """Cursor of the next page; null at the end of the list."""


class CleanRequest(Request, frozen=True, kw_only=True):
    """Completed or failed jobs of a queue to delete, older than a number of seconds."""

    queue: Name
    """Name of the queue."""
    status: Literal["completed", "failed"] = "completed"
    """Which jobs to delete: `completed` (default) or `failed` ones."""
    grace_seconds: Annotated[int, Meta(ge=0, le=3_153_600_000)] = 86_400
    """Smallest age in seconds of the deleted jobs. Default: 86,400."""
    force: bool = False
    """Whether to delete jobs that a hold keeps, for example for an archive that has not copied them
    yet. Default: false."""
