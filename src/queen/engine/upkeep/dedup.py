"""Deletes deduplication keys older than every window, by truncating their generation."""

from typing import Final

from queen.engine.upkeep.run import Run

_CLASSES: Final = range(4)


async def run(run: Run) -> None:
    """Truncate one generation of each class, unless it is empty."""
    for class_ in _CLASSES:
        (step,) = await run.step("forget_generation", class_)
        run.rows += int(step["is_truncated"])
