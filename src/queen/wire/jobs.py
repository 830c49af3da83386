"""Jobs: their payload, and the requests and responses of `/jobs`."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from queen.wire.messages import Request, Wire
from queen.wire.options import QueueOptions
from queen.wire.resources.paging import Instant, Name, PageQuery, RevealQuery
from queen.wire.workflows import Attempts, Priority, WorkflowPlace

Seconds = Annotated[float, Meta(ge=0)]
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
    """`fixed` keeps the delay constant, `exponential` multiplies it by `factor` with each
    attempt."""
    delay_seconds: Seconds
    """Delay before the first retry in seconds."""
    factor: Annotated[float, Meta(ge=1)] = 2.0
    """Factor by which an exponential delay grows. Default: 2."""
    max_seconds: Seconds = 3600.0
    """Longest delay in seconds. Default: 3600."""
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """Largest share of the delay that is subtracted at random, from 0 to 1. Default: 0.2."""


class Running(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Options of a job run. The processor provides the defaults."""

    attempts: Attempts | None = None
    """Largest number of attempts, 1 to 1,000. Default: that of the processor, 3 in the SDK."""
    backoff: RetryBackoff | None = None
    """Delay between attempts. Default: that of the processor."""
    timeout_seconds: Annotated[float, Meta(gt=0)] | None = None
    """Time limit of an attempt in seconds. Default: that of the processor."""
    result_seconds: Annotated[float, Meta(gt=0)] | None = None
    """Seconds for which the result is stored. Default: that of the processor, or else 86,400."""
    metadata: dict[str, Any] | None = None
    """Any object that is stored with the job. You can list jobs by its `tags`."""


class Link(Running, frozen=True, kw_only=True, omit_defaults=True):
    """A job of a chain, pushed in the transaction that completes the job before it."""

    queue: Name
    """Name of the job's queue, which is unordered."""
    name: Name
    """Name of the job, which selects its processor."""
    data: msgspec.Raw | UnsetType = UNSET
    """Data of the job: any JSON value. Default: null, or in a chain the result of the previous
    job."""
    priority: Priority | None = None
    """Priority from 1 (first) to 5 (last). Default: 3."""
    key: Name | None = None
    """Partition of the job, for example a tenant. Limits per key count by it. Default:
    `Default`."""
    unique: Name | None = None
    """Id under which the job is added only once within the queue's `dedupWindowSeconds`, among jobs
    of the same key and priority."""
    delay_seconds: Seconds | None = None
    """Seconds until the job is available. Default: 0."""
    chain: "tuple[Link, ...]" = ()
    """Jobs to add when this job completes. Default: none."""


class AddJob(Link, frozen=True, kw_only=True, omit_defaults=True):
    """A job to add."""

    scheduled_at: Instant | None = None
    """Time when the job becomes available, with a time zone. Excludes `delaySeconds`."""
    ttl_seconds: Seconds | None = None
    """Seconds until a job that was not started expires. Default: the queue's `ttl`."""


class AddJobs(Request, frozen=True, kw_only=True):
    """Several jobs. With producerId and sequence they are added together, and only once."""

    jobs: list[AddJob]
    """Jobs to add, 1 to 10,000 by default."""
    producer_id: str | None = None
    """Name of the producer, 1 to 255 bytes, which makes repeated requests safe. Requires
    `sequence`."""
    sequence: int | None = None
    """Number of the request, which must rise with each request of the producer."""


class Parent(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The previous job of a chain, and its result."""

    queue: str
    """Queue of the previous job."""
    id: str
    """Id of the previous job."""
    name: str
    """Name of the previous job."""
    result: msgspec.Raw = msgspec.Raw(b"null")
    """Result of the previous job: any JSON value; null if it had none."""


class WorkflowStep(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The workflow step, or the part of one, that a job runs."""

    id: str
    """Id of the workflow run."""
    step: str
    """Name of the step."""
    part: int | None = None
    """Index of the item that the job runs, for a map step, starting at 0; otherwise omitted."""


class Envelope(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of a job. Unknown fields of later releases are ignored."""

    name: str
    """Name of the job, which selects its processor."""
    data: msgspec.Raw = msgspec.Raw(b"null")
    """Data of the job: any JSON value. Default: null."""
    attempts: int | None = None
    """Largest number of attempts. Default: that of the processor."""
    backoff: RetryBackoff | None = None
    """Delay between attempts. Default: that of the processor."""
    timeout_seconds: float | None = None
    """Time limit of an attempt in seconds. Default: that of the processor."""
    result_seconds: float | None = None
    """Seconds for which the result is stored. Default: that of the processor, or else 86,400."""
    chain: tuple[Link, ...] = ()
    """Jobs to add when this job completes."""
    metadata: dict[str, Any] | None = None
    """Any object that is stored with the job, for example `correlationId` and `tags`."""
    parent: Parent | None = None
    """The previous job of the chain; null if this job is not part of one."""
    workflow: WorkflowPlace | None = None
    """The workflow step that the job runs; null if it is not part of a workflow."""


class JobAdded(Wire, frozen=True, kw_only=True):
    """The result of adding a job."""

    id: str | None
    """Id of the job: its `unique`, or else the id of its message, or a UUID if it is scheduled. For
    a duplicate, the id of the first job."""
    queue: str
    """Name of the queue."""
    status: Literal["queued", "duplicate", "buffered", "failed"]
    """`queued`: stored. `duplicate`: a job with this `unique` exists. `buffered`: on disk until the
    database is available. `failed`: rejected."""
    code: str | None = None
    """Error code of a failed job, for example `payload_too_large`; null if it was stored."""
    error: str | None = None
    """Explanation of `code`; null if the job was stored."""


class JobsAdded(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The results of adding several jobs."""

    jobs: list[JobAdded]
    """Results of the jobs, in request order."""
    replayed: bool = False
    """True if this request was stored before, so its jobs were not added again. Omitted if
    false."""


class JobInfo(Wire, frozen=True, kw_only=True):
    """A job and its state. Null means unknown or not applicable."""

    id: str
    """Id of the job."""
    queue: str
    """Name of the queue."""
    name: str | None
    """Name of the job, which selects its processor."""
    status: JobStatus
    """`scheduled`, `waiting` (also for a retry), `active`, `completed`, `failed` (a dead letter) or
    `cancelled`."""
    priority: int | None
    """Priority from 1 (first) to 5 (last)."""
    key: str | None
    """Partition of the job; null if it is `Default`."""
    data: msgspec.Raw
    """Data of the job."""
    masked: bool = False
    """True if the job is encrypted and not revealed. Then the fields of its payload are null, and
    so are encrypted results and progress."""
    attempt: int | None
    """Number of attempts that have begun; null after the job completed."""
    attempts: int | None
    """Largest number of attempts, if the job defines it."""
    result: msgspec.Raw
    """Result of the processor; null if it returned none, or if it is no longer stored."""
    progress: msgspec.Raw
    """Last progress that the worker recorded: any JSON value."""
    error: str | None
    """Error of the last failed attempt."""
    metadata: dict[str, Any] | None
    """The object that was stored with the job."""
    created_at: datetime | None
    """Time when the job was stored in its queue; null while it is scheduled."""
    scheduled_at: datetime | None
    """Time when a scheduled job becomes available."""
    next_attempt_at: datetime | None
    """Time of the next attempt, if the job waits for a retry."""
    lease_expires_at: datetime | None
    """End of the worker's lease, if the job is active."""
    settled_at: datetime | None
    """Time when the job failed, was cancelled, or completed with a stored result; otherwise
    null."""
    dead_letter_id: str | None
    """Id of the dead letter, if the job failed."""
    message_id: str | None
    """Id of the job's message; null while the job is scheduled."""
    workflow: WorkflowStep | None
    """The workflow step that the job runs; null if it is not part of a workflow."""


class Jobs(Wire, frozen=True, kw_only=True):
    """A page of jobs, newest first; scheduled jobs by the time when they are due."""

    jobs: list[JobInfo]
    """Jobs of this page. A page can be shorter than its limit, or empty."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""
    scanned: int
    """Number of jobs that were scanned for this page, at most 5,000."""
    complete: bool
    """True if there are no older jobs to scan."""


class JobsQuery(PageQuery, frozen=True, kw_only=True):
    """A filter for the jobs of a queue."""

    queue: Name
    """Name of the queue."""
    status: JobStatus | None = None
    """Only jobs with this status. Scheduled jobs are only listed with `scheduled`."""
    name: Name | None = None
    """Only jobs with this name."""
    tag: Name | None = None
    """Only jobs with this text in the list `tags` of their metadata."""
    key: Name | None = None
    """Only jobs of this partition."""
    reveal: bool = False
    """Whether to decrypt payloads of an encrypted queue. Needs the permission `consume`, and is
    recorded in the audit log. Default: false."""


class JobQuery(RevealQuery, frozen=True, kw_only=True):
    """The partition of a job that is named by its `unique`, and whether to wait for its end."""

    key: Name = "Default"
    """Partition of a job whose id is its `unique`. Default: `Default`."""
    wait: bool = False
    """Whether to respond only when the job has ended, or after `timeout`. Default: false."""
    timeout: Annotated[int, Meta(ge=0)] | None = None
    """Longest wait in milliseconds, at most 60,000 by default. Default: 30,000."""


class JobRequest(Request, frozen=True, kw_only=True):
    """The partition of a job that is named by its `unique`."""

    key: Name = "Default"
    """Partition of a job whose id is its `unique`. Default: `Default`."""


class ProgressRequest(Request, frozen=True, kw_only=True):
    """The progress of a job: any JSON, often a number from 0 to 1."""

    lease_id: Name
    """Id of the lease under which the worker runs the job."""
    progress: msgspec.Raw
    """Progress of the job: any JSON value, often a number from 0 to 1."""
    key: Name = "Default"
    """Partition of a job whose id is its `unique`. Default: `Default`."""
    result_seconds: Seconds | None = None
    """Seconds for which the progress is stored. Default: 86,400."""


class JobChanged(Wire, frozen=True, kw_only=True):
    """The job was changed."""

    success: bool
    """Always true: a rejected request returns a problem instead."""
    id: str
    """Id of the job."""
    queue: str
    """Name of the queue."""
    was: JobStatus | None = None
    """Status before the change; null if only the progress was recorded."""
