"""Idempotent producers that were not heard of for long: their last sequence is forgotten."""

from typing import Final

from queen.engine.upkeep.run import Run

_PRODUCERS_PER_STEP: Final = 1_000


async def run(run: Run) -> None:
    """From one end of the table to the other, in as many runs as it takes."""
    after: str | None = (run.cursor or {}).get("after")
    run.cursor = None
    while True:
        (step,) = await run.step(
            "forget_producers",
            run.settings.producer_ttl_seconds,
            after,
            _PRODUCERS_PER_STEP,
        )
        run.rows += step["removed"]
        if step["looked"] < _PRODUCERS_PER_STEP:
            return
        after = step["last"]
        if not run.has_time:
            # Nothing of it is urgent: on with it at the usual time.
            run.cursor = {"after": after}
            return
