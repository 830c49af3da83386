"""Stored outcomes of messages: results, progress, cancellations."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from queen.store.connection.database import Database, Record


class Place(NamedTuple):
    """Where a message is: in a partition, or among the scheduled ones."""

    partition_id: int
    offset: int | None
    scheduled_id: int | None = None


class Results:
    """The results of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(
        self, messages: Sequence[tuple[int, str, int | None, int | None]], group: str
    ) -> list[Record]:
        """The outcomes of messages, by queue, transactionId, and position if it is known."""
        columns = map(list, zip(*messages, strict=True))
        return await self._database.fetch("find_results", *columns, group)

    async def find_place(
        self, queue_id: int, partition: str, transaction_id: str, most: int
    ) -> Place | None:
        """The position of the message with a transactionId."""
        rows = await self._database.fetch("find_place", queue_id, partition, transaction_id, most)
        return Place(*rows[0]) if rows else None

    async def find_places(self, messages: Sequence[tuple[int, str, str]]) -> list[Place | None]:
        """The position of each message (queue id, transactionId, partition), by its key."""
        rows = await self._database.fetch("find_places", *map(list, zip(*messages, strict=True)))
        return [None if row["partition_id"] is None else Place(*row) for row in rows]

    async def cancel(
        self, queue_id: int, transaction_id: str, group: str, place: Place, seconds: float
    ) -> Record | None:
        """The former state and the group. None if the message has moved: find it again."""
        is_scheduled = place.scheduled_id is not None
        rows = await self._database.fetch(
            "cancel",
            queue_id,
            transaction_id,
            group,
            place.scheduled_id,
            None if is_scheduled else place.partition_id,
            place.offset,
            seconds,
        )
        return rows[0] if rows else None

    async def erase(self, partition_id: int, transaction_id: str) -> None:
        """Delete the stored outcome of a message in this partition."""
        await self._database.fetch("erase_result", partition_id, transaction_id)

    async def cancelled(self, messages: Sequence[tuple[str, int, int]]) -> list[int]:
        """The indexes of cancelled messages among (transactionId, partition id, offset)."""
        if not messages:
            return []
        rows = await self._database.fetch("cancelled", *map(list, zip(*messages, strict=True)))
        return [row["ordinal"] - 1 for row in rows]

    async def report_progress(
        self,
        lease: tuple[int, UUID],
        transaction_id: str,
        place: Place,
        progress: bytes,
        seconds: float,
    ) -> bool:
        """Returns False if the lease is lost or does not contain the message any more."""
        rows = await self._database.fetch(
            "report_progress",
            *lease,
            transaction_id,
            place.partition_id,
            place.offset,
            progress,
            seconds,
        )
        return rows[0]["is_kept"]

    async def work_figures(self, queue_ids: Sequence[int], group: str, most: int) -> list[Record]:
        """Counts of pending work per queue. A count is None if it would need too many rows."""
        return await self._database.fetch("work_figures", queue_ids, group, most)
