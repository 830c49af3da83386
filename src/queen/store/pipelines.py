"""Jobs on Spark, which write their rows themselves: here they are read."""

from queen.store.database import Database, Record
from queen.wire.resources.pipelines import STALE_SECONDS


class Pipelines:
    """The pipelines over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, *, after: str, limit: int) -> list[Record]:
        return await self._database.fetch("list_pipelines", after, limit, STALE_SECONDS)

    async def one(self, name: str) -> Record | None:
        rows = await self._database.fetch("pipeline", name, STALE_SECONDS)
        return rows[0] if rows else None
