"""Jobs and workflows: a job is a message of an unordered queue that a named processor runs."""

from queen.client.consume.outcomes import DeadLetter, Retry
from queen.errors import JobCancelled, JobFailed
from queen.jobs.app import QueueManager
from queen.jobs.handle import JobHandle
from queen.jobs.job import Job, JobTransaction
from queen.jobs.options import Backoff, JobOptions, JobPriority, Rate
from queen.jobs.pool.manager import WorkerManager
from queen.jobs.processor import Processor
from queen.jobs.worker.stats import WorkerStats
from queen.jobs.worker.worker import Worker
from queen.jobs.workflows.definition import Step, Workflow, execute_workflow
from queen.jobs.workflows.handle import WorkflowHandle
from queen.wire.job_queues import QueueMetrics, WorkerInfo
from queen.wire.jobs import JobInfo, Link

__all__ = [
    "Backoff",
    "DeadLetter",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobInfo",
    "JobOptions",
    "JobPriority",
    "JobTransaction",
    "Link",
    "Processor",
    "QueueManager",
    "QueueMetrics",
    "Rate",
    "Retry",
    "Step",
    "Worker",
    "WorkerInfo",
    "WorkerManager",
    "WorkerStats",
    "Workflow",
    "WorkflowHandle",
    "execute_workflow",
]
