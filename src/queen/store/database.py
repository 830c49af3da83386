"""Connections to one database, and the one place where PostgreSQL's errors become ours."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from queen import errors, sql, telemetry
from queen.meters import Histogram, Snapshot

if TYPE_CHECKING:
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

Record = asyncpg.Record

_SESSION: Final = {
    "application_name": "queen",
    # A confirmed push is on disk whatever the role or the database defaults to.
    "synchronous_commit": "on",
    # Nobody waits long for a lock that a stopped process holds.
    "idle_in_transaction_session_timeout": "5s",
    "lock_timeout": "5s",
    "statement_timeout": "30s",
    "jit": "off",
    # Plans are made once per connection, often while tables are small, and kept when they grow.
    "enable_seqscan": "off",
}
_LOCAL: Final = "begin; " + "".join(
    f"set local {name} = '{value}'; "
    for name, value in _SESSION.items()
    if name != "application_name"
)
_RETRIED: Final = ("40001", "40P01")
_DEADLINE_SECONDS: Final = 35.0
_NO_SPAN: Final = nullcontext()


class Database:
    """
    Connections to one PostgreSQL database.

    With ``is_pooled`` the connections go through PgBouncer in transaction mode: nothing is kept on
    a connection between two transactions, and each call says what it needs inside its own.
    """

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]", *, dsn: str, is_pooled: bool) -> None:
        self.dsn = dsn
        self.is_pooled = is_pooled
        self._pool = pool
        self.statements = 0
        """How many statements were sent, for those who watch that an idle process sends none."""
        self.waiting = 0
        """Calls that wait for a connection."""
        self.span: Callable[[str], AbstractContextManager[None]] = lambda call: _NO_SPAN
        """What a statement runs in, for those who trace."""
        self._call_seconds: dict[str, Histogram] = {}
        self._wait_seconds = Histogram()

    @classmethod
    async def open(cls, dsn: str, *, connections: int = 10, is_pooled: bool = False) -> "Database":
        """Connect; refuses a database that would lose what it confirms."""
        try:
            pool = await asyncpg.create_pool(
                dsn,
                min_size=1,
                max_size=connections,
                max_inactive_connection_lifetime=0,
                statement_cache_size=0 if is_pooled else 100,
                server_settings=None if is_pooled else _SESSION,
                init=_prepare,
                reset=_leave_as_is,
                timeout=10,
            )
        except (OSError, TimeoutError, asyncpg.PostgresError) as error:
            raise errors.DatabaseUnavailable(f"cannot connect: {error}") from error
        database = cls(pool, dsn=dsn, is_pooled=is_pooled)
        (server,) = await database.fetch("identity")
        if server["is_standby"]:
            await database.close()
            raise errors.DatabaseUnavailable("this server is a standby; name the primary")
        if server["fsync"] != "on" or server["full_page_writes"] != "on":
            await database.close()
            raise errors.DatabaseUnsafe(
                "fsync or full_page_writes is off: a crash would lose messages; turn them on"
            )
        return database

    async def close(self) -> None:
        """Close all connections; a call that is running is waited for, for a bounded time."""
        try:
            await asyncio.wait_for(self._pool.close(), 10)
        except TimeoutError:
            self._pool.terminate()

    async def fetch(self, call: str, *arguments: object) -> list[Record]:
        """Run one call of ``sql/calls.sql`` in a transaction of its own and return its rows."""
        for attempt in range(4):
            try:
                async with self._lend() as connection:  # Or DatabaseUnavailable: nothing was sent.
                    return await self._run(connection, call, arguments)
            except asyncpg.PostgresError as error:
                if error.sqlstate in _RETRIED and attempt < 3:
                    continue
                if ours := errors.of_sqlstate(error.sqlstate or ""):
                    raise ours(str(error)) from error
                raise
            except (
                OSError,
                TimeoutError,
                asyncpg.InterfaceError,
                asyncpg.InternalClientError,
            ) as error:
                raise errors.OutcomeUnknown(f"{call}: {error or type(error).__name__}") from error
        raise AssertionError  # The last attempt has returned or raised.

    def fill(self, snapshot: Snapshot) -> None:
        """Add what is known of the pool and the calls."""
        size, idle = self._pool.get_size(), self._pool.get_idle_size()
        snapshot.add(telemetry.DB_POOL, idle, "idle")
        snapshot.add(telemetry.DB_POOL, size - idle, "used")
        snapshot.add(telemetry.DB_WAITING, self.waiting)
        for call, histogram in self._call_seconds.items():
            snapshot.add_histogram(telemetry.DB_CALL, histogram, call)
        snapshot.add_histogram(telemetry.DB_POOL_WAIT, self._wait_seconds)

    async def _run(
        self, connection: "Connection", call: str, arguments: tuple[object, ...]
    ) -> list[Record]:
        started_at = time.perf_counter()
        try:
            with self.span(call):
                return await self._send(connection, call, arguments)
        finally:
            histogram = self._call_seconds.get(call)
            if histogram is None:
                histogram = self._call_seconds[call] = Histogram()
            histogram.observe(time.perf_counter() - started_at)

    async def _send(
        self, connection: "Connection", call: str, arguments: tuple[object, ...]
    ) -> list[Record]:
        self.statements += 1
        if not self.is_pooled:
            return await connection.fetch(sql.CALLS[call], *arguments, timeout=_DEADLINE_SECONDS)
        # Behind PgBouncer a statement may be parsed on one server and run on another, unless both
        # stand in one transaction.
        await connection.execute(_LOCAL)
        try:
            rows = await connection.fetch(sql.CALLS[call], *arguments, timeout=_DEADLINE_SECONDS)
            await connection.execute("commit")
        except asyncpg.PostgresError:
            if not connection.is_closed():
                await connection.execute("rollback")
            raise
        return rows

    @asynccontextmanager
    async def _lend(self) -> AsyncGenerator["Connection"]:
        started_at = time.perf_counter()
        self.waiting += 1
        try:
            connection = await self._pool.acquire(timeout=10)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InternalClientError) as error:
            raise errors.DatabaseUnavailable(f"no connection: {error or 'timeout'}") from error
        except asyncpg.InterfaceError as error:
            raise errors.Draining("the store is closed") from error
        finally:
            self.waiting -= 1
            self._wait_seconds.observe(time.perf_counter() - started_at)
        try:
            yield connection
        finally:
            await self._pool.release(connection)


async def _prepare(connection: "asyncpg.Connection[Record]") -> None:
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=_dump, decoder=json.loads, format="text"
    )


async def _leave_as_is(connection: "asyncpg.Connection[Record]") -> None:
    """In place of asyncpg's reset, a round trip for each call: calls leave no state behind."""


def _dump(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    return json.dumps(value)
