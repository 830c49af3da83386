"""A pop from the queues of a namespace or task, which can be in several databases."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import structs

from queen import errors
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.wire.messages import PopRequest

_TURN_SECONDS: Final = 1.0
"""How long a pop that acknowledges waits at each database."""
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
    ends_at = time.monotonic() + request.timeout_seconds
    first = next(_turns) % len(engines)
    turns = [*engines[first:], *engines[:first]]
    now = structs.replace(request, wait=False)
    working: list[Engine] = []
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
    if not request.wait:
        return Popped(turns[0], [])
    return await wait_anywhere(working, request, ends_at)


async def wait_anywhere(engines: Sequence[Engine], request: PopRequest, ends_at: float) -> Popped:
    """Wait at several databases for messages."""
    if request.auto_ack:
        return await _wait_in_turns(engines, request, ends_at)
    left = max(0.0, ends_at - time.monotonic())
    return await _wait_at_all(engines, structs.replace(request, timeout_seconds=left))


async def _wait_in_turns(engines: Sequence[Engine], request: PopRequest, ends_at: float) -> Popped:
    for engine in itertools.cycle(engines):
        left = ends_at - time.monotonic()
        if left <= 0:
            return Popped(engine, [])
        turn = structs.replace(request, timeout_seconds=min(left, _TURN_SECONDS))
        if found := await engine.pop(turn):
            return Popped(engine, found)
    raise AssertionError("the turns never end")


async def _wait_at_all(engines: Sequence[Engine], request: PopRequest) -> Popped:
    waits = {asyncio.create_task(engine.pop(request)): engine for engine in engines}
    chosen: asyncio.Task[list[Delivery]] | None = None
    try:
        pending = {*waits}
        while pending and chosen is None:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            chosen = next((each for each in done if not each.cancelled() and _has(each)), None)
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
    for each in waits:
        each.result()  # Raises if a database has failed.
    return Popped(engines[0], [])


def _has(pop: "asyncio.Task[list[Delivery]]") -> bool:
    return pop.exception() is None and bool(pop.result())
