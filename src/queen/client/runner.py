"""Registered handlers, run until stopped: by themselves, or inside a web application."""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from queen import errors
from queen.client.consume.consumer import Consumption

if TYPE_CHECKING:
    from queen.client.client import Queen

_LOG: Final = logging.getLogger("queen.client")
_ENDS: Final[set[asyncio.Task[None]]] = set()
"""The loop itself holds tasks weakly."""


async def run(
    queen: "Queen", stop: asyncio.Event, now: asyncio.Event, *, handle_signals: bool
) -> None:
    """Consume with every registered handler until told to stop; then flush what is buffered."""
    if not queen.handlers:
        raise errors.BadRequest("no handler is registered: @queen.queue(name).handler")
    loop = asyncio.get_running_loop()

    def told() -> None:
        # The first signal asks, the second insists.
        queen.stop(now=stop.is_set())

    numbers = (signal.SIGTERM, signal.SIGINT) if handle_signals else ()
    for number in numbers:
        loop.add_signal_handler(number, told)
    try:
        works = [queue.start(function, signal=stop) for queue, function in queen.handlers]
        await _all_of(works, stop)
        await queen.buffers.here().finish(now)
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _all_of(works: list[Consumption], stop: asyncio.Event) -> None:
    """Wait for all; when one fails or this is cancelled, the others are stopped in order."""
    waits = [asyncio.ensure_future(_of(work)) for work in works]
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_EXCEPTION)
        stop.set()
        await asyncio.gather(*waits, return_exceptions=True)
        for wait in done:
            wait.result()
    except asyncio.CancelledError:
        stop.set()
        await asyncio.gather(*waits, return_exceptions=True)
        raise


def stop_now(queen: "Queen") -> None:
    """Give the handlers of a client no more time."""
    for work in list(queen.consumptions):
        _ENDS.add(task := asyncio.ensure_future(work.stop(now=True)))
        task.add_done_callback(_ENDS.discard)


async def _of(work: Consumption) -> None:
    await work


def _told(work: asyncio.Task[None]) -> None:
    """Say at once that workers have ended: the application goes on, and would know at its end."""
    if not work.cancelled() and (error := work.exception()) is not None:
        _LOG.error("workers.failed: %s", error, exc_info=error)


@asynccontextmanager
async def lifespan(
    queen: "Queen", app: object, *, workers: bool = False
) -> AsyncGenerator[dict[str, Any]]:
    """Open the client with the application and close it with it."""
    del app  # Whatever it is, it needs nothing of us.
    async with queen:
        stop, now = asyncio.Event(), asyncio.Event()
        work: asyncio.Task[None] | None = None
        if workers:
            if not queen.handlers:
                raise errors.BadRequest("no handler is registered: @queen.queue(name).handler")
            work = asyncio.create_task(run(queen, stop, now, handle_signals=False))
            work.add_done_callback(_told)
        try:
            yield {"queen": queen}
        finally:
            stop.set()
            if work is not None:
                await work
