"""Dead letters: list, redrive, purge."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from queen.store.connection.database import Database, Record


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for the dead letters of a queue."""

    group: str | None = None
    partition: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def columns(self) -> tuple[object, ...]:
        return self.group, self.partition, self.fingerprint, self.since, self.until


class DeadLetters:
    """The dead letters of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_queue(
        self, queue_id: int, *, after: int, group: str | None, limit: int
    ) -> list[Record]:
        return await self._database.fetch("dead_letters", queue_id, after, group, limit)

    async def redrive(self, ids: Sequence[int]) -> list[Record]:
        return await self._database.fetch("redrive", ids)

    async def browse(
        self,
        queue: str | None,
        wanted: LetterFilter,
        *,
        after: int,
        is_oldest_first: bool,
        limit: int,
        most: int,
        patterns: Sequence[str] | None = None,
    ) -> list[Record]:
        """Dead letters after an id. The first row has the scanned count and the last id."""
        rest = (after, *wanted.columns(), limit, most, is_oldest_first)
        if queue is None and patterns is None:
            return await self._database.fetch("browse_all_dead_letters", *rest)
        if queue is None:
            return await self._database.fetch("browse_visible_dead_letters", *rest, patterns)
        return await self._database.fetch("browse_dead_letters", queue, *rest)

    async def with_ids(self, ids: Sequence[int]) -> list[Record]:
        return await self._database.fetch("dead_letters_with_ids", ids)

    async def queues(self, ids: Sequence[int]) -> list[Record]:
        """Id and queue of the dead letters that exist."""
        return await self._database.fetch("queues_of_dead_letters", ids)

    async def errors(self, queue: str, most: int) -> list[Record]:
        """The newest dead letters of a queue by fingerprint, the most frequent first."""
        return await self._database.fetch("dead_letter_errors", queue, most)

    async def count(self, queue: str, wanted: LetterFilter, *, most: int) -> Record:
        """The matches among the newest ``most``, the newest id, and the scanned count."""
        rows = await self._database.fetch("count_dead_letters", queue, *wanted.columns(), most)
        return rows[0]

    async def matching(
        self, queue: str, wanted: LetterFilter, *, after: int, last: int, limit: int
    ) -> list[Record]:
        """The next ids of a queue, each with whether it matches."""
        return await self._database.fetch(
            "matching_dead_letters", queue, after, last, *wanted.columns(), limit
        )

    async def redrive_to(
        self,
        ids: Sequence[int],
        payloads: Sequence[bytes],
        extras: Sequence[bytes | None],
        partition_id: int,
    ) -> list[int]:
        """Push them as new messages to a partition. Returns the ids that existed."""
        rows = await self._database.fetch("redrive_to", ids, payloads, extras, partition_id)
        return [row["id"] for row in rows]

    async def purge(self, ids: Sequence[int]) -> int:
        rows = await self._database.fetch("purge_dead_letters", ids)
        return rows[0]["messages"]
