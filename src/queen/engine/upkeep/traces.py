"""Events of messages that were recorded long ago."""

from typing import Final

from queen.engine.upkeep.run import Run

_TRACES_PER_STEP: Final = 1_000


async def run(run: Run) -> None:
    """Oldest first."""
    seconds = run.settings.trace_retention_hours * 3600.0
    while run.has_time:
        (step,) = await run.step("forget_traces", seconds, _TRACES_PER_STEP)
        run.rows += step["removed"]
        if step["removed"] < _TRACES_PER_STEP:
            return
    run.is_over = False
