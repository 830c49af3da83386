"""Deletes messages after their retention: by age, or once every group has settled them."""

from typing import Final

from queen.engine.upkeep.expiry import delete_in_batches
from queen.engine.upkeep.run import Run
from queen.store.connection.database import Record

_FORGOTTEN_PER_STEP: Final = 5_000


async def run(run: Run) -> None:
    """For each queue in turn, until no message is due."""
    async for queue in run.queues("kept_queues"):
        for kind, is_on in (("age", queue["is_by_age"]), ("completed", queue["is_completed"])):
            if is_on:
                await _remove(run, queue, kind)
    # The removed ranges are kept for a limited time.
    rows = run.rows
    seconds = run.settings.removals_kept_hours * 3600.0
    await delete_in_batches(run, "forget_removals", seconds, batch=_FORGOTTEN_PER_STEP)
    run.rows = rows


async def _remove(run: Run, queue: Record, kind: str) -> None:
    settings = run.settings
    again = max(1.0, settings.retention_interval_ms / 1000)
    while run.has_time:
        (step,) = await run.step("retain", queue["id"], kind, settings.retention_batch_size, again)
        run.rows += step["messages"]
        if step["is_over"]:
            return
        run.lag_seconds = max(run.lag_seconds, step["lag_seconds"])
    run.is_over = False
