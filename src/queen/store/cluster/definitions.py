"""Spread queues and their groups, which are equal in all databases."""

from queen.store.connection.database import Database, Record


class Definitions:
    """The spread queues of one database. The first database decides them, others have copies."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def outdated(self) -> list[Record]:
        """The databases whose copies may be older than here, with the queues."""
        return await self._database.fetch("outdated")

    async def get(self, queue_id: int) -> str:
        """A queue with its options and groups, as JSON."""
        (row,) = await self._database.fetch("definition", queue_id)
        return row["definition"]

    async def find(self, queue: str) -> str | None:
        """The same by name. None: a spread queue with this name does not exist."""
        rows = await self._database.fetch("definition_of", queue)
        return rows[0]["definition"] if rows else None

    async def apply(self, definition: str) -> None:
        """Apply the definition of the first database, unless the copy is newer."""
        await self._database.fetch("apply_definition", definition)

    async def confirm(self, database: str, queue_id: int, revision: int) -> None:
        """Record that a database has this revision."""
        await self._database.fetch("is_current", database, queue_id, revision)
