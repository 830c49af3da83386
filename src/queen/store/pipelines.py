"""Spark pipelines. They write their rows, and this module reads them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from queen.store.connection.database import Database, Record
from queen.wire.resources.pipelines import STALE_SECONDS

_MOST_SEGMENTS: Final = 10_000
"""Segments to count per hold. Beyond that, the number of messages is unknown."""


class Pipelines:
    """The pipelines over one database, their archives, and the holds on queues."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, *, after: str, limit: int, patterns: Sequence[str] | None = None
    ) -> list[Record]:
        return await self._database.fetch("list_pipelines", after, limit, STALE_SECONDS, patterns)

    async def queues(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The queues that each of the pipelines reads."""
        rows = await self._database.fetch("queues_of_pipelines", names)
        return {row["name"]: row["queues"] for row in rows}

    async def series(
        self, name: str, start: datetime, end: datetime, bucket_seconds: int
    ) -> list[Record]:
        """The history of a pipeline. Buckets without reports are missing."""
        return await self._database.fetch("pipeline_series", name, start, end, bucket_seconds)

    async def tables(
        self, namespace: str, patterns: Sequence[str] | None, name: str | None = None
    ) -> list[Record]:
        """List Iceberg tables of archives whose queue matches the patterns, or one of them."""
        return await self._database.fetch("archive_tables", namespace, patterns, name)

    async def one(self, name: str) -> Record | None:
        rows = await self._database.fetch("pipeline", name, STALE_SECONDS)
        return rows[0] if rows else None

    async def holds(
        self, *, after: tuple[str, str], limit: int, patterns: Sequence[str] | None = None
    ) -> list[Record]:
        return await self._database.fetch("list_holds", *after, limit, _MOST_SEGMENTS, patterns)

    async def covering_hold(
        self, queue: str, *, partition: str | None, before: datetime | None
    ) -> str | None:
        """A hold that keeps messages which a purge would remove."""
        rows = await self._database.fetch("covering_hold", queue, partition, before)
        return rows[0]["name"] if rows else None

    async def release(self, queue: str, name: str) -> bool:
        """Drop a hold. False: there was none. Raises QueueNotFound."""
        rows = await self._database.fetch("unhold", queue, name)
        return rows[0]["is_dropped"]

    async def archives(
        self, *, after: str, limit: int, patterns: Sequence[str] | None = None
    ) -> list[Record]:
        return await self._database.fetch("list_archives", after, limit, patterns)

    async def queue_of_archive(self, name: str) -> str | None:
        """The queue of an archive; None if one of them does not exist."""
        rows = await self._database.fetch("archive_queue", name)
        return rows[0]["queue"] if rows else None

    async def drop_archive(self, name: str) -> bool:
        """Delete an archive and its hold, but not its lake. False: there was none."""
        rows = await self._database.fetch("drop_archive", name)
        return rows[0]["is_dropped"]
