"""Workflows that ended long ago."""

from typing import Final

from queen.engine.upkeep.run import Run

_ROWS_PER_STEP: Final = 500


async def run(run: Run) -> None:
    """Oldest first, with their steps and parts."""
    seconds = run.settings.workflow_retention_hours * 3600.0
    while run.has_time:
        (step,) = await run.step("forget_workflows", seconds, _ROWS_PER_STEP)
        run.rows += step["removed"]
        if step["removed"] < _ROWS_PER_STEP:
            return
    run.is_over = False
