"""Trace events that consumers record about messages."""

from collections.abc import Sequence

from queen.store.connection.database import Database, Record


class Traces:
    """The traces of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self,
        partition_id: int,
        transaction_id: str,
        *,
        group: str | None,
        event_type: str,
        names: Sequence[str],
        data: bytes,
    ) -> int:
        rows = await self._database.fetch(
            "add_trace", partition_id, transaction_id, group, event_type, names, data
        )
        return rows[0]["id"]

    async def of_message(
        self, partition_id: int, transaction_id: str, *, after: int, limit: int
    ) -> list[Record]:
        return await self._database.fetch(
            "traces_of_message", partition_id, transaction_id, after, limit
        )

    async def of_name(
        self, name: str, *, after: int, limit: int, patterns: Sequence[str] | None = None
    ) -> list[Record]:
        return await self._database.fetch("traces_of_name", name, after, limit, patterns)

    async def names(self, *, after: str, prefix: str, limit: int, most: int) -> list[Record]:
        """Names with a prefix, each with its number of events, counted up to ``most``."""
        return await self._database.fetch("trace_names", after, prefix, limit, most)
