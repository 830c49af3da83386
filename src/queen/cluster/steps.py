"""Steps of workflows that are in another database than the messages of the steps."""

from collections.abc import Sequence

from queen import errors
from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.wire.messages import Acknowledgment
from queen.wire.transactions import AdvanceOperation

Elsewhere = dict[Engine, list[int]]
"""The numbers of the advances whose workflows another database has."""


async def find_elsewhere(
    cluster: Cluster, engine: Engine, advances: Sequence[AdvanceOperation]
) -> Elsewhere:
    """
    Find the workflows that this engine lacks, because a slot has moved.

    Raises BadRequest for an invalid advance, and DatabaseUnavailable if an unavailable database may
    have one of them.
    """
    found: Elsewhere = {}
    if cluster.is_alone:
        return found
    missing = {each.workflow for each in engine.workflows.advances(advances)}
    missing -= await engine.store.workflows.open_of([*missing])
    for other in cluster.engines.values():
        if missing and other is not engine:
            theirs = await other.store.workflows.open_of([*missing])
            missing -= theirs
            if numbers := [at for at, each in enumerate(advances) if each.workflow in theirs]:
                found[other] = numbers
    return found


async def advance_elsewhere(
    engine: Engine,
    elsewhere: Elsewhere,
    advances: Sequence[AdvanceOperation],
    acknowledgments: Sequence[Acknowledgment],
    consumer_group: str | None,
) -> set[int]:
    """
    Advance these steps before their messages are acknowledged. Returns the numbers of stale ones.

    If the acknowledgments fail after that, the messages are redelivered and their advances are
    stale.
    """
    foreign = [advances[at] for numbers in elsewhere.values() for at in numbers]
    try:
        await engine.check_steps(acknowledgments, foreign, consumer_group=consumer_group)
    except (errors.LeaseLost, errors.AlreadySettled, errors.MessageNotFound):
        return set()  # The transaction fails too, or is a repeat of one that was applied.
    stale: set[int] = set()
    for other, numbers in elsewhere.items():
        late = await other.advance([advances[at] for at in numbers])
        stale |= {numbers[at] for at in late}
    return stale
