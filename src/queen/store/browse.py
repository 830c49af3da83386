"""Reads without consuming: segments, newest first, and the positions of groups."""

from collections.abc import Sequence
from datetime import datetime

from queen.store.connection.database import Database, Record


class Browse:
    """Read-only views of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest_segments(
        self, queue_id: int, *, xid: int, partition_id: int, base_offset: int, limit: int
    ) -> list[Record]:
        """Segments of a queue, newest first, from a position on."""
        return await self._database.fetch(
            "newest_segments", queue_id, str(xid), partition_id, base_offset, limit
        )

    async def newest_of_partition(
        self, partition_id: int, *, base_offset: int, limit: int
    ) -> list[Record]:
        return await self._database.fetch(
            "newest_segments_of_partition", partition_id, base_offset, limit
        )

    async def segment_at(self, partition_id: int, offset: int) -> Record | None:
        rows = await self._database.fetch("segment_at", partition_id, offset)
        return rows[0] if rows else None

    async def positions(self, partition_ids: Sequence[int], group: str | None) -> list[Record]:
        return await self._database.fetch("positions", partition_ids, group)

    async def deliveries(self, partition_ids: Sequence[int]) -> list[Record]:
        return await self._database.fetch("deliveries_of", partition_ids)

    async def dead_offsets(
        self, partition_ids: Sequence[int], firsts: Sequence[int], ends: Sequence[int]
    ) -> list[Record]:
        return await self._database.fetch("dead_offsets_of", partition_ids, firsts, ends)

    async def partition(self, partition_id: int) -> Record | None:
        """A partition with the name of its queue."""
        rows = await self._database.fetch("partition_with_id", partition_id)
        return rows[0] if rows else None

    async def partitions(self, partition_ids: Sequence[int]) -> list[Record]:
        return await self._database.fetch("partitions_with_ids", partition_ids)

    async def partition_ids(self, queue_id: int, partition: str) -> list[int]:
        """The ids of a partition, one per priority, highest first."""
        rows = await self._database.fetch("ids_of_partition", queue_id, partition)
        return [row["id"] for row in rows]

    async def scheduled(
        self, queue_id: int, *, due_at: datetime, after: int, limit: int
    ) -> list[Record]:
        return await self._database.fetch("list_scheduled", queue_id, due_at, after, limit)

    async def scheduled_one(self, scheduled_id: int) -> Record | None:
        rows = await self._database.fetch("scheduled_with_id", scheduled_id)
        return rows[0] if rows else None

    async def withdraw(self, scheduled_id: int) -> bool:
        rows = await self._database.fetch("withdraw", scheduled_id)
        return rows[0]["is_deleted"]

    async def find(self, partition_id: int, transaction_id: str, most: int) -> Record | None:
        """An offset, or the id of a scheduled message."""
        rows = await self._database.fetch("find_message", partition_id, transaction_id, most)
        return rows[0] if rows else None

    async def named(
        self, transaction_id: str, partitions: int, patterns: Sequence[str] | None
    ) -> list[Record]:
        """Up to two messages with this transactionId in the newest partitions."""
        return await self._database.fetch("named_messages", transaction_id, partitions, patterns)

    async def retry(self, partition_id: int, offset: int, group: str) -> int | None:
        """The group that gets the message again. None if the message does not wait for a retry."""
        rows = await self._database.fetch("retry", partition_id, offset, group)
        return rows[0]["group_id"] if rows else None

    async def give_up(
        self, partition_id: int, offset: int, group: str, error: str | None
    ) -> int | None:
        """The group. None if it got positions in more partitions instead: call again."""
        rows = await self._database.fetch("give_up", partition_id, offset, group, error)
        return rows[0]["group_id"]

    async def redact(self, partition_id: int, offset: int, *rest: object) -> bool:
        """Returns False if the segment was cut since it was read."""
        rows = await self._database.fetch("redact", partition_id, offset, *rest)
        return rows[0]["is_done"]

    async def redactions(self, after: int, limit: int) -> list[Record]:
        """Partition id and offset of messages that were redacted after this redaction."""
        return await self._database.fetch("redactions", after, limit)
