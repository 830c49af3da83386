"""`QueueManager`: queues, their processors, jobs that are added, workers that run them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

import msgspec

from queen import errors
from queen.client.durations import KEPT_SECONDS, Duration, seconds_of
from queen.client.payloads import Codec
from queen.jobs.api import JobCalls
from queen.jobs.envelope import child_of, item_of
from queen.jobs.handle import JobHandle, handle_of
from queen.jobs.options import BackoffRule, JobOptions, JobPriority, Rate
from queen.jobs.processor import DEFAULT_ATTEMPTS, Decorator, Processor, Settings
from queen.jobs.schedules import QUEUE as CRON, Missed, Recurring, cron_of
from queen.jobs.workflows.definition import Workflow, execute_workflow
from queen.jobs.workflows.runs import WorkflowCalls, WorkflowHandle
from queen.wire.jobs import QUEUE, CleanRequest, JobInfo, Link, QueueMetrics, WorkerInfo
from queen.wire.messages import PushItem
from queen.wire.options import QueueOptions
from queen.wire.workflow_plan import plan_of
from queen.wire.workflows import WorkflowInfo

if TYPE_CHECKING:
    from queen.client.client import Queen
    from queen.client.queue import Queue
    from queen.jobs.worker.worker import Worker

_LOG: Final = logging.getLogger("queen.jobs")
_OPTIONS: Final[Mapping[str, Any]] = msgspec.to_builtins(QUEUE)

Bulk = Mapping[str, Any] | Link
"""A job of `add_bulk`: ``{"name", "data", "options"}``, or what ``processor.s(…)`` made."""


class QueueManager:
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
        self.queen = queen
        self.calls = JobCalls(queen)
        self.processors: dict[tuple[str, str | None], Processor[Any, Any, Any]] = {}
        self._queues: dict[str, dict[str, Any]] = {}
        self._defaults: dict[str, JobOptions] = {}
        self._configured: dict[str, asyncio.Task[None]] = {}
        self._in_force: dict[str, QueueOptions] = {}
        self._recurring: list[Recurring] = []
        self._workers: list[tuple[Worker, asyncio.Task[None]]] = []

    # Queues and processors.

    def register_queue(
        self,
        name: str,
        *,
        rate_limit: Rate | Mapping[str, Any] | None = None,
        concurrency_limit: int | None = None,
        default_job_options: JobOptions | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> "Queue[Any]":
        """
        Say what a queue is like; the server hears of it before the first job or worker does.

        ``concurrency_limit``: jobs that run at once in all workers together. ``options``: those of
        the queue besides, as `queue.config` takes them.
        """
        given = dict(options or {})
        if rate_limit is not None:
            given["rateLimit"] = Rate.of(rate_limit).option()
        if concurrency_limit is not None:
            given["concurrencyLimit"] = concurrency_limit
        self._queues[name] = {**_OPTIONS, **given}
        if default_job_options is not None:
            item_of(name, "check", None, default_job_options)  # Raises if no job can have them.
            self._defaults[name] = default_job_options
        self._configured.pop(name, None)
        return self.queen.queue(name)

    def register_processor(
        self,
        queue: str,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        attempts: int = DEFAULT_ATTEMPTS,
        backoff: BackoffRule | Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        result_ttl: Duration | None = None,
        process: bool = False,
    ) -> Processor[Any, Any, Any]:
        """
        A function for the jobs of a name; without ``name`` for all that have none of their own.

        It may be a coroutine function, or a plain one: that runs in a thread, or with ``process``
        in a process of its own. The queue ``dead-letter-queue`` is reserved: it gets a job for each
        job that fails for good in a worker of this application.
        """
        settings = Settings.of(
            attempts=attempts,
            backoff=backoff,
            timeout=timeout,
            result_ttl=result_ttl,
            process=process,
        )
        if (queue, name) in self.processors:
            raise errors.BadRequest(f"jobs {name or '*'} of {queue} have a processor already")
        made = Processor[Any, Any, Any](self, queue, name, function, settings)
        self.processors[queue, name] = made
        return made

    def processor(
        self,
        queue: str,
        *,
        name: str | None = None,
        attempts: int = DEFAULT_ATTEMPTS,
        backoff: BackoffRule | Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        result_ttl: Duration | None = None,
        process: bool = False,
    ) -> Decorator:
        """The same as a decorator: its jobs have the function's name if they are given none."""

        def make(function: Callable[..., Any]) -> Processor[Any, Any, Any]:
            return self.register_processor(
                queue,
                function,
                name=name or function.__name__,
                attempts=attempts,
                backoff=backoff,
                timeout=timeout,
                result_ttl=result_ttl,
                process=process,
            )

        return Decorator(make)

    def cron(
        self,
        expression: str,
        *,
        queue: str = CRON,
        name: str | None = None,
        tz: str = "UTC",
        missed: Missed = "once",
        data: object = None,
        priority: JobPriority = JobPriority.NORMAL,
        **running: Any,  # noqa: ANN401 - those of `processor`
    ) -> Decorator:
        """
        A processor whose job the server adds at each tick of a cron expression.

        The first worker that starts makes the schedule; ``running`` is what `processor` takes.
        """

        def make(function: Callable[..., Any]) -> Processor[Any, Any, Any]:
            own = name or function.__name__
            made = self.register_processor(queue, function, name=own, **running)
            self._recurring.append(Recurring(made, expression, tz, missed, data, priority))
            return made

        return Decorator(make)

    def every(self, interval: Duration, **options: Any) -> Decorator:  # noqa: ANN401 - of `cron`
        """The same after each interval: ``"30s"``, ``"15m"``, ``"6h"``."""
        return self.cron(cron_of(interval), **options)

    async def put_schedules(self, queues: Iterable[str]) -> None:
        """Make the schedules of these queues; who may not leaves it to those who may."""
        wanted = set(queues)
        for each in self._recurring:
            if each.processor.queue in wanted:
                try:
                    await each.put(self.queen)
                except errors.Forbidden as error:
                    _LOG.warning(
                        "jobs.schedule_left: %s is for others to make: %s", each.name, error
                    )

    def processor_of(self, queue: str, name: str) -> Processor[Any, Any, Any] | None:
        """Who runs jobs of this name."""
        return self.processors.get((queue, name)) or self.processors.get((queue, None))

    @property
    def queues(self) -> list[str]:
        """Queues that have processors."""
        return list(dict.fromkeys(queue for queue, _ in self.processors))

    def options_of(self, queue: str) -> Mapping[str, Any]:
        """What the server is told of a queue."""
        return self._queues.get(queue, _OPTIONS)

    def is_encrypted(self, queue: str) -> bool | None:
        """Whether the server encrypts its payloads; None if this application may not know."""
        found = self._in_force.get(queue)
        return None if found is None else found.encryption_enabled is True

    def limits_of(self, queue: str) -> tuple[bool, bool]:
        """Whether jobs that run at once are limited, and how many a period: by whoever said so."""
        if (found := self._in_force.get(queue)) is not None:
            return bool(found.concurrency_limit), bool(found.rate_limit)
        options = self.options_of(queue)
        return bool(options.get("concurrencyLimit")), bool(options.get("rateLimit"))

    async def configure(self, queues: Iterable[str]) -> None:
        """Tell the server of these queues, once; who may not leaves it to those who may."""
        for queue in queues:
            task = self._configured.get(queue)
            if task is None or (task.done() and (task.cancelled() or task.exception())):
                task = self._configured[queue] = asyncio.create_task(self._configure(queue))
            if not task.done():
                await asyncio.shield(task)

    async def _configure(self, queue: str) -> None:
        try:
            if queue not in self._queues:
                await self._refuse_order(queue)
            found = await self.queen.queue(queue).config(self.options_of(queue)).create()
            self._in_force[queue] = found.options
        except errors.Forbidden:
            return

    async def _refuse_order(self, queue: str) -> None:
        """A queue that nobody registered is not changed behind the back of those who read it."""
        try:
            found = await self.queen.admin.queue(queue)
        except errors.QueueNotFound:
            return
        if found.ordered:
            raise errors.InvalidItem(
                f"queue {queue} hands messages out in order; register_queue makes it one of jobs"
            )

    # Jobs.

    async def add_job(
        self,
        queue: str,
        name: str,
        data: object = None,
        *,
        codec: "Codec[Any] | None" = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Any]:
        """Add a job; it is stored, durably, before this returns."""
        await self.configure((queue,))
        given: JobOptions = {**self._defaults.get(queue, {}), **options}
        item = item_of(queue, name, data, given)
        (pushed,) = await self.queen.push([item])
        return handle_of(self.calls, queue, pushed, given.get("key"), codec)

    async def add_bulk(self, queue: str, jobs: Sequence[Bulk]) -> list[JobHandle[Any]]:
        """
        Add many jobs, in few requests of 5,000, each stored whole or not at all.

        Raises PushError when some of them are not stored.
        """
        await self.configure((queue,))
        defaults = self._defaults.get(queue)
        items = [self._bulk_item(queue, job, defaults) for job in jobs]
        pushed = await self.queen.push(items) if items else []
        return [
            handle_of(self.calls, item.queue, each, item.partition, None)
            for item, each in zip(items, pushed, strict=True)
        ]

    def _bulk_item(self, queue: str, job: Bulk, defaults: JobOptions | None) -> PushItem:
        if isinstance(job, Link):
            return child_of(job, None)
        options: Mapping[str, Any] | None = job.get("options")
        if defaults:
            options = {**defaults, **(options or {})}
        return item_of(queue, job["name"], job.get("data"), options)

    def job(self, queue: str, id_: str, *, key: str | None = None) -> JobHandle[Any]:
        """The handle of a job that was added elsewhere."""
        return JobHandle(self.calls, queue, id_, key=key)

    def list_jobs(self, queue: str, **filters: Any) -> AsyncIterator[JobInfo]:  # noqa: ANN401
        """Jobs of a queue, newest first, by ``status``, ``name``, ``tag``, ``key``."""
        return self.calls.jobs(queue, **filters)

    # Workflows.

    async def execute_workflow(self, workflow: Workflow | Mapping[str, Any]) -> WorkflowHandle:
        """Check a workflow and start it; the queues of its steps are made if they are missing."""
        given = workflow if isinstance(workflow, Workflow) else Workflow(**workflow)
        await self.configure(sorted(plan_of(given.request()).queues))
        return await execute_workflow(self.queen, given)

    def workflow(self, id_: str) -> WorkflowHandle:
        """The handle of a workflow that was started elsewhere."""
        return WorkflowHandle(self.queen, id_)

    def list_workflows(self, **filters: Any) -> AsyncIterator[WorkflowInfo]:  # noqa: ANN401
        """Workflows, newest first, by ``state``, ``name``, ``correlation_id``, ``tag``."""
        return WorkflowCalls(self.queen).all(**filters)

    # Figures and operations.

    async def get_queue_metrics(self, queue: str) -> QueueMetrics:
        """What there is to do in a queue, and what was done in the last hour."""
        (metrics,) = await self.calls.metrics(queue)
        return metrics

    async def get_all_metrics(self) -> list[QueueMetrics]:
        """The same of every queue that has jobs."""
        return await self.calls.metrics()

    async def get_workers(self) -> list[WorkerInfo]:
        """Workers that the host of the server heard of in the last seconds, of any application."""
        return await self.calls.workers()

    async def pause_queue(self, queue: str) -> None:
        """No job of it is handed out until `resume_queue`; jobs may be added."""
        await self.queen.admin.pause(queue)

    async def resume_queue(self, queue: str) -> None:
        await self.queen.admin.resume(queue)

    async def clean_queue(
        self,
        queue: str,
        *,
        grace: Duration = "24h",
        status: Literal["completed", "failed"] = "completed",
    ) -> int:
        """Remove jobs that were completed, or failed, so long ago; how many."""
        seconds = int(seconds_of(grace, "grace", most=KEPT_SECONDS))
        request = CleanRequest(queue=queue, status=status, grace_seconds=seconds)
        operation = await self.queen.admin.finished(await self.calls.clean(request))
        return operation.done

    # Workers.

    async def start_workers(
        self,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        shutdown_timeout: Duration = "30s",
    ) -> "Worker":
        """
        Run jobs in this process, of all queues that have processors if none is named.

        ``concurrency``: jobs of each queue at once; WORKER_CONCURRENCY, or 10, if not given.
        """
        from queen.jobs.worker.worker import Worker

        worker = Worker(
            self, queues=queues, concurrency=concurrency, shutdown_timeout=shutdown_timeout
        )
        await worker.ready()
        task = asyncio.create_task(worker.run())
        task.add_done_callback(_told)
        self._workers.append((worker, task))
        return worker

    async def shutdown(self) -> None:
        """Stop the workers of this process: what runs is finished, the rest goes back."""
        workers, self._workers = self._workers, []
        await asyncio.gather(*(worker.drain() for worker, _ in workers))
        for _, task in workers:
            await task


def _told(work: "asyncio.Task[None]") -> None:
    """Say at once that a worker has ended: the application goes on, and would know at its end."""
    if not work.cancelled() and (error := work.exception()) is not None:
        _LOG.error("jobs.worker_failed: %s", error, exc_info=error)
