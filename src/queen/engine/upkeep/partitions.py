"""Removes partitions that were empty for long."""

from datetime import datetime
from typing import Final

from queen.engine.upkeep.run import Run

_DAY: Final = 86_400.0


async def run(run: Run) -> None:
    """For each queue in turn. A run that is out of time continues in the same queue."""
    settings = run.settings
    seconds = settings.partition_cleanup_days * _DAY
    place = run.cursor or {}
    at = datetime.fromisoformat(place["at"]) if "at" in place else None
    after = place.get("partition_id")
    async for queue in run.queues("emptied_queues"):
        if queue["id"] != int(place.get("queue_id", 0)) + 1:
            at, after = None, None
        while True:
            (step,) = await run.step(
                "remove_partitions", queue["id"], seconds, at, after, settings.retention_batch_size
            )
            run.rows += step["removed"]
            if step["is_over"]:
                break
            at, after = step["after_at"], step["after_id"]
            run.lag_seconds = max(run.lag_seconds, step["lag_seconds"])
            if not run.has_time:
                run.is_over = False
                run.cursor = {
                    "queue_id": queue["id"] - 1,
                    "at": at.isoformat(),
                    "partition_id": after,
                }
                return
        at, after = None, None
