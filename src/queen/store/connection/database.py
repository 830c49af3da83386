"""Connections to one database, and the conversion of PostgreSQL's errors to Queen's."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import asyncpg

from queen import errors, sql, tasks, telemetry
from queen.meters import Histogram, Snapshot
from queen.store.connection.connection import Connection, Record
from queen.store.connection.connector import Connector
from queen.store.connection.deadlines import Deadlines
from queen.store.connection.options import Connecting
from queen.store.connection.pool import NO_CONNECTION, Pool, PoolClosed

T = TypeVar("T")
_LOG: Final = logging.getLogger("queen.store")
_RETRIED: Final = ("40001", "40P01")
_PROBE_SECONDS: Final = 0.1
_LONGEST_PROBE_SECONDS: Final = 0.5
_CLOSE_SECONDS: Final = 10.0
SPENT: Final[ContextVar[list[float] | None]] = ContextVar("spent", default=None)
"""Collects the seconds of statements for the current context."""
_LONG_SECONDS: Final = 0.1
_LEAST_SEARCHED: Final = 500


def is_enough(searched: int, most: int) -> bool:
    """
    Return whether a search ends here. Its caller can continue it with a cursor.

    It ends at the limit, or earlier if the database is slow and a minimum was scanned.
    """
    if searched < _LEAST_SEARCHED:
        return searched >= most
    return searched >= most or sum(SPENT.get() or ()) >= _LONG_SECONDS


class Database:
    """
    Connections to one PostgreSQL database.

    With ``is_pooled``, connections go through PgBouncer in transaction mode. They keep no state
    between transactions, and each call sets its options inside its transaction.

    If no connection is left and a new one fails, the database is unavailable. Calls then fail
    immediately, and one probe checks periodically whether it is back. So callers don't wait in
    vain, and a restarted server does not meet many connections at the same time.
    """

    def __init__(self, dsn: str, connecting: Connecting) -> None:
        self.dsn = dsn
        self.is_pooled = connecting.is_pooled
        self._connecting = connecting
        self._begin = "begin; " + "".join(
            f"set local {name} = '{value}'; " for name, value in connecting.session.items()
        )
        self._connector = connector = Connector(dsn, connecting, lambda: self.changed())
        self._pool = Pool(
            connector.connect,
            # Behind a pooler, a connection does not keep a server.
            warm=connector.warm if connecting.is_warmed and not self.is_pooled else None,
            most=connecting.connections,
            idle_seconds=connecting.idle_seconds,
            timeout_seconds=connecting.timeout_seconds,
        )
        self._deadlines = Deadlines()
        self._rooms: dict[str, asyncio.Semaphore] = {}
        self.changed: Callable[[], None] = _nothing
        """Called if this is another server, or another history of it, than before."""
        self.is_away = False
        self.away_because = ""
        self.lost: Callable[[str], None] = _nothing_of
        """Called with the reason when the database becomes unavailable."""
        self.returned: Callable[[], None] = _nothing
        """Called when it is back."""
        self.welcome: Callable[[], Awaitable[None]] | None = None
        """Must succeed before a database that was unavailable at the start counts as available."""
        self._probe: asyncio.Task[None] | None = None
        self.statements = 0
        """The number of statements sent. Tests check that an idle process sends none."""
        self.span: Callable[[str], AbstractContextManager[None]] | None = None
        """A context for each statement, for tracing."""
        self._call_seconds: dict[str, Histogram] = {}
        self._wait_seconds = Histogram()

    @classmethod
    async def open(
        cls, dsn: str, connecting: Connecting | None = None, *, is_away: bool = False
    ) -> "Database":
        """
        Connect. Rejects a database that could lose confirmed data.

        ``is_away``: the database is unavailable now, so wait for it in the background.
        """
        how = connecting or Connecting()
        database = cls(dsn, how)
        if is_away:
            database._lose("unavailable at the start")
            return database
        try:
            connection = await database._pool.wait()
        except NO_CONNECTION as error:
            raise errors.DatabaseUnavailable(f"cannot connect to PostgreSQL: {error}") from error
        if how.is_warmed and not how.is_pooled:
            await database._connector.warm(connection)
            await database._pool.recover(connection)  # Planning may have been cancelled.
        else:
            database._pool.give(connection)
        return database

    async def close(self) -> None:
        """Close all connections. Waits for running calls, for a limited time."""
        await tasks.stop(self._probe)
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    def fetch(self, call: str, *arguments: object) -> Coroutine[Any, Any, list[Record]]:
        """Run one call of ``sql/calls`` in its own transaction and return its rows."""
        return (self._fetch if call in sql.BATCHED else self._fetch_limited)(call, arguments)

    async def _fetch_limited(self, call: str, arguments: tuple[object, ...]) -> list[Record]:
        room = await self._enter(call)
        try:
            return await self._fetch(call, arguments)
        finally:
            room.release()

    async def _enter(self, call: str) -> asyncio.Semaphore:
        """Limits the connections that slow calls can use, so that others get some."""
        room = self._rooms.get(call)
        if room is None:
            room = asyncio.Semaphore(max(1, self._connecting.connections // 3))
            self._rooms[call] = room
        if not room.locked():
            await room.acquire()
            return room
        try:
            async with asyncio.timeout(self._connecting.timeout_seconds):
                await room.acquire()
        except TimeoutError as error:
            raise errors.Overloaded(f"too many calls of {call} are running") from error
        return room

    async def _fetch(self, call: str, arguments: tuple[object, ...]) -> list[Record]:
        attempt = 0
        while True:
            connection = await self._take()
            try:
                return await self._run(connection, call, arguments)
            except asyncpg.PostgresError as error:
                if error.sqlstate in _RETRIED and attempt < self._connecting.max_retries:
                    attempt += 1
                    continue
                if ours := _converted(error):
                    raise ours from error
                raise
            except (
                OSError,
                TimeoutError,
                asyncpg.InterfaceError,
                asyncpg.InternalClientError,
            ) as error:
                raise errors.OutcomeUnknown(f"{call}: {error or type(error).__name__}") from error

    def fill(self, snapshot: Snapshot) -> None:
        """Add the metrics of the pool and the calls."""
        size, free = self._pool.size, self._pool.free
        snapshot.add(telemetry.DB_POOL, free, "idle")
        snapshot.add(telemetry.DB_POOL, size - free, "used")
        snapshot.add(telemetry.DB_WAITING, self._pool.waiting)
        for call, histogram in self._call_seconds.items():
            snapshot.add_histogram(telemetry.DB_CALL, histogram, call)
        snapshot.add_histogram(telemetry.DB_POOL_WAIT, self._wait_seconds)

    async def _run(
        self, connection: Connection, call: str, arguments: tuple[object, ...]
    ) -> list[Record]:
        """Send a call on this connection, and return the connection to the pool."""
        self.statements += 1
        started_at = time.perf_counter()
        deadline = self._connecting.deadline_seconds(call)
        self._deadlines.begin(connection, deadline)
        try:
            if self.is_pooled:
                sending = self._exchange(connection, call, arguments)
            else:
                sending = connection.fetch(sql.CALLS[call], *arguments)
            rows = await (sending if self.span is None else _within(self.span(call), sending))
        except asyncpg.PostgresError as error:
            is_in_time = self._deadlines.end(connection)
            self._pool.give(connection)
            if is_in_time:
                raise
            # Free connections lead to the same server by the same route.
            self._pool.expire()
            raise errors.OutcomeUnknown(f"{call}: no response within {deadline:g} s") from error
        except BaseException:
            self._deadlines.end(connection)
            self._pool.recover_soon(connection)
            raise
        finally:
            self._measure(call, time.perf_counter() - started_at)
        self._deadlines.end(connection)
        warning = connection.take_warning()
        self._pool.give(connection)
        if warning is not None:
            raise errors.OutcomeUnknown(f"{call}: {warning}")
        return rows

    def _measure(self, call: str, seconds: float) -> None:
        histogram = self._call_seconds.get(call)
        if histogram is None:
            histogram = self._call_seconds[call] = Histogram()
        histogram.observe(seconds)
        if (spent := SPENT.get()) is not None:
            spent.append(seconds)

    async def _exchange(
        self, connection: Connection, call: str, arguments: tuple[object, ...]
    ) -> list[Record]:
        # Without a transaction, PgBouncer may parse a statement on one server and run it on
        # another.
        try:
            await connection.execute(self._begin)
            rows = await connection.fetch(sql.CALLS[call], *arguments)
            await connection.execute("commit")
        except asyncpg.PostgresError:
            if not connection.is_closed():
                await connection.execute("rollback")
            raise
        return rows

    def _lose(self, reason: str) -> None:
        if self.is_away:
            return
        self.is_away = True
        self.away_because = reason
        self._probe = asyncio.get_running_loop().create_task(self._await_return())
        self.lost(reason)

    async def _await_return(self) -> None:
        """Probe until the database responds, with growing random pauses."""
        pause = _PROBE_SECONDS
        while True:
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, _LONGEST_PROBE_SECONDS)
            try:
                self._pool.give(await self._pool.wait())
                if self.welcome is not None:
                    await self.welcome()
                    self.welcome = None
                break
            except (*NO_CONNECTION, errors.ServiceError) as error:
                self.away_because = str(error) or type(error).__name__
            except Exception as error:
                # The cause may be gone on the next probe.
                _LOG.exception("a probe of the database failed")
                self.away_because = str(error) or type(error).__name__
        self.is_away = False
        self.returned()

    async def _take(self) -> Connection:
        if self.is_away:
            raise errors.DatabaseUnavailable(f"the database is unavailable: {self.away_because}")
        if (connection := self._pool.take()) is not None:
            self._wait_seconds.observe(0.0)
            return connection
        started_at = time.perf_counter()
        try:
            return await self._pool.wait()
        except PoolClosed as error:
            raise errors.Draining("the store is closed") from error
        except NO_CONNECTION as error:
            # A busy server, or one with too many connections, is available while some of ours are
            # left.
            if not self._pool.size:
                self._lose(str(error) or "timeout")
            raise errors.DatabaseUnavailable(f"no connection: {error or 'timeout'}") from error
        except errors.DatabaseUnavailable as error:
            # A server responds, but it is not the primary.
            if not self._pool.size:
                self._lose(str(error))
            raise
        finally:
            self._wait_seconds.observe(time.perf_counter() - started_at)


def _converted(error: asyncpg.PostgresError) -> errors.QueenError | None:
    ours = errors.of_sqlstate(error.sqlstate or "")
    if ours is None:
        return None
    # Without DETAIL and HINT, which are for SQL developers.
    converted = ours(str(error.args[0]))
    if isinstance(converted, errors.SlotMoved) and error.detail:
        converted.slots = frozenset(map(int, error.detail.split(",")))
    return converted


async def _within(span: AbstractContextManager[None], sending: Awaitable[T]) -> T:
    with span:
        return await sending


def _nothing() -> None:
    """Default callback."""


def _nothing_of(reason: str) -> None:
    """Default callback with a reason."""
