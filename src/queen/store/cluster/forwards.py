"""Messages of the outbox on their way to queues in other databases, and batches that arrive."""

from collections.abc import Mapping, Sequence

from queen.store.connection.database import Database, Record


class Forwards:
    """The batches that one database sends, each with its own sequence number per queue."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, queues: Mapping[int, str]) -> bool:
        """Move messages of the outbox here. Returns False if another process moved one of them."""
        (row,) = await self._database.fetch("forward", [*queues], [*queues.values()])
        return row["is_moved"]

    async def queues(self, names: Sequence[str] | None = None) -> set[str]:
        """The queues that have messages here, of these or of all."""
        return {row["queue"] for row in await self._database.fetch("forwarded_queues", names)}

    async def take(
        self, queue: str, holder: int, seconds: float, limit: int, size_bytes: int
    ) -> list[Record]:
        """The unconfirmed batch of a queue, or else the next one. Empty if there is none."""
        return await self._database.fetch(
            "take_forwards", queue, holder, seconds, limit, size_bytes
        )

    async def end(self, queue: str, sequence: int) -> None:
        """Confirm a batch."""
        await self._database.fetch("end_forwards", queue, sequence)

    async def refuse(self, queue: str, sequence: int, reasons: Mapping[int, str]) -> None:
        """Return messages of a batch that was abandoned to the outbox. The others are retried."""
        await self._database.fetch(
            "refuse_forwards", queue, sequence, [*reasons], [*reasons.values()]
        )

    async def abandon(self, queue: str, producer: str, sequence: int) -> bool:
        """Record a batch of another database as not stored. Returns False if it is stored."""
        (row,) = await self._database.fetch("abandon_batch", queue, producer, sequence)
        return row["is_abandoned"]
