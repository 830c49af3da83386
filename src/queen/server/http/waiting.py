"""Calls that wait: for as long as their client is connected and its key or token is accepted."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from queen import errors
from queen.server.auth.api_keys import BELIEVED_SECONDS
from queen.server.auth.revocations import REASON
from queen.server.http.call import Call, ClientGone
from queen.server.http.protocol import GONE, Gone

T = TypeVar("T")


async def wait_for(
    call: Call, waiting: Awaitable[T], *, undo: Callable[[T], Awaitable[None]] | None = None
) -> T:
    """
    Await something that may take long; raises ClientGone, or Unauthorized if access has ended.

    ``undo``: called with a result that comes too late to be sent.
    """
    gate = call.state.gate
    gone: Gone | None = call.scope.get(GONE)
    wait = _Wait()
    if gone is not None:
        gone.task = wait.task
    gate.revocations.add(call.caller, wait.end)
    began_at = time.monotonic()
    try:
        result = await waiting
    except asyncio.CancelledError:
        if gone is not None and gone.is_told:
            raise ClientGone from None
        if wait.is_over:
            wait.task.uncancel()
            raise errors.Unauthorized(REASON) from None
        raise
    finally:
        gate.revocations.remove(call.caller, wait.end)
        if gone is not None:
            gone.task = None
    # The database may have been unavailable until now, and with it the news of a revocation.
    if time.monotonic() - began_at > BELIEVED_SECONDS and not gate.is_open:
        await _check_access(call, result, undo)
    return result


async def _check_access(call: Call, result: T, undo: Callable[[T], Awaitable[None]] | None) -> None:
    is_valid = False
    try:
        is_valid = await call.state.gate.is_valid(call.caller)
    finally:
        if not is_valid and undo is not None:
            await undo(result)
    if not is_valid:
        raise errors.Unauthorized(REASON)


class _Wait:
    """One waiting call, and how the end of its access reaches it."""

    __slots__ = ("is_over", "task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.is_over = False

    def end(self) -> None:
        self.is_over = True
        self.task.cancel()
