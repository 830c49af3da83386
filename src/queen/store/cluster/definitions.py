"""Spread queues, their groups and their pins, which are equal in all databases."""

from collections.abc import Sequence

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

    async def pins(self) -> list[Record]:
        """The pins of all spread queues, as this database knows them."""
        return await self._database.fetch("pins")

    async def reserve_pin(self, queue: str, partition: str, slots: Sequence[int]) -> Record | None:
        """
        Reserve the first free one of these slots for a partition. Returns the pin, not ready yet.

        If the partition has a pin already, returns that. None: no slot is free.
        """
        rows = await self._database.fetch("reserve_pin", queue, partition, slots)
        return rows[0] if rows else None

    async def change_pin(
        self, queue_id: int, partition: str, revision: int, *, is_ready: bool | None
    ) -> int | None:
        """
        Make a pin ready or not ready, or delete it with ``is_ready=None``.

        Returns its new revision, or None if it has changed since this one.
        """
        (row,) = await self._database.fetch("change_pin", queue_id, partition, revision, is_ready)
        return row["revision"]

    async def has_partition(self, queue_id: int, partition: str, slot: int) -> bool:
        """Whether a partition exists in a slot. Raises SlotMoved if the slot is not here."""
        (row,) = await self._database.fetch("has_partition", queue_id, partition, slot)
        return row["exists_here"]
