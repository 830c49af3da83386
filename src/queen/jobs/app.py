"""`QueueManager`: the jobs of an application, their metrics and the workers that run them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from queen.client.durations import KEPT_SECONDS, Duration, seconds_of
from queen.client.runner import log_failure
from queen.jobs.handle import JobHandle
from queen.jobs.registry import Registry
from queen.jobs.worker.worker import Worker
from queen.jobs.workflows.api import WorkflowCalls
from queen.jobs.workflows.definition import Workflow, execute_workflow
from queen.jobs.workflows.handle import WorkflowHandle
from queen.wire.job_queues import CleanRequest, QueueMetrics, WorkerInfo
from queen.wire.jobs import JobInfo
from queen.wire.workflow_plan import plan_of
from queen.wire.workflows import WorkflowInfo

if TYPE_CHECKING:
    from queen.client.client import Queen

_LOG: Final = logging.getLogger("queen.jobs")


class QueueManager(Registry):
    """
    The jobs of an application.

    Usage::

        jobs = QueueManager(Queen("http://localhost:6632"))

        @jobs.processor("email", attempts=5)
        async def send_welcome(job: Job[Welcome]) -> None: ...

        await send_welcome.add(Welcome(to="a@b.c"))
        await jobs.start_workers()
    """

    def __init__(self, queen: "Queen") -> None:
        super().__init__(queen)
        self._workers: list[tuple[Worker, asyncio.Task[None]]] = []

    # Jobs.

    def job(self, queue: str, id_: str, *, key: str | None = None) -> JobHandle[Any]:
        """Return the handle of a job that was added elsewhere."""
        return JobHandle(self.calls, queue, id_, key=key)

    def list_jobs(self, queue: str, **filters: Any) -> AsyncIterator[JobInfo]:  # noqa: ANN401
        """List the jobs of a queue, newest first, by ``status``, ``name``, ``tag``, ``key``."""
        return self.calls.jobs(queue, **filters)

    # Workflows.

    async def execute_workflow(self, workflow: Workflow | Mapping[str, Any]) -> WorkflowHandle:
        """Check a workflow, create the missing queues of its steps, and start it."""
        given = workflow if isinstance(workflow, Workflow) else Workflow(**workflow)
        await self.configure(sorted(plan_of(given.request()).queues))
        return await execute_workflow(self.queen, given)

    def workflow(self, id_: str) -> WorkflowHandle:
        """Return the handle of a workflow that was started elsewhere."""
        return WorkflowHandle(self.queen, id_)

    def list_workflows(self, **filters: Any) -> AsyncIterator[WorkflowInfo]:  # noqa: ANN401
        """List workflows, newest first, by ``state``, ``name``, ``correlation_id``, ``tag``."""
        return WorkflowCalls(self.queen).all(**filters)

    # Metrics and operations.

    async def get_queue_metrics(self, queue: str) -> QueueMetrics:
        """Return the backlog of a queue and its counts of the last hour."""
        (metrics,) = await self.calls.metrics(queue)
        return metrics

    async def get_all_metrics(self) -> list[QueueMetrics]:
        """Return the metrics of every queue that has jobs."""
        return await self.calls.metrics()

    async def get_workers(self) -> list[WorkerInfo]:
        """List workers of all applications that reported to the server's host recently."""
        return await self.calls.workers()

    async def pause_queue(self, queue: str) -> None:
        """Stop delivering jobs of a queue until `resume_queue`. Jobs can still be added."""
        await self.queen.admin.pause(queue)

    async def resume_queue(self, queue: str) -> None:
        """Deliver jobs of a paused queue again."""
        await self.queen.admin.resume(queue)

    async def clean_queue(
        self,
        queue: str,
        *,
        grace: Duration = "24h",
        status: Literal["completed", "failed"] = "completed",
        force: bool = False,
    ) -> int:
        """
        Delete jobs that completed or failed longer than ``grace`` ago. Returns the count.

        ``force``: also those that an archive has not copied yet.
        """
        seconds = int(seconds_of(grace, "grace", most=KEPT_SECONDS))
        request = CleanRequest(queue=queue, status=status, grace_seconds=seconds, force=force)
        operation = await self.queen.admin.finished(await self.calls.clean(request))
        return operation.done

    # Workers.

    async def start_workers(
        self,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        shutdown_timeout: Duration = "30s",
    ) -> Worker:
        """
        Run jobs in this process. Default: of all queues that have processors.

        ``concurrency``: concurrent jobs per queue. Default: WORKER_CONCURRENCY, or 10.
        """
        worker = Worker(
            self, queues=queues, concurrency=concurrency, shutdown_timeout=shutdown_timeout
        )
        await worker.ready()
        task = asyncio.create_task(worker.run())
        task.add_done_callback(partial(log_failure, _LOG, "jobs.worker_failed"))
        self._workers.append((worker, task))
        return worker

    async def shutdown(self) -> None:
        """Stop the workers of this process. Running jobs finish, the others are released."""
        workers, self._workers = self._workers, []
        await asyncio.gather(*(worker.drain() for worker, _ in workers))
        for _, task in workers:
            await task
