"""Keys of deduplication that no window reaches any more: their generation is truncated whole."""

from typing import Final

from queen.engine.upkeep.run import Run

_CLASSES: Final = range(4)


async def run(run: Run) -> None:
    """One generation of each class, if it has anything in it."""
    for class_ in _CLASSES:
        (step,) = await run.step("forget_generation", class_)
        run.rows += int(step["is_truncated"])
