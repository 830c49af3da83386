"""Health of PostgreSQL, for `queen doctor` and the system pages."""

from collections.abc import Sequence
from typing import Any

from queen.store.connection.database import Database, Record


class Diagnosis:
    """Settings, clock, tables and vacuum of one server. Works without Queen's tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def settings(self, names: Sequence[str]) -> dict[str, Record]:
        rows = await self._database.fetch("server_settings", names)
        return {row["name"]: row for row in rows}

    async def state(self) -> Record:
        (row,) = await self._database.fetch("server_state")
        return row

    async def snapshots(self) -> list[Record]:
        return await self._database.fetch("oldest_snapshots")

    async def tables(self) -> list[Record]:
        return await self._database.fetch("tables")

    async def oldest_transaction(self) -> Record | None:
        rows = await self._database.fetch("oldest_transaction")
        return rows[0] if rows else None

    async def horizon(self) -> dict[str, Any] | None:
        """The open transaction that readers of whole queues wait for, in any database."""
        rows = await self._database.fetch("horizon_holder")
        return dict(rows[0]) if rows else None

    async def table_options(self) -> dict[str, list[str]]:
        """Storage options of each of Queen's tables."""
        rows = await self._database.fetch("table_options")
        return {row["name"]: row["options"] for row in rows}

    async def bloat(self) -> list[Record]:
        return await self._database.fetch("bloat")

    async def indexes(self) -> list[Record]:
        return await self._database.fetch("indexes")

    async def changed_settings(self) -> list[Record]:
        return await self._database.fetch("changed_settings")

    async def sessions(self) -> list[Record]:
        return await self._database.fetch("sessions")
