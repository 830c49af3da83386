"""End waiting calls and WebSockets whose key or token is no longer accepted."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from queen import tasks
from queen.server import logs
from queen.server.auth.api_keys import Keys
from queen.server.auth.permissions import Caller
from queen.telemetry import Event

CHECK_SECONDS: Final = 0.4
"""Interval of the checks. Documentation promises one second, including the statement."""
REASON: Final = (
    "The API key was revoked, rotated, restricted or has expired, or the token has expired."
)

End = Callable[[], None]


class Revocations:
    """
    Waiting callers. Calls with the same secret or token and the same permissions share an entry.

    One task checks all of them with one statement, and runs only while a call waits. NOTIFY would
    be faster, but does not work through PgBouncer (decision 0010).
    """

    def __init__(self, keys: Keys | None) -> None:
        self._keys = keys
        self._waiting: dict[Caller, set[End]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._waiting

    def add(self, caller: Caller, end: End) -> None:
        """Call ``end`` when the caller's key or token is not accepted or permits less."""
        if caller.digest is None and caller.until is None:
            return
        self._waiting.setdefault(caller, set()).add(end)
        if self._task is None:
            self._task = asyncio.create_task(self._check_while_waiting())

    def remove(self, caller: Caller, end: End) -> None:
        """Stop checking this caller."""
        ends = self._waiting.get(caller)
        if ends is not None:
            ends.discard(end)
            if not ends:
                del self._waiting[caller]

    async def close(self) -> None:
        await tasks.stop(self._task)

    async def _check_while_waiting(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(CHECK_SECONDS)
                try:
                    await self._check()
                except Exception as error:
                    # The next check may succeed.
                    logs.get().error(Event.UNEXPECTED, error=error)
        finally:
            self._task = None

    async def _check(self) -> None:
        callers = list(self._waiting)
        now = time.time()
        ended = [each for each in callers if (each.until or now + 1) <= now]
        if self._keys is not None:
            ended += await self._keys.revoked([each for each in callers if each.key_id])
        for caller in ended:
            for end in tuple(self._waiting.pop(caller, ())):
                end()
