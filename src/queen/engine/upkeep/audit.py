"""Remove records of the audit log that are older than the retention."""

from typing import Final

from queen.engine.upkeep.run import Run

_RECORDS_PER_STEP: Final = 1_000


async def run(run: Run) -> None:
    """Oldest first; the chain of hashes goes on from the last record that was removed."""
    seconds = run.settings.audit_retention_hours * 3600.0
    while run.has_time:
        (step,) = await run.step("forget_audit", seconds, _RECORDS_PER_STEP)
        run.rows += step["removed"]
        if step["removed"] < _RECORDS_PER_STEP:
            return
    run.is_over = False
