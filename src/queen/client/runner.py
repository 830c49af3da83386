"""Run registered handlers until stopped, standalone or inside a web application."""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

from queen import errors
from queen.client.consume.consumer import Consumption
from queen.client.session import Session

_LOG: Final = logging.getLogger("queen.client")


async def run(
    session: Session,
    stop: asyncio.Event,
    now: asyncio.Event,
    *,
    on_signal: Callable[[], None] | None = None,
) -> None:
    """
    Consume with every registered handler until ``stop`` is set; then flush the buffers.

    ``on_signal`` is called on SIGTERM and SIGINT.
    """
    _check_handlers(session)
    with handling_signals(on_signal):
        consumers = [session.consumers.start(handler, stop) for handler in session.handlers]
        await _wait_for(consumers, stop)
        await session.buffers.here().finish(now)


@contextmanager
def handling_signals(on_signal: Callable[[], None] | None) -> Generator[None]:
    """Call back on SIGTERM and SIGINT during the block; with None they keep their effect."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    if on_signal is None:
        yield
        return
    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _wait_for(consumers: list[Consumption], stop: asyncio.Event) -> None:
    """Wait for all; if one fails or this is cancelled, stop the others."""
    waits = [asyncio.ensure_future(consumer.wait()) for consumer in consumers]
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        stop.set()
        await asyncio.gather(*waits, return_exceptions=True)
    for wait in done:
        wait.result()


def _check_handlers(session: Session) -> None:
    if not session.handlers:
        raise errors.BadRequest("no handler is registered. Use @queen.queue(name).handler.")


def log_failure(logger: logging.Logger, event: str, work: asyncio.Task[None]) -> None:
    """Log immediately that workers failed, because the application continues without them."""
    if not work.cancelled() and (error := work.exception()) is not None:
        logger.error("%s: %s", event, error, exc_info=error)


@asynccontextmanager
async def lifespan(
    session: Session, app: object, *, workers: bool = False
) -> AsyncGenerator[dict[str, Any]]:
    """Open and close the client together with the application."""
    del app  # Frameworks pass it; the client does not need it.
    async with session:
        stop, now = asyncio.Event(), asyncio.Event()
        work: asyncio.Task[None] | None = None
        if workers:
            _check_handlers(session)
            work = asyncio.create_task(run(session, stop, now))
            work.add_done_callback(partial(log_failure, _LOG, "workers.failed"))
        try:
            yield {"queen": session}
        finally:
            stop.set()
            if work is not None:
                await work
