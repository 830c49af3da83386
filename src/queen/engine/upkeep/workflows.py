"""Steps that waited too long or whose message is gone, and workflows that ended long ago."""

from typing import Final

from queen.engine.upkeep.run import Run

_STEPS_PER_STEP: Final = 200
_ROWS_PER_STEP: Final = 500


async def run(run: Run) -> None:
    """What is due first; then what is old."""
    while run.has_time:
        (step,) = await run.step("see_to_steps", _STEPS_PER_STEP)
        run.rows += step["looked"]
        run.engine.workflows.stir(is_over=bool(step["ended"]))
        if step["looked"] < _STEPS_PER_STEP:
            break
    seconds = run.settings.workflow_retention_hours * 3600.0
    while run.has_time:
        (step,) = await run.step("forget_workflows", seconds, _ROWS_PER_STEP)
        run.rows += step["removed"]
        if step["removed"] < _ROWS_PER_STEP:
            return
    run.is_over = False
