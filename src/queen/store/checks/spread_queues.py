"""Spread queues that are different in several databases, because one of them was restored."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from queen import sql

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]


class Definition(NamedTuple):
    """A spread queue, as one database knows it."""

    queue_id: int
    queue: str | None
    """None: it was deleted long ago."""
    revision: int
    digest: str
    outdated: list[str]
    """Databases that will get this revision."""


class StaleQueue(NamedTuple):
    """A spread queue of which a database lacks changes that another one has."""

    queue_id: int
    queue: str
    database: str
    newest: str


class SpreadQueues:
    """The definitions of all databases that are available."""

    def __init__(self, connections: "Mapping[str, Connection]", names: Sequence[str]) -> None:
        """``names``: of all databases, the first one first."""
        self._connections = connections
        self._names = names
        self._first = names[0]

    async def stale(self) -> list[StaleQueue]:
        """Queues that a database does not get by itself."""
        if self._first not in self._connections:
            return []
        known = await self._read_all()
        first = known.pop(self._first)
        return [
            stale
            for name, definitions in known.items()
            # A database gets those that it doesn't have when it needs them.
            for id_, each in sorted(definitions.items())
            if (stale := self._compare(name, first.get(id_), each)) is not None
        ]

    def _compare(self, name: str, first: Definition | None, other: Definition) -> StaleQueue | None:
        """Compare a queue of the first database with that of another one."""
        queue = other.queue or f"{other.queue_id}"
        if first is None or other.revision > first.revision:
            return StaleQueue(other.queue_id, queue, self._first, name)
        is_equal = (first.revision, first.digest) == (other.revision, other.digest)
        if is_equal or name in first.outdated:
            return None
        return StaleQueue(other.queue_id, queue, name, self._first)

    async def repair(self) -> None:
        """
        Give the newest definition of each queue to the first database, and then to all.

        It needs all databases, because one that is absent may have a newer definition.
        """
        if len(self._connections) < len(self._names):
            return
        for id_ in {each.queue_id for each in await self.stale()}:
            await self._repair(id_)

    async def _repair(self, queue_id: int) -> None:
        first = self._connections[self._first]
        known = await self._read_all()
        revisions = {
            name: definitions[queue_id].revision
            for name, definitions in known.items()
            if queue_id in definitions
        }
        newest = max(revisions, key=revisions.__getitem__)
        async with first.transaction():
            if revisions[newest] > revisions.get(self._first, 0):
                connection = self._connections[newest]
                definition = await connection.fetchval(sql.CALLS["definition"], queue_id)
                await first.fetchval(sql.CALLS["apply_definition"], definition)
            # Higher than in any database, so that all of them get it.
            await first.fetchval(sql.CALLS["raise_revision"], queue_id, revisions[newest])
            await first.fetchval(sql.CALLS["note_definition"], queue_id)

    async def _read_all(self) -> dict[str, dict[int, Definition]]:
        return {name: await self._read(each) for name, each in self._connections.items()}

    async def _read(self, connection: "Connection") -> dict[int, Definition]:
        found: dict[int, Definition] = {}
        last = 0
        while rows := await connection.fetch(sql.CALLS["all_definitions"], last):
            found |= {row["queue_id"]: Definition(**row) for row in rows}
            last = rows[-1]["queue_id"]
        return found
