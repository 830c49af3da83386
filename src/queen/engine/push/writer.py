"""Writes pending pushes as segments, in one transaction with the caller's other changes."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from queen import errors
from queen.codec.encryption.keys import DataKey
from queen.engine.caches.catalogue import Partition
from queen.engine.core import Core
from queen.engine.push.batches import PendingPush
from queen.engine.push.layout import SegmentLayout
from queen.engine.runtime.moved_slots import slot_of
from queen.store.connection.database import Record
from queen.store.messages import Push

_ATTEMPTS: Final = 10

Send = Callable[[Push], Awaitable[list[Record]]]
LeaveOut = Callable[[list[PendingPush], Mapping[str, errors.QueenError]], list[PendingPush]]
Retry = Callable[[SegmentLayout, Sequence[Record]], Awaitable[list[PendingPush]]]


class Writer:
    """
    The only writer of the log.

    The database rejects a whole call if one message in it is a duplicate, belongs to a removed
    partition, and so on. Then it stores no message, and the writer sends the rest again.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def write(
        self,
        units: list[PendingPush],
        send: Send,
        *,
        leave_out: LeaveOut | None = None,
        retry: Retry | None = None,
        applied: Sequence[str] = ("stored",),
        has_windows: bool = False,
    ) -> list[Record] | None:
        """
        Write the units. Returns the rows of the applied call, or None after too many attempts.

        ``leave_out``: returns the units without those of queues that have a problem, for example
        because their slot has moved. If it is missing, the first problem is raised. ``retry``:
        returns the units to send again after a rejection. ``applied``: kinds of rows that a call
        returns only if it applied everything. ``has_windows``: ``send`` sends all of the push, so
        its keys can be compared in memory.
        """
        core = self._core
        leave_out = leave_out or _raise_first
        for attempt in range(_ATTEMPTS):
            names = [part.name for unit in units for part in unit.parts]
            try:
                partitions = await core.catalogue.partitions(names)
                lost = {name[0] for name in names if name not in partitions}
                if lost and core.settings.auto_create:
                    continue  # Deleted while it was created.
                if lost:
                    units = leave_out(units, await self._missing(lost))
                self._check_slots(units, partitions)
                data_keys, problems = await self._data_keys(units)
                if problems:
                    units = leave_out(units, problems)
                layout = SegmentLayout(units, partitions, core.settings, data_keys)
                if has_windows and layout.push.keys:
                    await core.windows.compare(layout.push, attempt)
                rows = await send(layout.push)
            except errors.SlotMoved as error:
                units = leave_out(units, await self._moved(units, error))
                continue
            core.windows.note(layout.push, rows)
            if not rows or rows[0]["kind"] in applied:
                self._finish(layout, rows)
                return rows
            units = await retry(layout, rows) if retry else layout.without(rows, core.catalogue)
        return None

    def _check_slots(
        self, units: Iterable[PendingPush], partitions: Mapping[tuple[str, str, int], Partition]
    ) -> None:
        """Raise SlotMoved for a request that was divided by slot before a partition was pinned."""
        for unit in units:
            slot = None if unit.producer is None else unit.producer.slot
            for part in unit.parts if slot is not None else ():
                found = partitions.get(part.name)
                if found is not None and slot_of(found.partition_id) != slot:
                    # It may also have been removed, and pinned before it is created again.
                    self._core.catalogue.forget_partitions([found.partition_id])
                    raise errors.SlotMoved(f"partition {part.name[1]} is in another slot now")

    async def _data_keys(
        self, units: Iterable[PendingPush]
    ) -> tuple[dict[int, DataKey], dict[str, errors.QueenError]]:
        """The keys of encrypted queues, and the error of each queue without one."""
        keys, problems = await self._core.sealer.keys(_counts(units))
        missing = [
            queue for queue, error in problems.items() if isinstance(error, errors.QueueNotFound)
        ]
        if missing:
            problems |= await self._missing(missing)
        return keys, problems

    async def _moved(
        self, units: Iterable[PendingPush], error: errors.SlotMoved
    ) -> dict[str, errors.QueenError]:
        """The error for each queue of the units whose slot has moved. Raises it if all are here."""
        known = self._core.catalogue.partition
        names = {part.name for unit in units for part in unit.parts}
        moved = {
            name[0]
            for name in names
            if (found := known(name)) is not None and slot_of(found.partition_id) in error.slots
        }
        # The slots of queues with only new partitions are not cached.
        moved = moved or await self._core.store.queues.moved({name[0] for name in names})
        if not moved:
            raise error
        return dict.fromkeys(moved, error)

    async def _missing(self, queues: Collection[str]) -> dict[str, errors.QueenError]:
        """The error for each of the queues, which are not stored here."""
        moved = await self._core.store.queues.moved(queues)
        return {
            queue: errors.SlotMoved(f"queue {queue} is in another database now")
            if queue in moved
            else errors.QueueNotFound(f"queue {queue} does not exist")
            for queue in queues
        }

    def _finish(self, layout: SegmentLayout, rows: Sequence[Record]) -> None:
        """Set the positions of messages, wake consumers and count."""
        core = self._core
        if not layout.push.is_empty:  # All messages may have been duplicates.
            layout.place([row for row in rows if row["kind"] == "stored"], core.segments)
            is_new = not layout.push.scheduled_partition_ids
            core.signals.messages_stored(layout.queue_ids, is_new=is_new)
        partition_of, count_pushed = core.catalogue.partition, core.counters.count_pushed
        for unit in layout.units:
            for part in unit.parts:
                if (partition := partition_of(part.name)) is not None:
                    # Most parts have no extras and need less counting.
                    stored, duplicates = part.counts if part.marked else (len(part.payloads), 0)
                    count_pushed(partition.queue_id, part.queue, stored, duplicates)


def contended(what: str) -> errors.Overloaded:
    """The error for a write that was rejected too often."""
    return errors.Overloaded(
        f"{what} met duplicates or removed partitions at every attempt. Try again later."
    )


def _raise_first(
    units: list[PendingPush], problems: Mapping[str, errors.QueenError]
) -> list[PendingPush]:
    del units
    raise next(iter(problems.values()))


def _counts(units: Iterable[PendingPush]) -> dict[str, int]:
    """The number of messages per queue."""
    counts: dict[str, int] = {}
    for unit in units:
        for part in unit.parts:
            held = len(part.marked.scheduled) if part.marked else 0
            counts[part.queue] = counts.get(part.queue, 0) + len(part.items) + held
    return counts
