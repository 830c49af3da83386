"""The server processes of one database, and the modes they share."""

from collections.abc import Sequence

from queen.store.connection.database import Database, Record


class Instances:
    """Server processes, maintenance modes, and the results of background tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pulse(
        self,
        id_: str,
        *,
        host: str,
        pid: int,
        version: str,
        waiters: int,
        address: str | None,
        preferred: Sequence[str] | None,
    ) -> Record:
        """
        Record that a process is running. Returns the state that all processes share.

        ``preferred``: the databases that it prefers, or None for all.
        """
        rows = await self._database.fetch(
            "pulse", id_, host, pid, version, waiters, address, preferred
        )
        return rows[0]

    async def addresses(self) -> list[Record]:
        """The addresses of the servers that run now, with the databases that they prefer."""
        return await self._database.fetch("addresses")

    async def leave(self, id_: str) -> None:
        await self._database.fetch("leave", id_)

    async def page(self, *, after: str, limit: int) -> list[Record]:
        return await self._database.fetch("list_instances", after, limit)

    async def maintenance(self, mode: str) -> Record | None:
        rows = await self._database.fetch("maintenance", mode)
        return rows[0] if rows else None

    async def set_maintenance(self, mode: str, *, is_on: bool, by: str) -> Record:
        rows = await self._database.fetch("set_maintenance", mode, is_on, by)
        return rows[0]

    async def migrations(self) -> list[Record]:
        return await self._database.fetch("migrations")

    async def duties(self) -> list[Record]:
        """The last result of each background task."""
        return await self._database.fetch("duties")
