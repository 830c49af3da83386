"""Deadlines of calls, with one timer for all of them."""

import asyncio
from typing import Final

from queen.store.connection.connection import Connection

_STEP_SECONDS: Final = 0.25
"""A deadline is noticed at most this much later. A timer per call would cost 3 µs."""


class Deadlines:
    """Closes the connections of calls that get no response in time."""

    def __init__(self) -> None:
        self._ends: dict[Connection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, connection: Connection, seconds: float) -> None:
        """A call begins on this connection."""
        loop = asyncio.get_running_loop()
        self._ends[connection] = loop.time() + seconds
        if self._timer is None:
            self._timer = loop.call_later(min(_STEP_SECONDS, seconds), self._check, loop)

    def end(self, connection: Connection) -> bool:
        """The call has ended. Returns False if that was because of its deadline."""
        return self._ends.pop(connection, None) is not None

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [each for each, end in self._ends.items() if end <= now]:
            del self._ends[connection]
            # Not cancelled: PostgreSQL would report a commit that waits for a standby as done.
            connection.terminate()
        # An idle process has no timer.
        self._timer = loop.call_later(_STEP_SECONDS, self._check, loop) if self._ends else None
