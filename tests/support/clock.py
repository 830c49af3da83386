"""A clock in the test's own database that the test moves."""

from datetime import datetime
from types import TracebackType
from typing import Self

import asyncpg

# One microsecond per reading, so that timestamps increase even while the clock stands still.
INSTALL = """
create sequence public.ticks cache 1;
create table public.clock as select timestamptz '2030-01-01 00:00Z' as at;
create or replace function queen.now () returns timestamptz language sql volatile as $$
  select at + interval '1 microsecond' * nextval('public.ticks') from public.clock
$$;
"""


class Clock:
    """
    Replaces `queen.now()` for every connection and process of that database.

    Usage::

        async with await Clock.install(dsn) as clock:
            await clock.advance(seconds=301)
    """

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    @classmethod
    async def install(cls, dsn: str) -> Self:
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(INSTALL)
        except BaseException:
            await connection.close()
            raise
        return cls(connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def advance(self, *, seconds: float) -> None:
        await self._connection.execute(
            "update public.clock set at = at + make_interval(secs => $1)", float(seconds)
        )

    async def set(self, at: datetime) -> None:
        await self._connection.execute("update public.clock set at = $1", at)

    async def now(self) -> datetime:
        """Read the clock as SQL does, which also advances it."""
        instant: datetime = await self._connection.fetchval("select queen.now()")
        return instant

    async def close(self) -> None:
        await self._connection.close()
