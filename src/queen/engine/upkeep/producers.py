"""Deletes the sequences of idempotent producers that were inactive for long."""

from typing import Final

from queen.engine.upkeep.run import Run

_PRODUCERS_PER_STEP: Final = 1_000


async def run(run: Run) -> None:
    """Scan the table from start to end, in several runs if needed."""
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
            # Not urgent: continue at the usual interval.
            run.cursor = {"after": after}
            return
