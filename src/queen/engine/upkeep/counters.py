"""Counters and samples of long ago."""

from typing import Final

from queen.engine.upkeep.run import Run

_ROWS_PER_STEP: Final = 1_000


async def run(run: Run) -> None:
    """Oldest first."""
    seconds = run.settings.analytics_retention_hours * 3600.0
    while run.has_time:
        (step,) = await run.step("forget_counters", seconds, _ROWS_PER_STEP)
        run.rows += step["removed"]
        if step["removed"] < _ROWS_PER_STEP:
            return
    run.is_over = False
