"""Count the statements of a database with pg_stat_statements."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator

import asyncpg


class Statements:
    """Counts the statements in one database, except its own queries."""

    _CALLS = """
        select coalesce(sum(s.calls), 0)::bigint
        from pg_stat_statements s
        join pg_database d on d.oid = s.dbid and d.datname = current_database()
        where s.query not like '%pg_stat_statements%'
    """
    _TEXTS = """
        select s.query, s.calls
        from pg_stat_statements s
        join pg_database d on d.oid = s.dbid and d.datname = current_database()
        where s.query not like '%pg_stat_statements%'
    """

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, dsn: str) -> "AsyncGenerator[Statements]":
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute("create extension if not exists pg_stat_statements")
            yield cls(connection)
        finally:
            await connection.close()

    async def count(self) -> int:
        return await self._connection.fetchval(self._CALLS)

    async def texts(self) -> dict[str, int]:
        rows = await self._connection.fetch(self._TEXTS)
        return {row["query"]: row["calls"] for row in rows if row["calls"] > 1}

    async def per_second(self, seconds: float) -> float:
        """The rate over a time. Waiting for this time is the measurement."""
        before, started = await self.count(), time.monotonic()
        await asyncio.sleep(seconds)
        return (await self.count() - before) / (time.monotonic() - started)
