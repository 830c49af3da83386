"""Checks periodically which background tasks are due, and runs those that it acquires."""

import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from queen import errors
from queen.engine.core import Core
from queen.engine.runtime.periodic import PeriodicTask
from queen.engine.upkeep import (
    dedup,
    evictions,
    partitions,
    producers,
    retention,
    scheduled,
    workflows,
)
from queen.engine.upkeep.expiry import expire
from queen.engine.upkeep.run import Run
from queen.settings import Settings
from queen.store.connection.database import Record

_LOG: Final = logging.getLogger("queen.engine")
_HELD_SECONDS: Final = 60.0
"""How long a task is acquired for. Each step extends that by half of it."""
_AGAIN_SECONDS: Final = 0.1
"""The pause before the next run of a task that ran out of time."""
_MOST_ERROR: Final = 1_000

_DUTIES: Final[
    Mapping[str, tuple[Callable[[Run], Awaitable[None]], Callable[[Settings], float]]]
] = {
    "retention": (retention.run, lambda each: each.retention_interval_ms / 1000),
    "evictions": (evictions.run, lambda each: each.eviction_interval_ms / 1000),
    "dedup": (dedup.run, lambda each: each.retention_interval_ms / 1000),
    "scheduled": (scheduled.run, lambda each: each.upkeep_look_seconds / 2),
    "partitions": (partitions.run, lambda each: each.retention_interval_ms / 1000),
    "producers": (producers.run, lambda each: each.retention_interval_ms / 1000),
    "traces": (expire("traces"), lambda each: each.retention_interval_ms / 1000),
    "results": (expire("results"), lambda each: each.retention_interval_ms / 1000),
    "counters": (expire("counters"), lambda each: each.retention_interval_ms / 1000),
    "workflows": (workflows.run, lambda each: each.upkeep_look_seconds / 2),
    "audit": (expire("audit"), lambda each: each.retention_interval_ms / 1000),
    "ended_workflows": (expire("ended_workflows"), lambda each: each.retention_interval_ms / 1000),
}
"""The function and interval of each task. Scheduled messages and workflows run at each check."""

DUTIES: Final = tuple(_DUTIES)


class Upkeep(PeriodicTask):
    """
    Runs the background tasks of one process that are due and that no other process has.

    A task is a row with an expiry and an epoch. Each step locks that row and names the epoch. So a
    process that was suspended does no more steps once another process has the task.
    """

    def __init__(self, core: Core, settings: Settings) -> None:
        self._core = core
        self._settings = settings
        self._holder = core.counters.process
        pause = settings.upkeep_look_seconds
        super().__init__(retry_seconds=(0.8 * pause, 1.2 * pause))

    async def look(self) -> bool:
        """Run the due tasks one after another. Returns whether more work is due immediately."""
        taken = await self._core.store.database.fetch(
            "take_duties", self._holder, DUTIES, _HELD_SECONDS
        )
        has_more = False
        for duty in taken:
            has_more |= await self._do(duty)
        return has_more

    async def _do(self, duty: Record) -> bool:
        work, interval = _DUTIES[duty["name"]]
        began = time.monotonic()
        run = Run(
            core=self._core,
            settings=self._settings,
            name=duty["name"],
            epoch=duty["epoch"],
            cursor=duty["cursor"],
            until=began + self._settings.upkeep_run_seconds,
        )
        problem: str | None = None
        try:
            await work(run)
        except errors.DutyLost:
            return False
        except errors.QueenError as error:
            problem = str(error)
        except Exception as error:
            _LOG.exception("background task %s failed", run.name)
            problem = repr(error)
        is_over = run.is_over or problem is not None
        with contextlib.suppress(errors.QueenError):
            await self._core.store.database.fetch(
                "report_duty",
                run.name,
                run.epoch,
                time.monotonic() - began,
                run.rows,
                run.lag_seconds,
                problem and problem[:_MOST_ERROR],
                run.cursor,
                interval(self._settings) if is_over else 0.0,
            )
        return not is_over

    async def run(self) -> float:
        has_more = await self.look()
        # A random pause, so that processes don't run at the same time.
        seconds = _AGAIN_SECONDS if has_more else self._settings.upkeep_look_seconds
        return seconds * random.uniform(0.8, 1.2)
