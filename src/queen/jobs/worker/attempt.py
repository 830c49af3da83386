"""One attempt at a job: run the processor, then acknowledge, retry or dead-letter the job."""

import asyncio
import logging
from typing import Any, Final

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.consume.outcomes import DeadLetter, Retry
from queen.client.payloads import encode
from queen.jobs.envelope import child_of
from queen.jobs.job import ENVELOPES, Job
from queen.jobs.options import Backoff, delay_of
from queen.jobs.processor import Processor, Settings
from queen.jobs.registry import Registry
from queen.jobs.worker.executor import Executor
from queen.jobs.worker.failure_reports import describe_error, report_of
from queen.jobs.worker.leases import LeasedJob, LeaseKeeper
from queen.jobs.worker.settle import AckBatcher, is_fault_of_job
from queen.jobs.worker.stats import UNKNOWN, WorkerCounters, WorkerStats
from queen.wire.jobs import Envelope, Parent
from queen.wire.messages import Acknowledgment, PushItem
from queen.wire.transactions import AdvanceOperation, PushOperation
from queen.wire.workflows import WorkflowPlace

_LOG: Final = logging.getLogger("queen.jobs")
_NULL: Final = msgspec.Raw(b"null")
_UNKNOWN: Final = Settings(backoff=Backoff("fixed", delay="5s"))
"""For jobs without a processor: a newer release may have it."""
_DEFAULT_DELAY_SECONDS: Final = 1.0
_MAX_DELAY_SECONDS: Final = 30 * 86_400.0


class AttemptRunner:
    """Runs the jobs of one worker."""

    def __init__(
        self,
        registry: Registry,
        executor: Executor,
        leases: LeaseKeeper,
        acks: AckBatcher,
        stats: WorkerStats,
        counters: WorkerCounters,
    ) -> None:
        self._registry = registry
        self._executor = executor
        self._leases = leases
        self._acks = acks
        self._stats = stats
        self._counters = counters
        self.is_ending = False
        """If set, a cancelled runner ends instead of continuing with the next job."""

    async def run(self, leased: LeasedJob, runner: "asyncio.Task[None]") -> None:
        """Run one attempt of a job."""
        run = leased.run
        try:
            envelope = ENVELOPES.decode(run.data[leased.at])
        except errors.UndecodablePayload as error:
            await self._dead_letter(leased, f"the message is not a job: {error}")
            return
        queue, name = run.queue, envelope.name
        processor = self._registry.processor_of(queue, name)
        if processor is None:
            leased.counters = self._counters.of(queue, UNKNOWN)
            error = LookupError(f"no processor is registered for {name!r}")
            await self._fail(leased, envelope, _UNKNOWN, error)
            return
        leased.counters = counters = self._counters.of(queue, name)
        attempts = envelope.attempts or processor.settings.attempts
        if run.attempt > attempts:
            self._stats.stalled += 1
            why = f"stalled: its worker was lost in attempt {attempts} of {attempts}"
            await self._dead_letter(leased, why, envelope.workflow)
            return
        leased.job = job = Job(
            run, leased.at, envelope, processor.codec, attempts, self._registry.queen
        )
        leased.runner = runner
        counters.running += 1
        seconds = envelope.timeout_seconds or processor.settings.timeout_seconds
        try:
            if seconds is None and not tracing.is_on():
                result = await self._executor.run(processor, job)
                if not (leased.is_gone or self._complete_plain(leased, job, result)):
                    await self._complete(leased, processor, job, result)
                return
            await self._run_in_span(leased, processor, job, seconds)
        except asyncio.CancelledError as error:
            if leased.is_gone and not self.is_ending:
                return
            if not runner.cancelling():
                # A task that the processor awaited was cancelled, so the processor failed.
                await self._fail(leased, job.envelope, processor.settings, error)
                return
            job.withdraw()
            self.release(leased)
            raise
        except (Exception, SystemExit) as error:
            # `sys.exit` ends the job, not the worker.
            if not leased.is_gone:
                await self._fail(leased, job.envelope, processor.settings, error)
        finally:
            counters.running -= 1
            leased.runner = None
            while leased.is_gone and not self.is_ending and runner.cancelling():
                runner.uncancel()  # Only this job was cancelled, not its runner.

    async def _run_in_span(
        self,
        leased: LeasedJob,
        processor: Processor[Any, Any, Any],
        job: Job[Any],
        seconds: float | None,
    ) -> None:
        place = job.envelope.workflow
        with tracing.processing([job.message], job=job.name, workflow=place.id if place else None):
            async with asyncio.timeout(seconds):
                result = await self._executor.run(processor, job)
            if not (leased.is_gone or self._complete_plain(leased, job, result)):
                # Inside the span, so that its effects are in its trace.
                await self._complete(leased, processor, job, result)

    def _complete_plain(self, leased: LeasedJob, job: Job[Any], returned: object) -> bool:
        """Acknowledge a job without a result or effects. Returns False for other jobs."""
        if returned is not None or not job.is_plain:
            return False
        self._completed(leased)
        self._acks.complete(leased)
        return True

    async def _complete(
        self,
        leased: LeasedJob,
        processor: Processor[Any, Any, Any],
        job: Job[Any],
        returned: object,
    ) -> None:
        envelope, pushed = job.envelope, job.pushed()
        result = None if returned is None else encode(returned)
        acknowledgment = leased.message.done()
        place = envelope.workflow
        # The workflow keeps the result of its step.
        if result is not None and place is None:
            acknowledgment = msgspec.structs.replace(
                acknowledgment,
                transaction_id=job.id,
                result=result,
                result_seconds=envelope.result_seconds or processor.settings.result_seconds,
            )
        if not envelope.chain and not pushed and place is None:
            self._completed(leased)
            self._acks.add(leased, acknowledgment)
            return
        parent = Parent(queue=job.queue, id=job.id, name=job.name, result=result or _NULL)
        items = [*pushed, *(child_of(link, parent) for link in envelope.chain)]
        others: list[PushOperation | AdvanceOperation] = []
        if items:
            others.append(PushOperation(items=items))
        if place is not None:
            sent = bytes(result or _NULL)
            others.append(place.advance("success", result=sent, attempt=leased.run.attempt))
        try:
            # A queue created by a push is ordered, and workers could not read it.
            await self._registry.configure(job.followed_in())
            await self._acks.commit(leased, acknowledgment, others)
        except (errors.LeaseLost, errors.AlreadySettled):
            self._stats.lost += 1
            self._leases.remove(leased)
        except errors.QueenError as error:
            if is_fault_of_job(error):
                raise
            # Not the job's fault. If it is not acknowledged, it is redelivered after its lease.
            _LOG.warning("jobs.not_settled: %s: %s", leased.message, error)
            self._stats.lost += 1
            self._leases.remove(leased)
        else:
            self._completed(leased)

    def _completed(self, leased: LeasedJob) -> None:
        self._stats.completed += 1
        if leased.counters is not None:
            leased.counters.completed += 1

    def _retried(self, leased: LeasedJob) -> None:
        self._stats.retried += 1
        if leased.counters is not None:
            leased.counters.retried += 1

    async def _fail(
        self, leased: LeasedJob, envelope: Envelope, settings: Settings, error: BaseException
    ) -> None:
        """Retry the job after its backoff, or dead-letter it."""
        attempt = leased.run.attempt
        if isinstance(error, Retry):
            self._retried(leased)
            self._ack(leased, "retry", error=str(error) or None, delay_seconds=error.delay)
            return
        is_hopeless = isinstance(error, DeadLetter | errors.UndecodablePayload)
        if is_hopeless or attempt >= (envelope.attempts or settings.attempts):
            await self._dead_letter(leased, describe_error(error), envelope.workflow)
            return
        self._retried(leased)
        delay = _delay(envelope, settings, attempt)
        self._ack(leased, "failed", error=describe_error(error), delay_seconds=delay)

    async def _dead_letter(
        self, leased: LeasedJob, why: str, place: WorkflowPlace | None = None
    ) -> None:
        self._stats.failed += 1
        if leased.counters is not None:
            leased.counters.failed += 1
        _LOG.error("jobs.failed: %s: %s", leased.message, why.partition("\n")[0])
        others: list[PushOperation | AdvanceOperation] = []
        if place is not None:
            # The dead letter has the stack trace. The workflow gets only the last line.
            error = why.strip().rpartition("\n")[2]
            others.append(place.advance("failure", error=error, attempt=leased.run.attempt))
        report = report_of(self._registry, leased.message, why)
        if report is None and not others:
            self._ack(leased, "dlq", error=why)
            return
        acknowledgment = msgspec.structs.replace(leased.message.done(), status="dlq", error=why)
        try:
            if report is not None:
                await self._dead_letter_with_report(leased, acknowledgment, others, report)
            else:
                await self._acks.commit(leased, acknowledgment, others)
        except errors.QueenError as problem:
            # It is redelivered after its lease, and dead-lettered then.
            _LOG.warning("jobs.not_settled: %s: %s", leased.message, problem)
            self._leases.remove(leased)

    async def _dead_letter_with_report(
        self,
        leased: LeasedJob,
        acknowledgment: Acknowledgment,
        others: "list[PushOperation | AdvanceOperation]",
        report: PushItem,
    ) -> None:
        """Dead-letter a job and push its report in one transaction, or only dead-letter it."""
        try:
            await self._registry.configure((report.queue,))
            await self._acks.commit(
                leased, acknowledgment, [*others, PushOperation(items=[report])]
            )
        except (errors.LeaseLost, errors.AlreadySettled):
            raise
        except errors.RequestError as problem:
            # Such as a full queue, or a queue that this worker may not push to.
            _LOG.warning("jobs.not_reported: %s: %s", leased.message, problem)
            await self._acks.commit(leased, acknowledgment, others)

    def release(self, leased: LeasedJob) -> None:
        """Return the job to its queue, without counting an attempt."""
        self._ack(leased, "retry")

    def _ack(
        self,
        leased: LeasedJob,
        status: str,
        *,
        error: str | None = None,
        delay_seconds: float | None = None,
    ) -> None:
        done: Acknowledgment = leased.message.done()
        self._acks.add(
            leased,
            msgspec.structs.replace(done, status=status, error=error, delay_seconds=delay_seconds),
        )


def _delay(envelope: Envelope, settings: Settings, attempt: int) -> float:
    """Return the seconds before the next attempt. The application's backoff function may fail."""
    if envelope.backoff is not None:
        return min(delay_of(envelope.backoff, attempt), _MAX_DELAY_SECONDS)
    try:
        return min(max(float(settings.backoff(attempt)), 0.0), _MAX_DELAY_SECONDS)
    except Exception:
        _LOG.exception("jobs.backoff_failed: after attempt %d", attempt)
        return _DEFAULT_DELAY_SECONDS
