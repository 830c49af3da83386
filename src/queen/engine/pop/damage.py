"""Messages that were claimed and cannot be decoded: reported, counted and set aside."""

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from queen import errors, telemetry
from queen.engine.core import Core
from queen.engine.pop.waiters import PendingPop, Target
from queen.engine.runtime.moved_slots import without_moved
from queen.store import messages as rows

_LOG: Final = logging.getLogger("queen.engine")
RETRY_SECONDS: Final = 60.0
"""After this time the messages are claimed again, because an operator may have repaired them."""


class Damaged(NamedTuple):
    """A range of a delivery that cannot be decoded."""

    row: rows.Record
    is_first: bool
    """Whether the delivery begins with it."""
    error: errors.MessagesDamaged


class Damage:
    """
    Keeps a damaged segment from blocking a queue.

    Messages before the damage are delivered. The damaged ones are never skipped: an ordered
    partition waits behind them, an unordered queue delivers the others.
    """

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._counters = core.counters
        self._signals = core.signals

    async def set_aside(
        self,
        target: Target,
        units: Sequence[PendingPop],
        damaged: Sequence[Damaged],
        is_served: Sequence[bool],
    ) -> None:
        """Report the damage, release the partition, and fail requests without other messages."""
        cut: list[rows.Record] = []
        aside: list[rows.Record] = []
        for each in damaged:
            self._report(target, each)
            if each.row["delivery_id"] is not None:
                (aside if each.is_first else cut).append(each.row)
        ends = [(*_lease(row), row["first_offset"]) for row in cut]
        ends += [(*_lease(row), row["end_offset"]) for row in aside]
        if ends:
            await without_moved(ends, lambda end: end[0], self._store.messages.shorten)
        if aside:
            await without_moved(
                [_lease(row) for row in aside],
                lambda lease: lease[0],
                lambda leases: self._store.messages.defer(leases, RETRY_SECONDS),
            )
        for row, _, error in damaged:
            request: int = row["request"] - 1
            if is_served[request]:
                continue
            if row["delivery_id"] is None:
                units[request].fail(errors.OutcomeUnknown(f"acknowledged by the pop, but {error}"))
            else:
                units[request].fail(error)
        self._signals.groups_ready({each.row["group_id"] for each in damaged})

    def _report(self, target: Target, damaged: Damaged) -> None:
        row = damaged.row
        queue = target.queues[row["group_id"]]
        count = row["end_offset"] - row["first_offset"]
        self._counters.count_damaged(row["group_id"], queue, target.group, count)
        _LOG.error(
            "queue %s, group %s, partition %s (id %d): cannot decode %d messages from offset %d;"
            " repair the segment or seek the group past them: %s",
            queue,
            target.group,
            row["partition"],
            row["partition_id"],
            count,
            row["first_offset"],
            damaged.error,
            extra={"event": telemetry.Event.MESSAGES_DAMAGED},
        )


def _lease(row: rows.Record) -> tuple[int, UUID]:
    return row["delivery_id"], row["token"]
