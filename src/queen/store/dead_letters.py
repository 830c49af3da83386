"""Messages that gave up: list and redrive."""

from collections.abc import Sequence

from queen.store.database import Database, Record


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
