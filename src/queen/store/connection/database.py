"""Connections to one database, and the conversion of PostgreSQL's errors to Queen's."""

import asyncio
import contextlib
import json
import logging
import random
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

import asyncpg

from queen import errors, sql, tasks, telemetry
from queen.meters import Histogram, Snapshot
from queen.store.connection.options import Connecting
from queen.store.connection.primary import OF_SOCKETS, STANDBY, Connection as RawConnection, Hosts
from queen.store.connection.ready import ReadyConnections

if TYPE_CHECKING:
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

Record = asyncpg.Record

_NO_CONNECTION: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InternalClientError,
)
_LOG: Final = logging.getLogger("queen.store")
_RETRIED: Final = ("40001", "40P01")
_NO_SPAN: Final = nullcontext()
_CHECK_CLIENT: Final = "set client_connection_check_interval = '2s'"
_PROBE_SECONDS: Final = 0.1
_LONGEST_PROBE_SECONDS: Final = 0.5
_WARM_SECONDS: Final = 2.0
_NO_LIMIT: Final = sys.maxsize
"""asyncpg would replace a connection after 50,000 statements, on the path of a call."""
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
        self._hosts = Hosts(dsn, is_pooled=self.is_pooled)
        self._connecting = connecting
        self._begin = "begin; " + "".join(
            f"set local {name} = '{value}'; " for name, value in connecting.session.items()
        )
        self._identity: str | None = None
        self._pool: asyncpg.Pool[asyncpg.Record]
        self._rooms: dict[str, asyncio.Semaphore] = {}
        # Connections that are ready to use. Behind a pooler, a connection does not keep a server.
        self._is_warmed = connecting.is_warmed and not connecting.is_pooled
        self._ready = ReadyConnections(1 if self._is_warmed else connecting.connections)
        self._growth: asyncio.Task[None] | None = None
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
        self.waiting = 0
        """Calls that wait for a connection."""
        self.span: Callable[[str], AbstractContextManager[None]] = lambda call: _NO_SPAN
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
        session = {"application_name": how.application_name, **how.session, **OF_SOCKETS}
        try:
            database._pool = await asyncpg.create_pool(
                dsn,
                connect=database._hosts.connect,
                connection_class=RawConnection,
                min_size=0 if is_away else 1,
                max_size=how.connections,
                max_inactive_connection_lifetime=how.idle_seconds,
                max_queries=_NO_LIMIT,
                statement_cache_size=0 if how.is_pooled else 100,
                server_settings=(
                    {"application_name": how.application_name} if how.is_pooled else session
                ),
                init=database._prepare,
                reset=_leave_as_is,
                timeout=how.timeout_seconds,
            )
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise errors.DatabaseUnavailable(f"cannot connect to PostgreSQL: {error}") from error
        if is_away:
            database._lose("unavailable at the start")
        elif database._is_warmed:
            with contextlib.suppress(*_NO_CONNECTION):
                await database._warm()
        return database

    async def close(self) -> None:
        """Close all connections. Waits for running calls, for a limited time."""
        await tasks.stop(self._probe, self._growth)
        try:
            await asyncio.wait_for(self._pool.close(), 10)
        except TimeoutError:
            self._pool.terminate()

    async def fetch(self, call: str, *arguments: object) -> list[Record]:
        """Run one call of ``sql/calls`` in its own transaction and return its rows."""
        if call in sql.BATCHED:
            return await self._fetch(call, arguments)
        async with self._room(call):
            return await self._fetch(call, arguments)

    @asynccontextmanager
    async def _room(self, call: str) -> AsyncGenerator[None]:
        """Limits the connections that slow calls can use, so that others get some."""
        room = self._rooms.get(call)
        if room is None:
            room = asyncio.Semaphore(max(1, self._connecting.connections // 3))
            self._rooms[call] = room
        try:
            async with asyncio.timeout(self._connecting.timeout_seconds):
                await room.acquire()
        except TimeoutError as error:
            raise errors.Overloaded(f"too many calls of {call} are running") from error
        try:
            yield
        finally:
            room.release()

    async def _fetch(self, call: str, arguments: tuple[object, ...]) -> list[Record]:
        attempt = 0
        while True:
            try:
                async with self._lend() as connection:  # May raise before sending.
                    return await self._run(connection, call, arguments)
            except asyncpg.PostgresError as error:
                if error.sqlstate in _RETRIED and attempt < self._connecting.max_retries:
                    attempt += 1
                    continue
                if ours := errors.of_sqlstate(error.sqlstate or ""):
                    # Without DETAIL and HINT, which are for SQL developers.
                    raise ours(str(error.args[0])) from error
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
            seconds = time.perf_counter() - started_at
            histogram.observe(seconds)
            if (spent := SPENT.get()) is not None:
                spent.append(seconds)

    async def _send(
        self, connection: "Connection", call: str, arguments: tuple[object, ...]
    ) -> list[Record]:
        self.statements += 1
        deadline = self._connecting.deadline_seconds(call)
        is_late = False

        def give_up() -> None:
            nonlocal is_late
            is_late = True
            # Not cancelled: PostgreSQL would report a commit that waits for a standby as done.
            connection.terminate()

        timer = asyncio.get_running_loop().call_later(deadline, give_up)
        try:
            rows = await self._exchange(connection, call, arguments)
        except asyncpg.PostgresError as error:
            if not is_late:
                raise
            # Idle connections lead to the same server by the same route.
            await self._pool.expire_connections()
            raise errors.OutcomeUnknown(f"{call}: no response within {deadline:g} s") from error
        finally:
            timer.cancel()
        # The pool's proxy forwards unknown attributes.
        if (warning := cast("RawConnection", connection).take_warning()) is not None:
            raise errors.OutcomeUnknown(f"{call}: {warning}")
        return rows

    async def _exchange(
        self, connection: "Connection", call: str, arguments: tuple[object, ...]
    ) -> list[Record]:
        if not self.is_pooled:
            return await connection.fetch(sql.CALLS[call], *arguments)
        # Without a transaction, PgBouncer may parse a statement on one server and run it on
        # another.
        await connection.execute(self._begin)
        try:
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
                connection = await self._pool.acquire(timeout=self._connecting.timeout_seconds)
                await self._pool.release(connection)
                if self.welcome is not None:
                    await self.welcome()
                    self.welcome = None
                break
            except (
                *_NO_CONNECTION,
                asyncpg.InterfaceError,
                errors.ServiceError,
            ) as error:
                self.away_because = str(error) or type(error).__name__
            except Exception as error:
                # The cause may be gone on the next probe.
                _LOG.exception("a probe of the database failed")
                self.away_because = str(error) or type(error).__name__
        self.is_away = False
        self.returned()

    @asynccontextmanager
    async def _lend(self) -> AsyncGenerator["Connection"]:
        if self.is_away:
            raise errors.DatabaseUnavailable(f"the database is unavailable: {self.away_because}")
        connection = await self._take()
        try:
            yield connection
        finally:
            try:
                await self._pool.release(connection)
            finally:
                self._ready.give_back()

    async def _take(self) -> "Connection":
        started_at = time.perf_counter()
        self.waiting += 1
        try:
            await self._await_ready()
            try:
                return await self._pool.acquire(timeout=self._connecting.timeout_seconds)
            except BaseException:
                self._ready.give_back()
                raise
        except _NO_CONNECTION as error:
            # A busy server, or one with too many connections, is available while some of ours are
            # left.
            if not self._pool.get_size():
                self._lose(str(error) or "timeout")
            raise errors.DatabaseUnavailable(f"no connection: {error or 'timeout'}") from error
        except asyncpg.InterfaceError as error:
            raise errors.Draining("the store is closed") from error
        except errors.DatabaseUnavailable as error:
            # A server responds, but it is not the primary.
            if not self._pool.get_size():
                self._lose(str(error))
            raise
        finally:
            self.waiting -= 1
            self._wait_seconds.observe(time.perf_counter() - started_at)

    async def _await_ready(self) -> None:
        """Wait for a warmed connection. One more is opened if the limit allows it."""
        if await self._ready.take_free():
            return
        self._grow()
        async with asyncio.timeout(self._connecting.timeout_seconds):
            await self._ready.take()

    def _grow(self) -> None:
        if self._growth is None and self._ready.count < self._connecting.connections:
            self._growth = asyncio.get_running_loop().create_task(self._add())

    async def _add(self) -> None:
        if self._pool.get_idle_size() and self._pool.get_size() <= self._ready.count:
            self._growth = None  # Another caller returned one meanwhile.
            return
        try:
            await self._warm()
        except (*_NO_CONNECTION, asyncpg.InterfaceError, errors.ServiceError):
            self._growth = None  # The next caller that needs one tries again.
            return
        self._ready.add()
        self._growth = None
        if self._ready.are_in_use and self.waiting:
            self._grow()

    async def _warm(self) -> None:
        """Open a connection and plan the hot calls, whose first run is the slowest."""
        # Without its own timeout, it takes a free connection before any other caller can.
        async with asyncio.timeout(self._connecting.timeout_seconds):
            connection = await self._pool.acquire()
        try:
            # An unplanned connection is better than none.
            with contextlib.suppress(*_NO_CONNECTION, asyncpg.InterfaceError):
                await connection.fetch(sql.CALLS["warm"], *(None,) * 7, timeout=_WARM_SECONDS)
        finally:
            await self._pool.release(connection)

    async def _prepare(self, connection: "asyncpg.Connection[Record]") -> None:
        """Set up a new connection, and check which server it reaches."""
        half = self._connecting.timeout_seconds / 2
        timer = asyncio.get_running_loop().call_later(half, connection.terminate)
        try:
            # Behind PgBouncer, a parsed statement stays on its server only within a transaction.
            async with connection.transaction() if self.is_pooled else nullcontext():
                await self._set_up(connection)
        finally:
            timer.cancel()
        if self._is_warmed:
            connection.add_termination_listener(self._ready.remove)

    async def _set_up(self, connection: "asyncpg.Connection[Record]") -> None:
        await connection.set_type_codec(
            "jsonb", schema="pg_catalog", encoder=_dump, decoder=json.loads, format="text"
        )
        server = await connection.fetchrow(sql.CALLS["identity"])
        assert server is not None
        if server["is_standby"]:
            self._hosts.pass_over()
            raise errors.DatabaseUnavailable(STANDBY)
        if server["fsync"] != "on" or server["full_page_writes"] != "on":
            raise errors.DatabaseUnsafe(
                "fsync or full_page_writes is off: a crash would lose messages; turn them on"
            )
        if not self.is_pooled:
            # If the system supports it: a statement of a lost client must not keep its locks.
            with contextlib.suppress(asyncpg.InvalidParameterValueError):
                await connection.execute(_CHECK_CLIENT)
        known, identity = self._identity, server["identity"]
        if known is not None and _is_older(identity, known):
            self._hosts.pass_over()
            raise errors.DatabaseUnavailable(
                "this server was the primary before another was promoted; stop it"
            )
        self._identity = identity
        if known not in (None, identity):
            self.changed()
            # The arguments of the next call are based on the former server's state.
            raise errors.DatabaseUnavailable("this is another server, or it lost its history")


async def _leave_as_is(connection: "asyncpg.Connection[Record]") -> None:
    """Replaces asyncpg's reset, which costs a round trip per call. Calls leave no state behind."""


def _is_older(identity: str, known: str) -> bool:
    """Return whether a server follows an abandoned timeline: the same cluster, a lower number."""
    system, _, timeline = identity.partition("/")
    known_system, _, known_timeline = known.partition("/")
    return system == known_system and timeline < known_timeline


def _dump(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    return json.dumps(value)


def _nothing() -> None:
    """Default callback."""


def _nothing_of(reason: str) -> None:
    """Default callback with a reason."""
