"""Results whose time is over."""

from typing import Final

from queen.engine.upkeep.run import Run

_RESULTS_PER_STEP: Final = 1_000


async def run(run: Run) -> None:
    """The longest over first."""
    while run.has_time:
        (step,) = await run.step("forget_results", _RESULTS_PER_STEP)
        run.rows += step["removed"]
        if step["removed"] < _RESULTS_PER_STEP:
            return
    run.is_over = False
