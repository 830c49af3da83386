"""What became of jobs, told to the server: many in one call, one call under way at a time."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.transport import decoded
from queen.jobs.holding import Held
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
_WORTH_NO_WAIT: Final = 500
_GATHER_SECONDS: Final = 0.005
_PAUSE_SECONDS: Final = 0.5
"""Between two tries to reach a server that is away."""


class _Brief(msgspec.Struct, gc=False):
    index: int
    success: bool
    code: str | None = None
    error: str | None = None


class _Briefly(msgspec.Struct, gc=False):
    success: bool
    results: list[_Brief]


_DECODE: Final = msgspec.json.Decoder(_Briefly).decode
_DECODE_WHOLE: Final = msgspec.json.Decoder(Completed).decode

Said = tuple[Held, Acknowledgment]


class Settling:
    """Gathers what jobs came to while the call before is under way."""

    def __init__(
        self,
        queen: "Queen",
        *,
        lease_seconds: float,
        count: Callable[[str | None], int],
        is_busy: Callable[[], bool],
        settled: Callable[[Held, bool], None],
    ) -> None:
        self._queen = queen
        self._lease_seconds = lease_seconds
        """For so long a server that is away is asked again: so long the lease may last."""
        self._count = count
        """How many jobs a delivery had."""
        self._is_busy = is_busy
        """Whether more jobs are at hand, so that it pays to wait a moment for them."""
        self._settled = settled
        """Called with each job once the server knows, and whether it took what was said."""
        self._said: list[Said] = []
        self._some = asyncio.Event()
        self._under_way = 0

    def say(self, held: Held, acknowledgment: Acknowledgment) -> None:
        """Of one job what became of it; told with the next call."""
        held.is_said = True
        self._said.append((held, acknowledgment))
        self._some.set()

    async def settle_for_ever(self) -> None:
        while True:
            await self._some.wait()
            if len(self._said) < _WORTH_NO_WAIT and self._is_busy():
                await asyncio.sleep(_GATHER_SECONDS)
            await self._flush()

    async def finish(self) -> None:
        """Tell what is left to tell."""
        while self._said or self._under_way:
            await self._flush() if self._said else await asyncio.sleep(0.001)

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
        self._settled(held, True)

    async def _commit(self, held: Held, body: bytes) -> None:
        until = time.monotonic() + self._lease_seconds
        while True:
            try:
                await self._queen.transport.exchange("POST", "/api/v1/transaction", body)
                return
            except errors.RequestError:
                raise
            except errors.QueenError as error:
                if time.monotonic() > until:
                    raise
                _LOG.warning("jobs.not_settled: %s: %s", held.message, error)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _flush(self) -> None:
        said, self._said = self._said[:_MOST], self._said[_MOST:]
        if not self._said:
            self._some.clear()
        self._under_way += 1
        try:
            await asyncio.gather(*(self._tell(part) for part in _parts(said)))
        finally:
            self._under_way -= 1

    async def _tell(self, said: list[Said]) -> None:
        """What became of some jobs; of a whole delivery that went well, in one word."""
        lease_id = said[0][1].lease_id
        is_whole = len(said) >= _WORTH_A_CALL and len(said) == self._count(lease_id)
        if lease_id is None or not is_whole or not _are_done(said, lease_id):
            await self._send(said)
            return
        path = f"/api/v1/lease/{quote(lease_id, safe='')}/ack"
        try:
            reply = await self._queen.transport.exchange("POST", path)
        except errors.QueenError:
            # Perhaps it is done, and the answer that said so got lost.
            await self._send(said)
            return
        settled = decoded(reply, _DECODE_WHOLE).settled
        for number, (held, _) in enumerate(said):
            self._settled(held, number < settled)

    async def _send(self, said: list[Said]) -> None:
        body = _ENCODE(AckRequest(acknowledgments=[each for _, each in said]))
        until = time.monotonic() + self._lease_seconds
        while time.monotonic() <= until:
            try:
                reply = await self._queen.transport.exchange("POST", "/api/v1/ack/batch", body)
            except errors.RequestError as error:
                if len(said) > 1:
                    # One that is refused takes nothing from the others.
                    for each in said:
                        await self._send([each])
                    return
                _LOG.error("jobs.refused: %s: %s", said[0][0].message, error)
                self._settled(said[0][0], False)
                return
            except errors.QueenError as error:
                _LOG.warning("jobs.not_settled: %d jobs: %s", len(said), error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            brief = decoded(reply, _DECODE)
            for result in brief.results:
                self._settled(said[result.index][0], result.success)
            return
        for held, _ in said:
            self._settled(held, False)  # Their leases run out, and they come again.


def _are_done(said: list[Said], lease_id: str) -> bool:
    return all(
        each.lease_id == lease_id and each.status == "completed" and each.result is msgspec.UNSET
        for _, each in said
    )


def _parts(said: list[Said]) -> list[list[Said]]:
    """Calls to make: large deliveries each alone, all others together."""
    by_lease: dict[str | None, list[Said]] = {}
    for each in said:
        by_lease.setdefault(each[1].lease_id, []).append(each)
    if len(by_lease) == 1:
        return [said]
    parts = [part for part in by_lease.values() if len(part) >= _WORTH_A_CALL]
    rest = [each for part in by_lease.values() if len(part) < _WORTH_A_CALL for each in part]
    return [*parts, rest] if rest else parts
