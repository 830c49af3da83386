"""Evicts messages that waited longer than their queue allows: to the dead letters, or dropped."""

from typing import Final

from queen.engine.upkeep.run import Run
from queen.store.connection.database import Record

_PARTITIONS_PER_STEP: Final = 200


async def run(run: Run) -> None:
    """For each queue in turn, until no message is due."""
    async for queue in run.queues("impatient_queues"):
        await _evict(run, queue)


async def _evict(run: Run, queue: Record) -> None:
    messages = run.settings.eviction_batch_size
    while run.has_time:
        (step,) = await run.step("evict", queue["id"], _PARTITIONS_PER_STEP, messages)
        run.rows += step["messages"]
        for group_id, count in zip(step["group_ids"], step["counts"], strict=True):
            run.core.counters.count_evicted(group_id, count, is_kept=step["is_kept"])
        if step["is_over"]:
            return
        run.lag_seconds = max(run.lag_seconds, step["lag_seconds"])
    run.is_over = False
