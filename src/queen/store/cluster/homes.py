"""The slots of queues, and the owners of slots."""

from collections.abc import Mapping, Sequence

from queen.store.connection.database import Database


class Homes:
    """What one database knows about where queues are. The first database decides."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, names: Sequence[str]) -> dict[str, int]:
        """The slots of those queues that have one."""
        rows = await self._database.fetch("find_homes", names)
        return {row["name"]: row["slot"] for row in rows}

    async def claim(self, namespaces: Mapping[str, str]) -> dict[str, int]:
        """The slots of queues, decided now if necessary. ``namespaces``: by queue."""
        rows = await self._database.fetch("claim_homes", [*namespaces], [*namespaces.values()])
        return {row["name"]: row["slot"] for row in rows}

    async def copy(self, homes: Mapping[str, int]) -> None:
        """Store what the first database decided."""
        await self._database.fetch("copy_homes", [*homes], [*homes.values()])

    async def owners(self) -> dict[int, str]:
        """The slots that other databases own, with the owners' names."""
        return {row["slot"]: row["moved_to"] for row in await self._database.fetch("slot_owners")}
