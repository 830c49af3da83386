"""One run of a background task: limited in time, one transaction per step, under its epoch."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from queen.engine.core import Core
from queen.settings import Settings
from queen.store.connection.database import Record

_REST: Final = 1.0
"""The pause after a step, relative to its duration, to limit the load on the database."""
_LONGEST_REST: Final = 0.25
_QUEUES_PER_CALL: Final = 200


@dataclass
class Run:
    """The input of a background task, and its progress."""

    core: Core
    settings: Settings
    name: str
    epoch: int
    cursor: dict[str, Any] | None
    """Where the last run of this task stopped, if it did not finish."""
    until: float
    """By the monotonic clock. No step starts later."""
    rows: int = 0
    lag_seconds: float = 0.0
    is_over: bool = True
    """False: there is more to do, so the next run is due immediately."""

    @property
    def has_time(self) -> bool:
        return time.monotonic() < self.until

    async def step(self, call: str, *arguments: object) -> list[Record]:
        """Run one transaction. Raises DutyLost if another process has the task by now."""
        began = time.monotonic()
        rows = await self.core.store.database.fetch(call, self.epoch, *arguments)
        rest = min(_LONGEST_REST, _REST * (time.monotonic() - began))
        await asyncio.sleep(rest)
        return rows

    async def queues(self, call: str) -> AsyncIterator[Record]:
        """The queues that a call lists, by id, while there is time."""
        after = int((self.cursor or {}).get("queue_id", 0))
        self.cursor = None
        while rows := await self.core.store.database.fetch(call, after, _QUEUES_PER_CALL):
            for row in rows:
                if not self.has_time:
                    self.is_over = False
                    # The next run starts with this queue.
                    self.cursor = {"queue_id": row["id"] - 1}
                    return
                yield row
                after = row["id"]
            if len(rows) < _QUEUES_PER_CALL:
                return
