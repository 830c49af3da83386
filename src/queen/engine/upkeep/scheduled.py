"""Promotes due scheduled messages even without pops, so that depths are correct."""

from typing import Final

from queen.engine.upkeep.run import Run

_MESSAGES_PER_STEP: Final = 1_000


async def run(run: Run) -> None:
    """Queue by queue. A queue with more messages than a step promotes gets another step."""
    after = 0
    while run.has_time:
        rows = await run.step("promote_due", after, _MESSAGES_PER_STEP)
        if not rows:
            return
        queue_id, messages = rows[0]["queue_id"], rows[0]["messages"]
        run.rows += messages
        if messages:
            run.core.signals.messages_stored([queue_id], is_new=True)
        # Repeat the queue if it may have more. Locked messages wait for the next run.
        after = queue_id - 1 if messages >= _MESSAGES_PER_STEP else queue_id
        if messages >= _MESSAGES_PER_STEP:
            run.lag_seconds = max(run.lag_seconds, rows[0]["lag_seconds"])
    run.is_over = False
