"""The jobs that a worker has leased, and the renewal of their leases."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from queen import errors
from queen.client.message import Message
from queen.jobs.api import JobCalls
from queen.jobs.job import ENVELOPES, Job
from queen.jobs.worker.stats import JobCounters, WorkerCounters
from queen.wire.job_queues import HeldJob, WorkerReport
from queen.wire.jobs import Envelope
from queen.wire.messages import MessageRun

_LOG: Final = logging.getLogger("queen.jobs")
_MAX_ITEMS: Final = 5_000
"""Leases, and jobs, per renewal."""


class LeasedJob(msgspec.Struct, eq=False, gc=False):
    """A leased job, from its pop until the server has its acknowledgment."""

    run: MessageRun
    at: int
    """Its index in the run."""
    job: Job[Any] | None = None
    counters: JobCounters | None = None
    """The counters of its name, once the name is decoded."""
    runner: "asyncio.Task[None] | None" = None
    """The task that runs it now."""
    is_lost: bool = False
    """Lost: another worker has it, or will get it."""
    is_cancelled: bool = False
    is_acked: bool = False
    """Its acknowledgment, which ends its lease, is on the way to the server."""

    @property
    def lease_id(self) -> str:
        return self.run.lease_id or ""

    @property
    def message(self) -> Message[Envelope]:
        """Its message, without a connection."""
        none: Any = None
        return Message(self.run, self.at, ENVELOPES, none)

    @property
    def is_gone(self) -> bool:
        return self.is_lost or self.is_cancelled

    def stop(self) -> None:
        """Cancel it: another worker has it, or a user cancelled it."""
        if self.job is not None:
            self.job.withdraw()
        if self.runner is not None:
            self.runner.cancel()


class _Lease(msgspec.Struct, eq=False):
    jobs: set[LeasedJob] = msgspec.field(default_factory=set[LeasedJob])
    count: int = 0
    """Jobs that were popped under it."""
    since: float = msgspec.field(default_factory=time.monotonic)


class LeaseKeeper:
    """Renews the leases of one worker."""

    def __init__(
        self,
        calls: JobCalls,
        *,
        lease_seconds: float,
        renew_seconds: float,
        on_gone: Callable[[LeasedJob], None],
        counters: WorkerCounters,
    ) -> None:
        self._calls = calls
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._on_gone = on_gone
        self._counters = counters
        self._leases: dict[str, _Lease] = {}

    def add(self, runs: Sequence[MessageRun]) -> list[LeasedJob]:
        """Start renewing the leases of these runs. Returns their jobs."""
        found: list[LeasedJob] = []
        for run in runs:
            jobs = [LeasedJob(run, at) for at in range(len(run.data))]
            lease = self._leases.get(run.lease_id or "")
            if lease is None:
                lease = self._leases[run.lease_id or ""] = _Lease()
            lease.jobs.update(jobs)
            lease.count += len(jobs)
            found += jobs
        return found

    def remove(self, leased: LeasedJob) -> None:
        """Remove a job whose acknowledgment the server has."""
        lease = self._leases.get(leased.lease_id)
        if lease is not None:
            lease.jobs.discard(leased)
            if not lease.jobs:
                del self._leases[leased.lease_id]

    def remove_lease(self, lease_id: str) -> None:
        """Remove a lease, because the server has the acknowledgments of all its jobs."""
        self._leases.pop(lease_id, None)

    def count(self, lease_id: str) -> int:
        """Return how many jobs were popped under a lease, or 0 if it has ended."""
        lease = self._leases.get(lease_id)
        return lease.count if lease else 0

    def by_lease(self, some: Sequence[LeasedJob]) -> dict[str | None, list[LeasedJob]]:
        """Group jobs by lease if they are all that is left of it, the others under None."""
        found: dict[str | None, list[LeasedJob]] = {}
        for leased in some:
            found.setdefault(leased.lease_id, []).append(leased)
        parts = [id_ for id_, each in found.items() if len(each) < len(self._jobs_of(id_))]
        rest = [leased for id_ in parts for leased in found.pop(id_)]
        return {**found, None: rest} if rest else found

    def _jobs_of(self, lease_id: str | None) -> set[LeasedJob]:
        lease = self._leases.get(lease_id or "")
        return lease.jobs if lease else set()

    async def renew_forever(self) -> None:
        """Renew all leases together, well before the first one expires."""
        while True:
            await asyncio.sleep(self._renew_seconds)
            try:
                async with asyncio.timeout(self._lease_seconds):
                    await self._renew()
            except (errors.QueenError, TimeoutError) as error:
                # Retried soon: the leases are valid until they end.
                _LOG.warning("jobs.renewal_failed: %s", error or "timeout")

    async def _renew(self) -> None:
        before = time.monotonic() - self._renew_seconds / 2
        leases = {id_: each for id_, each in self._leases.items() if each.since <= before}
        report = self._counters.report()
        if not leases and report is None:
            return
        jobs = [
            leased
            for lease in leases.values()
            for leased in lease.jobs
            if not (leased.is_gone or leased.is_acked)
        ]
        ids = list(leases)
        firsts = range(0, max(len(ids), len(jobs), 1), _MAX_ITEMS)
        parts = [slice(first, first + _MAX_ITEMS) for first in firsts]
        calls = [
            self._renew_part(ids[part], jobs[part], None if part.start else report)
            for part in parts
        ]
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _renew_part(
        self, lease_ids: list[str], jobs: list[LeasedJob], report: WorkerReport | None
    ) -> None:
        """Renew in one call, or in two halves if the server accepts fewer jobs per call."""
        try:
            answer = await self._calls.renew(
                lease_ids,
                self._lease_seconds,
                [HeldJob(id=h.message.transaction_id, message_id=h.message.id) for h in jobs],
                report,
            )
        except (errors.TooManyItems, errors.BodyTooLarge):
            half = max(len(lease_ids), len(jobs)) // 2
            if not half:
                raise
            await self._renew_part(lease_ids[:half], jobs[:half], report)
            await self._renew_part(lease_ids[half:], jobs[half:], None)
            return
        if report is not None:
            self._counters.confirm()
        for number in answer.cancelled:
            jobs[number].is_cancelled = True
            self._stop(jobs[number])
        for result in answer.results:
            if not result.success and (lease := self._leases.pop(result.lease_id, None)):
                for leased in lease.jobs:
                    if not (leased.is_gone or leased.is_acked):
                        leased.is_lost = True
                        self._stop(leased)

    def _stop(self, leased: LeasedJob) -> None:
        leased.stop()
        self.remove(leased)
        self._on_gone(leased)
