"""A pop from the queues of a namespace or task, which can be in several databases."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from queen import errors
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.wire.messages import PopRequest

_TURN_SECONDS: Final = 1.0
"""How long a pop that acknowledges waits at each database, and how often others check whether one
is back."""
_PAUSE_SECONDS: Final = 0.1
"""After a database has failed. The next claim usually knows that it is unavailable."""
_turns = itertools.count()


class Popped(NamedTuple):
    """Deliveries, and the engine that they come from, or one of them."""

    engine: Engine
    deliveries: list[Delivery]


async def pop_anywhere(engines: Sequence[Engine], request: PopRequest) -> Popped:
    """
    Claim messages of one database. Pops begin with another database each time.

    Waiting pops wait at all databases, and the first that has messages serves them. A pop that
    acknowledges can't return what a second database claims, so it waits at them in turns.
    """
    first = next(_turns) % len(engines)
    turns = [*engines[first:], *engines[:first]]
    now = structs.replace(request, wait=False)

    async def claim(working: list[Engine]) -> Popped:
        failure: errors.DatabaseUnavailable | None = None
        for engine in turns:
            try:
                if found := await engine.pop(now):
                    return Popped(engine, found)
                working.append(engine)
            except errors.DatabaseUnavailable as error:
                failure = error
        if not working and failure is not None:
            raise failure
        return Popped(turns[0], [])

    return await wait_anywhere(engines, request, claim)


async def wait_anywhere(
    engines: Sequence[Engine],
    request: PopRequest,
    claim: Callable[[list[Engine]], Awaitable[Popped]],
) -> Popped:
    """
    Claim messages, and wait at several databases for them if requested.

    ``claim``: claims what is ready, and adds the databases that responded to a list. It is called
    again when one of the others is back, because it may have messages that nothing announces.
    """
    ends_at = time.monotonic() + request.timeout_seconds
    wait = _wait_in_turns if request.auto_ack else _wait_at_all
    sent_home = _sent_home(engines)
    while True:
        working: list[Engine] = []
        popped = await claim(working)
        left = ends_at - time.monotonic()
        is_over = not request.wait or left <= 0 or _sent_home(engines) > sent_home
        if popped.deliveries or is_over:
            return popped
        away = [each for each in engines if each not in working]
        try:
            popped = await wait(working, away, structs.replace(request, timeout_seconds=left))
        except errors.DatabaseUnavailable:
            await asyncio.sleep(_PAUSE_SECONDS)
            continue  # The others still work. If none does, the claim raises.
        if popped.deliveries or _sent_home(engines) > sent_home:
            return popped


def _sent_home(engines: Iterable[Engine]) -> int:
    """How often databases finished waiting pops, for example because pops are stopped."""
    return sum(each.sent_home for each in engines)


def _is_one_back(away: Sequence[Engine]) -> bool:
    return not all(each.store.database.is_away for each in away)


async def _wait_in_turns(
    engines: Sequence[Engine], away: Sequence[Engine], request: PopRequest
) -> Popped:
    """Wait until there are messages, or an unavailable database is back. ``away``: these."""
    ends_at = time.monotonic() + request.timeout_seconds
    sent_home = _sent_home(engines)
    for engine in itertools.cycle(engines):
        left = ends_at - time.monotonic()
        if left <= 0:
            break
        turn = structs.replace(request, timeout_seconds=min(left, _TURN_SECONDS))
        if found := await engine.pop(turn):
            return Popped(engine, found)
        if _is_one_back(away) or _sent_home(engines) > sent_home:
            break
    return Popped(engines[0], [])


async def _wait_at_all(
    engines: Sequence[Engine], away: Sequence[Engine], request: PopRequest
) -> Popped:
    """Wait until there are messages, or an unavailable database is back. ``away``: these."""
    waits = {asyncio.create_task(engine.pop(request)): engine for engine in engines}
    chosen: asyncio.Task[list[Delivery]] | None = None
    failure: BaseException | None = None
    sent_home = _sent_home(engines)
    try:
        pending = {*waits}
        while pending and chosen is None and failure is None:
            done, pending = await asyncio.wait(
                pending,
                timeout=_TURN_SECONDS if away else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            ended = [each for each in done if not each.cancelled()]
            chosen = next((each for each in ended if _has(each)), None)
            failure = next((each.exception() for each in ended if each.exception()), None)
            if _is_one_back(away) or _sent_home(engines) > sent_home:
                break
    finally:
        # A pop that is cancelled returns its messages by itself.
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        for each, engine in waits.items():
            if each is not chosen and not each.cancelled() and _has(each):
                await engine.give_back(each.result())
    if chosen is not None:
        return Popped(waits[chosen], chosen.result())
    if failure is not None:
        raise failure
    return Popped(engines[0], [])


def _has(pop: "asyncio.Task[list[Delivery]]") -> bool:
    return pop.exception() is None and bool(pop.result())
