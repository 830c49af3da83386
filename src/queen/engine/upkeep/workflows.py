"""Handles workflow steps that waited too long for a signal, or whose message was deleted."""

from typing import Final

from queen.engine.upkeep.run import Run

_STEPS_PER_STEP: Final = 200


async def run(run: Run) -> None:
    """The longest overdue steps first."""
    while run.has_time:
        (step,) = await run.step("see_to_steps", _STEPS_PER_STEP)
        run.rows += step["looked"]
        run.core.signals.workflows_ended(step["ended"])
        if step["looked"] < _STEPS_PER_STEP:
            return
    run.is_over = False
