"""End waiting calls and WebSockets whose key or token is no longer accepted."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from queen import tasks
from queen.server import logs
from queen.server.auth.api_keys import Keys
from queen.server.auth.permissions import Caller
from queen.telemetry import Event

CHECK_SECONDS: Final = 0.4
"""Interval of the checks. Documentation promises one second, including the statement."""
REASON: Final = "The API key was revoked, rotated or has expired, or the token has expired."

End = Callable[[], None]


class _Group(NamedTuple):
    """All waiting calls with the same key or token, checked together."""

    caller: Caller
    ends: set[End]


class Revocations:
    """
    Waiting callers, by their secret or token.

    One task checks all of them with one statement, and runs only while a call waits. NOTIFY would
    be faster, but does not work through PgBouncer (decision 0010).
    """

    def __init__(self, keys: Keys | None) -> None:
        self._keys = keys
        self._groups: dict[bytes | float, _Group] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._groups

    def add(self, caller: Caller, end: End) -> None:
        """Call ``end`` when the caller's key or token is no longer accepted."""
        credential = caller.digest or caller.until
        if credential is None:
            return
        group = self._groups.get(credential)
        if group is None:
            group = self._groups[credential] = _Group(caller, set())
        group.ends.add(end)
        if self._task is None:
            self._task = asyncio.create_task(self._check_while_waiting())

    def remove(self, caller: Caller, end: End) -> None:
        """Stop checking this caller."""
        credential = caller.digest or caller.until
        group = None if credential is None else self._groups.get(credential)
        if credential is not None and group is not None:
            group.ends.discard(end)
            if not group.ends:
                del self._groups[credential]

    async def close(self) -> None:
        await tasks.stop(self._task)

    async def _check_while_waiting(self) -> None:
        try:
            while self._groups:
                await asyncio.sleep(CHECK_SECONDS)
                try:
                    await self._check()
                except Exception as error:
                    # The next check may succeed.
                    logs.get().error(Event.UNEXPECTED, error=error)
        finally:
            self._task = None

    async def _check(self) -> None:
        groups = list(self._groups.values())
        now = time.time()
        ended = [each.caller for each in groups if (each.caller.until or now + 1) <= now]
        if self._keys is not None:
            ended += await self._keys.revoked(
                [each.caller for each in groups if each.caller.key_id]
            )
        for caller in ended:
            group = self._groups.pop(caller.digest or caller.until or 0.0, None)
            for end in () if group is None else tuple(group.ends):
                end()
