"""The queues and processors of an application, and how jobs are added to them."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from queen import errors
from queen.client.durations import Duration
from queen.client.payloads import Codec
from queen.jobs.api import JobCalls
from queen.jobs.envelope import child_of, item_of
from queen.jobs.handle import JobHandle, handle_of
from queen.jobs.options import JobOptions, JobPriority, ProcessorOptions, Rate
from queen.jobs.processor import Decorator, Processor, Settings
from queen.jobs.schedules import QUEUE as CRON, Missed, Recurring, cron_of
from queen.wire.jobs import QUEUE, Link
from queen.wire.messages import PushItem
from queen.wire.options import QueueOptions

if TYPE_CHECKING:
    from queen.client.client import Queen
    from queen.client.queue import Queue

_LOG: Final = logging.getLogger("queen.jobs")
_OPTIONS: Final[Mapping[str, Any]] = msgspec.to_builtins(QUEUE)

Bulk = Mapping[str, Any] | Link
"""A job of `add_bulk`: ``{"name", "data", "options"}``, or the result of ``processor.s(…)``."""


class Registry:
    """Queues with their processors and schedules. Adds jobs to them."""

    def __init__(self, queen: "Queen") -> None:
        self.queen = queen
        """The client."""
        self.calls = JobCalls(queen)
        """The requests of jobs."""
        self.processors: dict[tuple[str, str | None], Processor[Any, Any, Any]] = {}
        """The processors, by queue and job name."""
        self._queues: dict[str, dict[str, Any]] = {}
        self._defaults: dict[str, JobOptions] = {}
        self._configured: dict[str, asyncio.Task[None]] = {}
        self._in_force: dict[str, QueueOptions] = {}
        self._recurring: list[Recurring] = []

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
        Set the options of a queue. They are sent to the server before the first job or worker.

        ``concurrency_limit``: concurrent jobs in all workers together. ``options``: other options
        of the queue, as `queue.config` accepts them.
        """
        given = dict(options or {})
        if rate_limit is not None:
            given["rateLimit"] = Rate.of(rate_limit).option()
        if concurrency_limit is not None:
            given["concurrencyLimit"] = concurrency_limit
        self._queues[name] = {**_OPTIONS, **given}
        if default_job_options is not None:
            item_of(name, "check", None, default_job_options)  # Raises for invalid options.
            self._defaults[name] = default_job_options
        self._configured.pop(name, None)
        return self.queen.queue(name)

    def register_processor(
        self,
        queue: str,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        **options: Unpack[ProcessorOptions],
    ) -> Processor[Any, Any, Any]:
        """
        Register a function for the jobs of a name, or for all names without a processor.

        A plain function runs in a thread, or with ``process`` in its own process. The queue
        ``dead-letter-queue`` is reserved: it gets a job for each job that a worker of this
        application dead-letters.
        """
        settings = Settings.of(**options)
        if (queue, name) in self.processors:
            raise errors.BadRequest(f"jobs {name or '*'} of {queue} already have a processor")
        processor = Processor[Any, Any, Any](self.add_job, queue, name, function, settings)
        self.processors[queue, name] = processor
        return processor

    def processor(
        self, queue: str, *, name: str | None = None, **options: Unpack[ProcessorOptions]
    ) -> Decorator:
        """Register the decorated function. Its jobs have the function's name by default."""

        def register(function: Callable[..., Any]) -> Processor[Any, Any, Any]:
            own = name or function.__name__
            return self.register_processor(queue, function, name=own, **options)

        return Decorator(register)

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
        **options: Unpack[ProcessorOptions],
    ) -> Decorator:
        """
        Register the decorated function. The server adds its job at each tick of the expression.

        The first worker that starts creates the schedule.
        """

        def register(function: Callable[..., Any]) -> Processor[Any, Any, Any]:
            own = name or function.__name__
            processor = self.register_processor(queue, function, name=own, **options)
            self._recurring.append(Recurring(processor, expression, tz, missed, data, priority))
            return processor

        return Decorator(register)

    def every(self, interval: Duration, **options: Any) -> Decorator:  # noqa: ANN401 - of `cron`
        """Like `cron`, after each interval: ``"30s"``, ``"15m"``, ``"6h"``."""
        return self.cron(cron_of(interval), **options)

    async def put_schedules(self, queues: Iterable[str]) -> None:
        """Create the schedules of these queues, if this client has the permission."""
        wanted = set(queues)
        for each in self._recurring:
            if each.processor.queue in wanted:
                try:
                    await each.put(self.queen)
                except errors.Forbidden as error:
                    _LOG.warning(
                        "jobs.schedule_left: no permission to create %s: %s", each.name, error
                    )

    def processor_of(self, queue: str, name: str) -> Processor[Any, Any, Any] | None:
        """Return the processor for jobs of this name."""
        return self.processors.get((queue, name)) or self.processors.get((queue, None))

    @property
    def queues(self) -> list[str]:
        """Names of the queues that have processors."""
        return list(dict.fromkeys(queue for queue, _ in self.processors))

    def options_of(self, queue: str) -> Mapping[str, Any]:
        """Return the options of a queue for the server."""
        return self._queues.get(queue, _OPTIONS)

    def is_encrypted(self, queue: str) -> bool | None:
        """Whether the server encrypts its payloads. None without permission to read that."""
        found = self._in_force.get(queue)
        return None if found is None else found.encryption_enabled is True

    def limits_of(self, queue: str) -> tuple[bool, bool]:
        """Whether the queue has a concurrency limit, and whether it has a rate limit."""
        if (found := self._in_force.get(queue)) is not None:
            return bool(found.concurrency_limit), bool(found.rate_limit)
        options = self.options_of(queue)
        return bool(options.get("concurrencyLimit")), bool(options.get("rateLimit"))

    async def configure(self, queues: Iterable[str]) -> None:
        """Configure these queues once, if this client has the permission."""
        for queue in queues:
            task = self._configured.get(queue)
            if task is None or (task.done() and (task.cancelled() or task.exception())):
                task = self._configured[queue] = asyncio.create_task(self._configure(queue))
            if not task.done():
                await asyncio.shield(task)

    async def _configure(self, queue: str) -> None:
        try:
            if queue not in self._queues:
                await self._reject_ordered(queue)
            found = await self.queen.queue(queue).config(self.options_of(queue)).create()
            self._in_force[queue] = found.options
        except errors.Forbidden:
            return

    async def _reject_ordered(self, queue: str) -> None:
        """Raise if the queue exists, is ordered and not registered here: it has other consumers."""
        try:
            found = await self.queen.admin.queue(queue)
        except errors.QueueNotFound:
            return
        if found.ordered:
            raise errors.InvalidItem(
                f"queue {queue} delivers messages in order; make it a job queue with register_queue"
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
        """Add a job. The server has stored it when this returns."""
        await self.configure((queue,))
        given: JobOptions = {**self._defaults.get(queue, {}), **options}
        item = item_of(queue, name, data, given)
        (pushed,) = await self.queen.push([item])
        return handle_of(self.calls, queue, pushed, given.get("key"), codec)

    async def add_bulk(self, queue: str, jobs: Sequence[Bulk]) -> list[JobHandle[Any]]:
        """
        Add many jobs, in requests of up to 5,000, each of which is stored completely or not at all.

        Raises PushError if some of them are not stored.
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
