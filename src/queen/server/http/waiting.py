"""Wait on behalf of a call while its client is connected and its key or token is accepted."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from queen import errors
from queen.server.auth.api_keys import BELIEVED_SECONDS
from queen.server.auth.revocations import REASON
from queen.server.http.call import Call
from queen.server.http.scope_keys import ClientGone

T = TypeVar("T")


def seconds_of(call: Call, timeout_ms: int | None) -> float:
    """Return how long to wait, up to the server's limit."""
    settings = call.state.settings
    wanted = settings.default_timeout_ms if timeout_ms is None else timeout_ms
    return min(wanted, settings.max_timeout_ms) / 1000


async def wait_for(
    call: Call, waiting: Awaitable[T], *, undo: Callable[[T], Awaitable[None]] | None = None
) -> T:
    """
    Await a result that may take long; raises ClientGone, or Unauthorized if access has ended.

    ``undo``: called with a result that is too late to be sent.
    """
    authenticator = call.state.authenticator
    disconnect = call.connection.disconnect
    wait = _Wait()
    if disconnect is not None:
        disconnect.watch(wait.task)
    authenticator.revocations.add(call.caller, wait.end)
    began_at = time.monotonic()
    try:
        result = await waiting
    except (asyncio.CancelledError, errors.OutcomeUnknown) as error:
        if disconnect is not None and disconnect.has_happened:
            raise ClientGone from None
        if wait.is_over:
            wait.task.uncancel()
            if isinstance(error, asyncio.CancelledError):
                raise errors.Unauthorized(REASON) from None
        raise
    finally:
        authenticator.revocations.remove(call.caller, wait.end)
        if disconnect is not None:
            disconnect.task = None
    # If the database was unavailable until now, a revocation may be undetected.
    if time.monotonic() - began_at > BELIEVED_SECONDS and not authenticator.is_open:
        await _check_access(call, result, undo)
    return result


async def _check_access(call: Call, result: T, undo: Callable[[T], Awaitable[None]] | None) -> None:
    is_valid = False
    try:
        is_valid = await call.state.authenticator.is_valid(call.caller)
    finally:
        if not is_valid and undo is not None:
            await undo(result)
    if not is_valid:
        raise errors.Unauthorized(REASON)


class _Wait:
    """One waiting call, which can be ended when its access ends."""

    __slots__ = ("is_over", "task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.is_over = False

    def end(self) -> None:
        self.is_over = True
        self.task.cancel()
