"""What a worker holds: jobs under their leases, kept by one call for all."""

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
from queen.jobs.worker.stats import Tallies, Tally
from queen.wire.jobs import Envelope, HeldJob, WorkerReport
from queen.wire.messages import MessageRun

_LOG: Final = logging.getLogger("queen.jobs")
_MOST: Final = 5_000
"""Leases, and jobs, of one renewal."""


class Held(msgspec.Struct, eq=False, gc=False):
    """A job that a worker has, from its pop until the server knows what became of it."""

    run: MessageRun
    at: int
    """Its place in the run."""
    job: Job[Any] | None = None
    tally: Tally | None = None
    """Where it is counted, once its name is known."""
    runner: "asyncio.Task[None] | None" = None
    """Who runs it just now."""
    is_lost: bool = False
    """Another worker has it, or will."""
    is_cancelled: bool = False
    is_said: bool = False
    """What became of it is on its way to the server, which ends its lease."""

    @property
    def lease_id(self) -> str:
        return self.run.lease_id or ""

    @property
    def message(self) -> Message[Envelope]:
        """For those who tell of it, without a connection."""
        none: Any = None
        return Message(self.run, self.at, ENVELOPES, none)

    @property
    def is_gone(self) -> bool:
        return self.is_lost or self.is_cancelled

    def stop(self) -> None:
        """It is not ours any more: whoever runs it is told."""
        if self.job is not None:
            self.job.withdraw()
        if self.runner is not None:
            self.runner.cancel()


class _Lease:
    __slots__ = ("count", "held", "since")

    def __init__(self) -> None:
        self.held: set[Held] = set()
        self.count = 0
        """Jobs that were popped under it."""
        self.since = time.monotonic()


class Holding:
    """The leases of one worker."""

    def __init__(
        self,
        calls: JobCalls,
        *,
        lease_seconds: float,
        renew_seconds: float,
        gone: Callable[[Held], None],
        tallies: Tallies,
    ) -> None:
        self._calls = calls
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._gone = gone
        self._tallies = tallies
        self._leases: dict[str, _Lease] = {}

    def hold(self, runs: Sequence[MessageRun]) -> list[Held]:
        """From now on their jobs are kept."""
        found: list[Held] = []
        for run in runs:
            jobs = [Held(run, at) for at in range(len(run.data))]
            lease = self._leases.get(run.lease_id or "")
            if lease is None:
                lease = self._leases[run.lease_id or ""] = _Lease()
            lease.held.update(jobs)
            lease.count += len(jobs)
            found += jobs
        return found

    def let_go(self, held: Held) -> None:
        """The server knows what became of it."""
        lease = self._leases.get(held.lease_id)
        if lease is not None:
            lease.held.discard(held)
            if not lease.held:
                del self._leases[held.lease_id]

    def let_all_go(self, lease_id: str) -> None:
        """The server knows what became of all jobs of a delivery."""
        self._leases.pop(lease_id, None)

    def count(self, lease_id: str) -> int:
        """How many jobs were popped under a lease that still holds some."""
        lease = self._leases.get(lease_id)
        return lease.count if lease else 0

    def by_lease(self, some: Sequence[Held]) -> dict[str | None, list[Held]]:
        """Under each lease those that are all it holds; under None those that are not."""
        found: dict[str | None, list[Held]] = {}
        for held in some:
            found.setdefault(held.lease_id, []).append(held)
        parts = [id_ for id_, each in found.items() if len(each) < len(self._held(id_))]
        rest = [held for id_ in parts for held in found.pop(id_)]
        return {**found, None: rest} if rest else found

    def _held(self, lease_id: str | None) -> set[Held]:
        lease = self._leases.get(lease_id or "")
        return lease.held if lease else set()

    async def renew_for_ever(self) -> None:
        """Renew all leases together, well before the first of them ends."""
        while True:
            await asyncio.sleep(self._renew_seconds)
            try:
                async with asyncio.timeout(self._lease_seconds):
                    await self._renew()
            except (errors.QueenError, TimeoutError) as error:
                # Asked again soon: until its end a lease is ours.
                _LOG.warning("jobs.renewal_failed: %s", error or "no answer in time")

    async def _renew(self) -> None:
        before = time.monotonic() - self._renew_seconds / 2
        leases = {id_: each for id_, each in self._leases.items() if each.since <= before}
        report = self._tallies.take()
        if not leases and report is None:
            return
        jobs = [
            held
            for lease in leases.values()
            for held in lease.held
            if not (held.is_gone or held.is_said)
        ]
        ids = list(leases)
        parts = range(0, max(len(ids), len(jobs), 1), _MOST)
        calls = [
            self._renew_part(
                ids[first : first + _MOST], jobs[first : first + _MOST], None if first else report
            )
            for first in parts
        ]
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _renew_part(
        self, lease_ids: list[str], jobs: list[Held], report: WorkerReport | None
    ) -> None:
        """One call, or two halves of it if the server takes fewer jobs at once."""
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
            self._tallies.told()
        for number in answer.cancelled:
            jobs[number].is_cancelled = True
            self._stop(jobs[number])
        for result in answer.results:
            if not result.success and (lease := self._leases.pop(result.lease_id, None)):
                for held in lease.held:
                    if not (held.is_gone or held.is_said):
                        held.is_lost = True
                        self._stop(held)

    def _stop(self, held: Held) -> None:
        held.stop()
        self.let_go(held)
        self._gone(held)
