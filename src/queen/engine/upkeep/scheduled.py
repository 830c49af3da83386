"""Scheduled messages whose time has come, also where no pop takes them: so depths are true."""

from typing import Final

from queen.engine.upkeep.run import Run

_MESSAGES_PER_STEP: Final = 1_000


async def run(run: Run) -> None:
    """Queue by queue; one that has more than a step promotes gets another."""
    after = 0
    while run.has_time:
        rows = await run.step("promote_due", after, _MESSAGES_PER_STEP)
        if not rows:
            return
        queue_id, messages = rows[0]["queue_id"], rows[0]["messages"]
        run.rows += messages
        if messages:
            run.core.signals.messages_stored([queue_id], is_new=True)
        # Again if there may be more; what is locked now is for the next run.
        after = queue_id - 1 if messages >= _MESSAGES_PER_STEP else queue_id
        if messages >= _MESSAGES_PER_STEP:
            run.lag_seconds = max(run.lag_seconds, rows[0]["lag_seconds"])
    run.is_over = False
