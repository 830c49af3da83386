"""Spark pipelines. They write their rows, and this module reads them."""

from collections.abc import Sequence

from queen.store.connection.database import Database, Record
from queen.wire.resources.pipelines import STALE_SECONDS


class Pipelines:
    """The pipelines over one database."""

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

    async def one(self, name: str) -> Record | None:
        rows = await self._database.fetch("pipeline", name, STALE_SECONDS)
        return rows[0] if rows else None
