"""Acknowledge jobs in batches, one request at a time."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.consume.settle import decode_brief
from queen.client.session import Session
from queen.client.transport.base import decoded, may_succeed_later
from queen.jobs.worker.leases import LeasedJob, LeaseKeeper
from queen.wire.messages import Acknowledgment, AckRequest, Completed
from queen.wire.transactions import (
    AckOperation,
    AdvanceOperation,
    PushOperation,
    TransactionRequest,
)

_LOG: Final = logging.getLogger("queen.jobs")
_ENCODE: Final = msgspec.json.Encoder().encode
_MAX_JOBS: Final = 5_000
"""Jobs per request."""
_WORTH_A_CALL: Final = 16
"""From this many jobs on, a whole delivery is acknowledged in its own, cheaper request."""
_GATHER_SECONDS: Final = 0.005
_SHARES: Final = 32
_HOLD_SECONDS: Final = 0.25
"""How long to wait for the rest of a delivery while its jobs complete steadily."""
_PAUSE_SECONDS: Final = 0.5
"""Delay between two attempts to reach an unavailable server."""


_DECODE_WHOLE: Final = msgspec.json.Decoder(Completed).decode

Pending = tuple[LeasedJob, Acknowledgment]


class _Delivery(msgspec.Struct, eq=False):
    """Completed jobs of one lease, without results or effects."""

    jobs: list[LeasedJob] = msgspec.field(default_factory=list[LeasedJob])
    since: float = msgspec.field(default_factory=time.monotonic)
    seen: int = 0
    """Their number at the last flush."""


class AckBatcher:
    """Collects acknowledgments while the previous request is in progress."""

    def __init__(
        self,
        session: Session,
        *,
        lease_seconds: float,
        leases: LeaseKeeper,
        is_busy: Callable[[], bool],
        on_settled: Callable[[LeasedJob, bool], None],
    ) -> None:
        self._session = session
        self._lease_seconds = lease_seconds
        """How long to repeat requests if the server is unavailable."""
        self._leases = leases
        self._is_busy = is_busy
        """Whether more jobs of the delivery were fetched, so waiting for them is useful."""
        self._on_settled = on_settled
        """Called with each job once the server has responded, and whether it accepted the ack."""
        self._done: dict[str, _Delivery] = {}
        self._pending: list[Pending] = []
        self._changed = asyncio.Event()
        self._under_way = 0

    def complete(self, leased: LeasedJob) -> None:
        """Acknowledge a completed job without a result, with the others of its delivery."""
        leased.is_acked = True
        lease_id = leased.lease_id
        delivery = self._done.get(lease_id)
        if delivery is None:
            delivery = self._done[lease_id] = _Delivery()
            self._changed.set()
        delivery.jobs.append(leased)

    def add(self, leased: LeasedJob, acknowledgment: Acknowledgment) -> None:
        """Acknowledge a job with the next request."""
        leased.is_acked = True
        self._pending.append((leased, acknowledgment))
        self._changed.set()

    async def flush_forever(self) -> None:
        while True:
            await self._changed.wait()
            if self._is_busy():
                await asyncio.sleep(_GATHER_SECONDS)
            await self._flush(is_last=False)

    async def finish(self) -> None:
        """Send all remaining acknowledgments."""
        while self._done or self._pending or self._under_way:
            if self._done or self._pending:
                await self._flush(is_last=True)
            else:
                await asyncio.sleep(0.001)

    async def commit(
        self,
        leased: LeasedJob,
        acknowledgment: Acknowledgment,
        others: Sequence[PushOperation | AdvanceOperation],
    ) -> None:
        """
        Acknowledge a job and apply the other operations, all or nothing.

        If the server is unavailable, the request is repeated until the lease may have expired. It
        is applied once. Raises the error if the server did not apply the request.
        """
        leased.is_acked = True
        operations = [AckOperation(**msgspec.structs.asdict(acknowledgment)), *others]
        with tracing.committing([leased.message], operations) as given:
            async with self._session.producers().lend() as producer:
                request = TransactionRequest(
                    operations=list(given), producer_id=producer.id, sequence=producer.sequence
                )
                await self._commit(leased, _ENCODE(request))
        self._finish(leased, True)

    async def _commit(self, leased: LeasedJob, body: bytes) -> None:
        until = time.monotonic() + self._lease_seconds
        while True:
            try:
                await self._session.transport.exchange("POST", "/api/v1/transaction", body)
                return
            except errors.QueenError as error:
                if is_fault_of_job(error) or time.monotonic() > until:
                    raise
                _LOG.warning("jobs.not_settled: %s: %s", leased.message, error)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _flush(self, *, is_last: bool) -> None:
        whole, rest = self._take(is_last=is_last)
        if not (self._done or self._pending):
            self._changed.clear()
        parts = [rest[first : first + _MAX_JOBS] for first in range(0, len(rest), _MAX_JOBS)]
        self._under_way += 1
        try:
            calls = [self._send_whole(lease_id, jobs) for lease_id, jobs in whole.items()]
            await asyncio.gather(*calls, *(self._send(part) for part in parts))
        finally:
            self._under_way -= 1

    def _take(self, *, is_last: bool) -> tuple[dict[str, list[LeasedJob]], list[Pending]]:
        """Return the acknowledgments to send now: whole deliveries, and rests of stalled ones."""
        whole: dict[str, list[LeasedJob]] = {}
        rest, self._pending = self._pending, []
        may_wait = not is_last and self._is_busy()
        not_before = time.monotonic() - _HOLD_SECONDS if may_wait else math.inf
        for lease_id, delivery in list(self._done.items()):
            done, count = len(delivery.jobs), self._leases.count(lease_id)
            if done == count and done >= _WORTH_A_CALL:
                whole[lease_id] = delivery.jobs
            elif (
                delivery.since > not_before
                and done < count
                and _SHARES * (done - delivery.seen) >= count
            ):
                delivery.seen = done
                continue
            else:
                rest += [(leased, leased.message.done()) for leased in delivery.jobs]
            del self._done[lease_id]
        return whole, rest

    async def _send_whole(self, lease_id: str, jobs: list[LeasedJob]) -> None:
        """Acknowledge all jobs of a delivery in one short request."""
        path = f"/api/v1/lease/{quote(lease_id, safe='')}/ack"
        try:
            reply = await self._session.transport.exchange("POST", path)
            settled = decoded(reply, _DECODE_WHOLE).settled
        except errors.QueenError:
            # It may have been applied, with the response lost.
            await self._send([(leased, leased.message.done()) for leased in jobs])
            return
        self._leases.remove_lease(lease_id)
        for leased in jobs[settled:]:
            self._on_settled(leased, False)

    async def _send(self, pending: list[Pending]) -> None:
        body = _ENCODE(AckRequest(acknowledgments=[each for _, each in pending]))
        until = time.monotonic() + self._lease_seconds
        while time.monotonic() <= until:
            try:
                reply = await self._session.transport.exchange("POST", "/api/v1/ack/batch", body)
                results = decoded(reply, decode_brief).results
            except errors.QueenError as error:
                if not may_succeed_later(error):
                    await self._reject(pending, error)
                    return
                _LOG.warning("jobs.not_settled: %d jobs: %s", len(pending), error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            for result in results:
                leased, acknowledgment = pending[result.index]
                # A repeat after a lost response finds the lease ended.
                is_done = result.settled and acknowledgment.status == "completed"
                self._finish(leased, result.success or is_done)
            return
        for leased, _ in pending:
            self._finish(leased, False)  # Their leases expire, and they are redelivered.

    async def _reject(self, pending: list[Pending], error: errors.QueenError) -> None:
        """Split a rejected request in halves, so that one bad job does not affect the others."""
        if len(pending) > 1:
            half = len(pending) // 2
            await self._send(pending[:half])
            await self._send(pending[half:])
            return
        ((leased, _),) = pending
        _LOG.error("jobs.rejected: %s: %s", leased.message, error)
        self._finish(leased, False)

    def _finish(self, leased: LeasedJob, is_taken: bool) -> None:
        self._leases.remove(leased)
        self._on_settled(leased, is_taken)


def is_fault_of_job(error: errors.QueenError) -> bool:
    """Whether the job's pushes prevent its acknowledgment, for example by Forbidden."""
    is_forbidden = isinstance(error, errors.Forbidden) and error.problem is not None
    return is_forbidden or not may_succeed_later(error)
