"""One attempt at a job: the processor is run, and what came of it is said."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.consume.outcomes import DeadLetter, Retry
from queen.client.payloads import encode
from queen.jobs.envelope import child_of
from queen.jobs.job import ENVELOPES, Job
from queen.jobs.options import Backoff, delay_of
from queen.jobs.processor import Processor, Settings
from queen.jobs.worker.executor import Running, told
from queen.jobs.worker.failures import report_of
from queen.jobs.worker.leases import Held, Holding
from queen.jobs.worker.settle import Settling, is_fault_of_job
from queen.jobs.worker.stats import UNKNOWN, Tallies
from queen.wire.jobs import Envelope, Parent
from queen.wire.messages import Acknowledgment, AdvanceOperation, PushItem, PushOperation
from queen.wire.workflows import WorkflowPlace

if TYPE_CHECKING:
    from queen.jobs.app import QueueManager

_LOG: Final = logging.getLogger("queen.jobs")
_NULL: Final = msgspec.Raw(b"null")
_UNKNOWN: Final = Settings(backoff=Backoff("fixed", delay="5s"))
"""Of jobs whose processor is not here: a release that has it may be on its way."""
_SOME_SECONDS: Final = 1.0
_MOST_SECONDS: Final = 30 * 86_400.0


class WorkerStats(msgspec.Struct):
    """What a worker has done since it was made."""

    completed: int = 0
    failed: int = 0
    """Given up: dead letters."""
    retried: int = 0
    """Attempts that failed and are followed by another."""
    stalled: int = 0
    """Given up because too many workers were not heard of any more while they had them."""
    lost: int = 0
    """Taken away while they were here: the lease ran out."""
    cancelled: int = 0
    running: int = 0
    waiting: int = 0
    """Popped, and not begun."""


class Attempts:
    """What the runners of a worker do with a job."""

    def __init__(
        self,
        app: "QueueManager",
        running: Running,
        holding: Holding,
        settling: Settling,
        stats: WorkerStats,
        tallies: Tallies,
    ) -> None:
        self._app = app
        self._running = running
        self._holding = holding
        self._settling = settling
        self._stats = stats
        self._tallies = tallies
        self.is_ending = False
        """Runners are told to end, not to leave their job."""

    async def run(self, held: Held, runner: "asyncio.Task[None]") -> None:
        """One job, to the end of this attempt."""
        run = held.run
        try:
            envelope = ENVELOPES.decode(run.data[held.at])
        except errors.UndecodablePayload as error:
            await self._give_up(held, f"this is no job: {error}")
            return
        queue, name = run.queue, envelope.name
        processor = self._app.processor_of(queue, name)
        if processor is None:
            held.tally = self._tallies.of(queue, UNKNOWN)
            error = LookupError(f"no processor is registered for {name!r}")
            await self._fail(held, envelope, _UNKNOWN, error)
            return
        held.tally = tally = self._tallies.of(queue, name)
        attempts = envelope.attempts or processor.settings.attempts
        if run.attempt > attempts:
            self._stats.stalled += 1
            why = f"stalled: its worker was lost in attempt {attempts} of {attempts}"
            await self._give_up(held, why, envelope.workflow)
            return
        held.job = job = Job(run, held.at, envelope, processor.codec, attempts, self._app)
        held.runner = runner
        tally.running += 1
        seconds = envelope.timeout_seconds or processor.settings.timeout_seconds
        try:
            if seconds is None and not tracing.is_on():
                result = await self._running.run(processor, job)
                if not (held.is_gone or self._ends_plainly(held, job, result)):
                    await self._complete(held, processor, job, result)
                return
            place = envelope.workflow
            with tracing.processing(
                [job.message], job=job.name, workflow=place.id if place else None
            ):
                async with asyncio.timeout(seconds):
                    result = await self._running.run(processor, job)
                if not (held.is_gone or self._ends_plainly(held, job, result)):
                    # Inside: what follows from it is in its trace.
                    await self._complete(held, processor, job, result)
        except asyncio.CancelledError as error:
            if held.is_gone and not self.is_ending:
                return
            if not runner.cancelling():
                # Something that the processor awaited was cancelled: that is its failure.
                await self._fail(held, job.envelope, processor.settings, error)
                return
            job.withdraw()
            self.give_back(held)
            raise
        except (Exception, SystemExit) as error:
            # Who calls `sys.exit` ends a job, not the worker with all that it has.
            if not held.is_gone:
                await self._fail(held, job.envelope, processor.settings, error)
        finally:
            tally.running -= 1
            held.runner = None
            while held.is_gone and not self.is_ending and runner.cancelling():
                runner.uncancel()  # It was told to leave this job, not to end.

    def _ends_plainly(self, held: Held, job: Job[Any], returned: object) -> bool:
        """Say that it is done, if that is all there is to say."""
        if returned is not None or not job.is_plain:
            return False
        self._completed(held)
        self._settling.say_done(held)
        return True

    async def _complete(
        self,
        held: Held,
        processor: Processor[Any, Any, Any],
        job: Job[Any],
        returned: object,
    ) -> None:
        envelope, pushed = job.envelope, job.pushed()
        result = None if returned is None else encode(returned)
        acknowledgment = held.message.done()
        place = envelope.workflow
        # The result of a step is the workflow's to keep.
        if result is not None and place is None:
            acknowledgment = msgspec.structs.replace(
                acknowledgment,
                transaction_id=job.id,
                result=result,
                result_seconds=envelope.result_seconds or processor.settings.result_seconds,
            )
        if not envelope.chain and not pushed and place is None:
            self._completed(held)
            self._settling.say(held, acknowledgment)
            return
        parent = Parent(queue=job.queue, id=job.id, name=job.name, result=result or _NULL)
        items = [*pushed, *(child_of(link, parent) for link in envelope.chain)]
        others: list[PushOperation | AdvanceOperation] = []
        if items:
            others.append(PushOperation(items=items))
        if place is not None:
            sent = bytes(result or _NULL)
            others.append(place.advance("success", result=sent, attempt=held.run.attempt))
        try:
            # A queue that a push makes is in order, and no worker could have it.
            await self._app.configure(job.followed_in())
            await self._settling.commit(held, acknowledgment, others)
        except (errors.LeaseLost, errors.AlreadySettled):
            self._stats.lost += 1
            self._holding.let_go(held)
        except errors.QueenError as error:
            if is_fault_of_job(error):
                raise
            # No fault of its own: unless it is settled, it comes again when its lease is over.
            _LOG.warning("jobs.not_settled: %s: %s", held.message, error)
            self._stats.lost += 1
            self._holding.let_go(held)
        else:
            self._completed(held)

    def _completed(self, held: Held) -> None:
        self._stats.completed += 1
        if held.tally is not None:
            held.tally.completed += 1

    def _retried(self, held: Held) -> None:
        self._stats.retried += 1
        if held.tally is not None:
            held.tally.retried += 1

    async def _fail(
        self, held: Held, envelope: Envelope, settings: Settings, error: BaseException
    ) -> None:
        """Another attempt after its backoff, or none."""
        attempt = held.run.attempt
        if isinstance(error, Retry):
            self._retried(held)
            self._say(held, "retry", error=str(error) or None, delay_seconds=error.delay)
            return
        is_hopeless = isinstance(error, DeadLetter | errors.UndecodablePayload)
        if is_hopeless or attempt >= (envelope.attempts or settings.attempts):
            await self._give_up(held, told(error), envelope.workflow)
            return
        self._retried(held)
        delay = _delay(envelope, settings, attempt)
        self._say(held, "failed", error=told(error), delay_seconds=delay)

    async def _give_up(self, held: Held, why: str, place: WorkflowPlace | None = None) -> None:
        self._stats.failed += 1
        if held.tally is not None:
            held.tally.failed += 1
        _LOG.error("jobs.failed: %s: %s", held.message, why.partition("\n")[0])
        others: list[PushOperation | AdvanceOperation] = []
        if place is not None:
            # The stack is the dead letter's; the workflow tells what happened.
            error = why.strip().rpartition("\n")[2]
            others.append(place.advance("failure", error=error, attempt=held.run.attempt))
        report = report_of(self._app, held.message, why)
        if report is None and not others:
            self._say(held, "dlq", error=why)
            return
        buried = msgspec.structs.replace(held.message.done(), status="dlq", error=why)
        try:
            if report is not None:
                await self._bury(held, buried, others, report)
            else:
                await self._settling.commit(held, buried, others)
        except errors.QueenError as problem:
            # It comes again when its lease is over, and is given up then.
            _LOG.warning("jobs.not_settled: %s: %s", held.message, problem)
            self._holding.let_go(held)

    async def _bury(
        self,
        held: Held,
        buried: Acknowledgment,
        others: "list[PushOperation | AdvanceOperation]",
        report: PushItem,
    ) -> None:
        """Make a dead letter and its report in one transaction; at least the dead letter."""
        try:
            await self._app.configure((report.queue,))
            await self._settling.commit(held, buried, [*others, PushOperation(items=[report])])
        except (errors.LeaseLost, errors.AlreadySettled):
            raise
        except errors.RequestError as problem:
            # Such as a queue that is full, or that this worker may not push to.
            _LOG.warning("jobs.not_reported: %s: %s", held.message, problem)
            await self._settling.commit(held, buried, others)

    def give_back(self, held: Held) -> None:
        """It comes again at once, and no attempt is counted."""
        self._say(held, "retry")

    def _say(
        self,
        held: Held,
        status: str,
        *,
        error: str | None = None,
        delay_seconds: float | None = None,
    ) -> None:
        done: Acknowledgment = held.message.done()
        self._settling.say(
            held,
            msgspec.structs.replace(done, status=status, error=error, delay_seconds=delay_seconds),
        )


def _delay(envelope: Envelope, settings: Settings, attempt: int) -> float:
    """Seconds before the next attempt; a function of the application's may be wrong itself."""
    if envelope.backoff is not None:
        return min(delay_of(envelope.backoff, attempt), _MOST_SECONDS)
    try:
        return min(max(float(settings.backoff(attempt)), 0.0), _MOST_SECONDS)
    except Exception:
        _LOG.exception("jobs.backoff_failed: after attempt %d", attempt)
        return _SOME_SECONDS
