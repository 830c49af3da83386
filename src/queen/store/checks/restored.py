"""A restored database: its contents, their integrity, and the steps before it is used."""

from queen.store.connection.database import Database, Record

_STEP = 1_000


class Restored:
    """Scans everything: for a copy, not for a database in use."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def archiving(self) -> Record:
        """Whether backups of this server can be restored."""
        return await self._one("archiving")

    async def segments(self) -> Record:
        return await self._one("check_segments")

    async def positions(self) -> Record:
        return await self._one("check_positions")

    async def numbers(self) -> Record:
        return await self._one("check_numbers")

    async def alive(self) -> Record:
        return await self._one("check_alive")

    async def void_deliveries(self) -> int:
        """End all leases. Returns the number of deliveries."""
        total = 0
        while rows := await self._database.fetch("void_deliveries", _STEP):
            total += len(rows)
        return total

    async def renumber(self) -> bool:
        """Move stored transaction ids below those that this server has reached."""
        return (await self._one("renumber"))["is_renumbered"]

    async def _one(self, call: str) -> Record:
        (row,) = await self._database.fetch(call)
        return row
