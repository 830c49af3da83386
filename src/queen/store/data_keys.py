"""Encrypted data keys of encrypted queues."""

from collections.abc import Sequence

from queen.store.connection.database import Database, Record


class DataKeys:
    """The data keys of one database, without the master keys that decrypt them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(
        self,
        queue_id: int,
        uses: int,
        max_uses: int,
        *,
        id_: int | None = None,
        master_id: str | None = None,
        wrapped: bytes | None = None,
    ) -> Record:
        """The current encryption key, or the id of one that must be created."""
        rows = await self._database.fetch(
            "take_data_key", queue_id, uses, max_uses, id_, master_id, wrapped
        )
        return rows[0]

    async def with_ids(self, ids: Sequence[int]) -> list[Record]:
        return await self._database.fetch("data_keys", ids)

    async def of_others(self, master_id: str, *, after: int, limit: int) -> list[Record]:
        """Keys that another master key encrypts."""
        return await self._database.fetch("data_keys_of_others", after, master_id, limit)

    async def rewrap(
        self,
        ids: Sequence[int],
        old_master_ids: Sequence[str],
        master_ids: Sequence[str],
        wrapped: Sequence[bytes],
    ) -> int:
        """Store the keys with their new encryption. Returns how many were still unchanged."""
        rows = await self._database.fetch(
            "rewrap_data_keys", ids, old_master_ids, master_ids, wrapped
        )
        return len(rows)

    async def by_master(self) -> list[Record]:
        return await self._database.fetch("data_keys_by_master")
