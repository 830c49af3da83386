"""What became of jobs, told to the server: many in one call, one call under way at a time."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.transport.base import decoded, may_succeed_later
from queen.jobs.worker.leases import Held, Holding
from queen.wire.messages import (
    Acknowledgment,
    AckOperation,
    AckRequest,
    AdvanceOperation,
    Completed,
    PushOperation,
    TransactionRequest,
)

if TYPE_CHECKING:
    from queen.client.client import Queen

_LOG: Final = logging.getLogger("queen.jobs")
_ENCODE: Final = msgspec.json.Encoder().encode
_MOST: Final = 5_000
"""Jobs of one call."""
_WORTH_A_CALL: Final = 16
"""So many jobs of one delivery are settled in a call of their own, which costs the server least."""
_GATHER_SECONDS: Final = 0.005
_SHARES: Final = 32
_HOLD_SECONDS: Final = 0.25
"""A delivery is waited for while so great a part of it is done in each moment, and no longer."""
_PAUSE_SECONDS: Final = 0.5
"""Between two tries to reach a server that is away."""


class _Brief(msgspec.Struct, gc=False):
    index: int
    success: bool
    code: str | None = None
    settled: bool = False
    """Beside a lost lease: it is done all the same."""


class _Briefly(msgspec.Struct, gc=False):
    success: bool
    results: list[_Brief]


_DECODE: Final = msgspec.json.Decoder(_Briefly).decode
_DECODE_WHOLE: Final = msgspec.json.Decoder(Completed).decode

Said = tuple[Held, Acknowledgment]


class _Delivery:
    """Jobs that were popped under one lease and are done, with nothing to be said of them."""

    __slots__ = ("jobs", "seen", "since")

    def __init__(self) -> None:
        self.jobs: list[Held] = []
        self.since = time.monotonic()
        self.seen = 0
        """How many there were when it was last looked at."""


class Settling:
    """Gathers what jobs came to while the call before is under way."""

    def __init__(
        self,
        queen: "Queen",
        *,
        lease_seconds: float,
        holding: Holding,
        is_busy: Callable[[], bool],
        settled: Callable[[Held, bool], None],
    ) -> None:
        self._queen = queen
        self._lease_seconds = lease_seconds
        """For so long a server that is away is asked again: so long the lease may last."""
        self._holding = holding
        self._is_busy = is_busy
        """Whether more jobs are at hand, so that it pays to wait a moment for them."""
        self._settled = settled
        """Called with each job once the server knows, and whether it took what was said."""
        self._done: dict[str, _Delivery] = {}
        self._said: list[Said] = []
        self._some = asyncio.Event()
        self._under_way = 0

    def say_done(self, held: Held) -> None:
        """A job is done, and that is all; told with the others of its delivery."""
        held.is_said = True
        lease_id = held.lease_id
        delivery = self._done.get(lease_id)
        if delivery is None:
            delivery = self._done[lease_id] = _Delivery()
            self._some.set()
        delivery.jobs.append(held)

    def say(self, held: Held, acknowledgment: Acknowledgment) -> None:
        """Of one job what became of it; told with the next call."""
        held.is_said = True
        self._said.append((held, acknowledgment))
        self._some.set()

    async def settle_for_ever(self) -> None:
        while True:
            await self._some.wait()
            if self._is_busy():
                await asyncio.sleep(_GATHER_SECONDS)
            await self._flush(is_last=False)

    async def finish(self) -> None:
        """Tell what is left to tell."""
        while self._done or self._said or self._under_way:
            if self._done or self._said:
                await self._flush(is_last=True)
            else:
                await asyncio.sleep(0.001)

    async def commit(
        self,
        held: Held,
        acknowledgment: Acknowledgment,
        others: Sequence[PushOperation | AdvanceOperation],
    ) -> None:
        """
        Settle a job and do the others, all or nothing; raises why nothing was applied.

        A server that is away is no answer: the same is sent again, for as long as the lease may
        be renewed, and applied once.
        """
        held.is_said = True
        fields = {f: getattr(acknowledgment, f) for f in acknowledgment.__struct_fields__}
        operations = [AckOperation(**fields), *others]
        with tracing.committing([held.message], operations) as given:
            async with self._queen.producers().lend() as producer:
                request = TransactionRequest(
                    operations=list(given), producer_id=producer.id, sequence=producer.sequence
                )
                await self._commit(held, _ENCODE(request))
        self._end(held, True)

    async def _commit(self, held: Held, body: bytes) -> None:
        until = time.monotonic() + self._lease_seconds
        while True:
            try:
                await self._queen.transport.exchange("POST", "/api/v1/transaction", body)
                return
            except errors.QueenError as error:
                if is_fault_of_job(error) or time.monotonic() > until:
                    raise
                _LOG.warning("jobs.not_settled: %s: %s", held.message, error)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _flush(self, *, is_last: bool) -> None:
        whole, rest = self._take(is_last=is_last)
        if not (self._done or self._said):
            self._some.clear()
        parts = [rest[first : first + _MOST] for first in range(0, len(rest), _MOST)]
        self._under_way += 1
        try:
            calls = [self._send_whole(lease_id, jobs) for lease_id, jobs in whole.items()]
            await asyncio.gather(*calls, *(self._send(part) for part in parts))
        finally:
            self._under_way -= 1

    def _take(self, *, is_last: bool) -> tuple[dict[str, list[Held]], list[Said]]:
        """What to tell now: whole deliveries, and what is left of others that come to a halt."""
        whole: dict[str, list[Held]] = {}
        rest, self._said = self._said, []
        may_wait = not is_last and self._is_busy()
        not_before = time.monotonic() - _HOLD_SECONDS if may_wait else math.inf
        for lease_id, delivery in list(self._done.items()):
            done, count = len(delivery.jobs), self._holding.count(lease_id)
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
                rest += [(held, held.message.done()) for held in delivery.jobs]
            del self._done[lease_id]
        return whole, rest

    async def _send_whole(self, lease_id: str, jobs: list[Held]) -> None:
        """All jobs of a delivery went well: told in one word."""
        path = f"/api/v1/lease/{quote(lease_id, safe='')}/ack"
        try:
            reply = await self._queen.transport.exchange("POST", path)
            settled = decoded(reply, _DECODE_WHOLE).settled
        except errors.QueenError:
            # Perhaps it is done, and the answer that said so got lost.
            await self._send([(held, held.message.done()) for held in jobs])
            return
        self._holding.let_all_go(lease_id)
        for held in jobs[settled:]:
            self._settled(held, False)

    async def _send(self, said: list[Said]) -> None:
        body = _ENCODE(AckRequest(acknowledgments=[each for _, each in said]))
        until = time.monotonic() + self._lease_seconds
        while time.monotonic() <= until:
            try:
                reply = await self._queen.transport.exchange("POST", "/api/v1/ack/batch", body)
                results = decoded(reply, _DECODE).results
            except errors.QueenError as error:
                if not may_succeed_later(error):
                    await self._reject(said, error)
                    return
                _LOG.warning("jobs.not_settled: %d jobs: %s", len(said), error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            for result in results:
                held, acknowledgment = said[result.index]
                # Of one that was told before, and the answer got lost, the lease is gone.
                is_done = result.settled and acknowledgment.status == "completed"
                self._end(held, result.success or is_done)
            return
        for held, _ in said:
            self._end(held, False)  # Their leases run out, and they come again.

    async def _reject(self, said: list[Said], error: errors.QueenError) -> None:
        """Halve a request that was rejected, so that one bad job does not affect the others."""
        if len(said) > 1:
            half = len(said) // 2
            await self._send(said[:half])
            await self._send(said[half:])
            return
        ((held, _),) = said
        _LOG.error("jobs.refused: %s: %s", held.message, error)
        self._end(held, False)

    def _end(self, held: Held, is_taken: bool) -> None:
        self._holding.let_go(held)
        self._settled(held, is_taken)


def is_fault_of_job(error: errors.QueenError) -> bool:
    """Whether what a job pushes is why it can't be settled: say, it may not push to a queue."""
    is_forbidden = isinstance(error, errors.Forbidden) and error.problem is not None
    return is_forbidden or not may_succeed_later(error)
