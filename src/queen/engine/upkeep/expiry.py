"""Deletes rows with a limited lifetime, oldest first: audit records, counters, traces and more."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from queen.engine.upkeep.run import Run
from queen.settings import Settings


@dataclass(frozen=True)
class Expiry:
    """One kind of rows."""

    call: str
    """The statement that deletes a batch, given the age and the size of the batch."""
    hours: Callable[[Settings], float] | None
    """How long they are kept. None if each row has its own expiry."""
    batch: int = 1_000


EXPIRIES: Final = {
    "audit": Expiry("forget_audit", lambda each: each.audit_retention_hours),
    "counters": Expiry("forget_counters", lambda each: each.analytics_retention_hours),
    "traces": Expiry("forget_traces", lambda each: each.trace_retention_hours),
    "results": Expiry("forget_results", None),
    "ended_workflows": Expiry(
        "forget_workflows", lambda each: each.workflow_retention_hours, batch=500
    ),
}


def expire(name: str) -> Callable[[Run], Awaitable[None]]:
    """A task that deletes the expired rows of this kind."""
    expiry = EXPIRIES[name]

    async def run(run: Run) -> None:
        age = () if expiry.hours is None else (expiry.hours(run.settings) * 3600.0,)
        await delete_in_batches(run, expiry.call, *age, batch=expiry.batch)

    return run


async def delete_in_batches(run: Run, call: str, *arguments: object, batch: int) -> None:
    """Delete batches until one is not full, or the time is up."""
    while run.has_time:
        (step,) = await run.step(call, *arguments, batch)
        run.rows += step["removed"]
        if step["removed"] < batch:
            return
    run.is_over = False
