"""Pops from a spread queue, whose messages are in several databases."""

import asyncio
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import structs

from queen import errors
from queen.bounded import BoundedDict
from queen.cluster.pop import Popped, wait_anywhere
from queen.cluster.spread.spreads import Spreads
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.wire.messages import PopRequest

_KNOWN: Final = 100_000
"""Groups whose visits a process remembers."""
_TURN: Final = 8
"""Among this many claims, each other database has a turn."""
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
"""Of a database that was not asked yet."""
_LAST: Final = datetime.max.replace(tzinfo=UTC)
"""Of a database that had no messages."""


class _Visits:
    """The claims of one group in all databases, as far as a process knows them."""

    __slots__ = ("_claims", "_oldest_at", "_visited")

    def __init__(self) -> None:
        self._claims = itertools.count(1)
        self._oldest_at: dict[Engine, datetime] = {}
        """When the oldest message of the last claim was stored: later claims find no older ones."""
        self._visited: dict[Engine, int] = {}
        """The number of the last claim at each database."""

    def order(self, engines: Sequence[Engine]) -> list[Engine]:
        """The databases in the order in which the next claim visits them."""
        number = next(self._claims)
        by_visit = sorted(engines, key=lambda each: self._visited.get(each, 0))
        # Sorting is stable: of databases with the same time, the one that waits longest is first.
        order = sorted(by_visit, key=lambda each: self._oldest_at.get(each, _FIRST))
        if number % max(1, _TURN // max(1, len(engines) - 1)) == 0:
            order.remove(by_visit[0])
            order.insert(0, by_visit[0])
        return order

    def learn(self, engine: Engine, found: Sequence[Delivery]) -> None:
        """Remember how old the messages of a claim were."""
        self._visited[engine] = max(self._visited.values(), default=0) + 1
        self._oldest_at[engine] = min(
            (run.created_at for each in found for run in each.runs), default=_LAST
        )


class SpreadPops:
    """
    Pops from spread queues, so that no database waits for long.

    A claim goes to the database whose messages are the oldest, as far as this process knows. If the
    batch is not full, one more database is asked. Some claims go to the database that was not asked
    for the longest time, so each has a turn within eight claims. A ready message waits at most as
    long as the oldest one elsewhere, and eight claims.
    """

    def __init__(self, engines: Sequence[Engine], spreads: Spreads) -> None:
        self._engines = engines
        self._spreads = spreads
        self._visits = BoundedDict[tuple[str | None, str | None], _Visits](_KNOWN)

    async def pop(self, request: PopRequest) -> Popped:
        """Claim messages, and wait for them if requested."""

        async def claim(working: list[Engine]) -> Popped:
            return await self._claim(request, working)

        return await wait_anywhere(self._engines, request, claim)

    async def _claim(self, request: PopRequest, working: list[Engine]) -> Popped:
        """Claim what is ready now. ``working``: gets the databases that responded."""
        visits = self._of(request)
        claims: list[tuple[Engine, list[Delivery]]] = []
        failure: errors.QueenError | None = None
        order = visits.order(self._engines)
        for engine in order:
            found = [each for _, some in claims for each in some]
            rest = _rest(request, found)
            if rest is None:
                break
            if request.wait and not found and engine.is_dry(request):
                working.append(engine)  # Others wait there already, so a search finds nothing.
                continue
            try:
                some = await self.pop_at(engine, rest)
            except errors.QueenError as error:
                if found:
                    break  # These are claimed. If the failure lasts, the next pop reports it.
                if not isinstance(error, errors.DatabaseUnavailable):
                    raise
                failure = error
                continue
            except asyncio.CancelledError:
                await _return_claims(request, claims)
                raise
            working.append(engine)
            visits.learn(engine, some)
            if some:
                claims.append((engine, some))
            if found:
                break
        if not claims and not working and failure is not None:
            raise failure
        return Popped(order[0], [each for _, some in claims for each in some])

    async def pop_at(self, engine: Engine, request: PopRequest) -> list[Delivery]:
        """Claim messages of one database, after it knows the group."""
        await self._spreads.ensure_group(engine, request)
        try:
            return await engine.pop(request)
        except errors.QueueNotFound:
            # The queue or the group may have been deleted, and created again in the first database.
            assert request.queue is not None
            self._spreads.forget(request.queue)
            await self._spreads.ensure_group(engine, request)
            return await engine.pop(request)

    def _of(self, request: PopRequest) -> _Visits:
        key = request.queue, request.consumer_group
        visits = self._visits.get(key)
        if visits is None:
            visits = self._visits[key] = _Visits()
        return visits


async def _return_claims(
    request: PopRequest, claims: Sequence[tuple[Engine, list[Delivery]]]
) -> None:
    """Give messages back whose pop was cancelled."""
    if claims and request.auto_ack:
        raise errors.OutcomeUnknown("This pop ended after it had acknowledged messages.")
    for engine, some in claims:
        await engine.give_back(some)


def _rest(request: PopRequest, found: Sequence[Delivery]) -> PopRequest | None:
    """The part of a request that is not served yet, without waiting. None if all is."""
    batch = request.batch - sum(map(len, found))
    partitions = request.partitions - len({each.partition_id for each in found})
    if batch < 1 or partitions < 1:
        return None
    return structs.replace(request, batch=batch, partitions=partitions, wait=False)
