"""Moves of slots, and what the databases store about a slot."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from queen import errors
from queen.store.cluster.moving import Member, Progress, SlotMove
from queen.store.cluster.tables import SEGMENTS, TABLES, Table

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

Rows = dict[str, list[str]]

MEASURED: Final = frozenset({"counters", "samples", "rollups"})
"""Processes write these at any time, and nothing depends on them."""
_KEYS: Final = """
t.key in (
  select queen.dedup_key(p.id, 't' || n.n)
  from queen.partitions p cross join generate_series(0, 499) n (n)
  where p.id >> 53 = {slot}
)
"""
"""The keys of the transactionIds t0 to t499. Those of erased queues mean nothing."""


class Stopped(Exception):
    """The connections were closed on purpose."""


BROKEN: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    errors.QueenError,
    Stopped,
    OSError,
    TimeoutError,
)
"""Errors of a move while anything is killed."""


class Gate:
    """Counts the statements of several connections, and stops before one of them."""

    def __init__(
        self,
        stop_at: int | None,
        pause_at: int | None,
        idle_ms: int,
        kill: Callable[[], None] | None,
    ) -> None:
        self._stop_at = stop_at
        self._idle_ms = idle_ms
        self._kill = kill
        self._pause_at = pause_at
        self._count = 0
        self._connections: list[StoppingConnection] = []
        self.is_paused = False
        self.is_reached = asyncio.Event()
        self.is_open = asyncio.Event()

    def watch(self, connection: "StoppingConnection") -> None:
        connection.gate = self
        self._connections.append(connection)

    async def enter(self) -> None:
        at, self._count = self._count, self._count + 1
        if self._kill is not None:
            if at == self._stop_at:
                self._kill()
        elif self._stop_at is not None and at >= self._stop_at:
            for each in self._connections:
                each.terminate()
            raise Stopped
        if at == self._pause_at:
            for each in self._connections if self._idle_ms else ():
                await each.limit_idle_time(self._idle_ms)
            self.is_paused = True
            self.is_reached.set()
            await self.is_open.wait()


class StoppingConnection(asyncpg.Connection):
    """A connection that asks a gate before each statement."""

    gate: Gate | None = None
    is_busy = False

    async def limit_idle_time(self, milliseconds: int) -> None:
        """PostgreSQL ends an idle transaction after this time."""
        if self.is_in_transaction() and not self.is_busy:
            limit = f"set local idle_in_transaction_session_timeout = {milliseconds}"
            await asyncpg.Connection.execute(self, limit)


def _entering(call: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    async def enter_first(
        self: StoppingConnection, *arguments: object, **options: object
    ) -> object:
        if self.gate is not None:
            await self.gate.enter()
        self.is_busy = True
        try:
            return await call(self, *arguments, **options)
        finally:
            self.is_busy = False

    return enter_first


for _name in ("fetch", "fetchrow", "fetchval", "execute", "copy_from_query", "copy_to_table"):
    setattr(StoppingConnection, _name, _entering(getattr(asyncpg.Connection, _name)))


class Members:
    """A connection to each database, by name."""

    def __init__(self, connections: "Mapping[str, Connection]", gate: Gate) -> None:
        self.connections = connections
        self._gate = gate

    @classmethod
    @asynccontextmanager
    async def connected(
        cls,
        databases: Mapping[str, str],
        *,
        stop_at: int | None = None,
        pause_at: int | None = None,
        idle_ms: int = 0,
        kill: Callable[[], None] | None = None,
    ) -> AsyncGenerator["Members"]:
        """
        ``stop_at``, ``pause_at``: close or wait before this statement, counted from 0.

        ``idle_ms``: after this time of the pause, PostgreSQL ends open transactions. 0: it doesn't.

        ``kill``: call this before the statement `stop_at` instead of closing.
        """
        gate = Gate(stop_at, pause_at, idle_ms, kill)
        connections: dict[str, Any] = {}
        try:
            for name, dsn in databases.items():
                connections[name] = await asyncpg.connect(
                    dsn, connection_class=StoppingConnection, statement_cache_size=0
                )
            for each in connections.values():
                gate.watch(each)
            yield cls(connections, gate)
        finally:
            for each in connections.values():
                each.terminate()

    def start(self, moving: Coroutine[Any, Any, None]) -> "asyncio.Task[Exception | None]":
        """Begin to move, up to the pause. The result is the error, if any."""

        async def move() -> Exception | None:
            try:
                await moving
            except (
                errors.QueenError,
                asyncpg.PostgresError,
                asyncpg.InterfaceError,
                TimeoutError,
            ) as error:
                return error
            finally:
                self._gate.is_reached.set()
            return None

        self._task = asyncio.create_task(move())
        return self._task

    async def paused(self) -> bool:
        """Wait until the move pauses. False if it ended before."""
        await self._gate.is_reached.wait()
        return self._gate.is_paused

    def resume(self) -> None:
        self._gate.is_open.set()

    def move(self, slot: int, source: str, target: str) -> SlotMove:
        def member(name: str) -> Member:
            return Member(name, self.connections[name])

        return SlotMove(slot, member(source), member(target), member("main"))

    async def value(self, name: str, query: str, *arguments: object) -> Any:  # noqa: ANN401 - any column
        return await self.connections[name].fetchval(query, *arguments)

    async def slot(self, queue: str) -> int:
        return await self.value("main", "select slot from queen.homes where name = $1", queue)

    async def owners(self, slot: int) -> list[str]:
        """The databases that own a slot."""
        query = "select state = 'owned' from queen.slots where slot = $1"
        return [name for name in self.connections if await self.value(name, query, slot)]

    async def rows(self, name: str, slot: int) -> Rows:
        """The rows of a slot in one database, without columns that are different in a copy."""
        return {
            table.name: await self._rows(name, table, slot)
            for table in (SEGMENTS, *TABLES)
            if table.name not in {*MEASURED, "moves"}  # Only the new owner records its move.
        }

    async def _rows(self, name: str, table: Table, slot: int) -> list[str]:
        local = [*table.omitted, *table.replaced, *(["xid"] if table is SEGMENTS else [])]
        rows = table.chosen(slot)
        if table.name == "dedup":
            # A key that was removed and stored again can be there twice.
            local += ["at", "generation"]
            rows = _KEYS.format(slot=slot)
        rows = await self.connections[name].fetch(
            f"select distinct (to_jsonb(t) - $1::text[])::text as row from queen.{table.name} t"
            f" where {rows} order by 1",
            local,
        )
        return [row["row"] for row in rows]


async def run(move: SlotMove) -> None:
    """Move a slot that nothing else uses."""
    while not (progress := await move.step()).is_over:
        assert progress.waits_for is None


async def finish(move: SlotMove) -> Progress:
    """Move a slot that is in use."""
    while not (progress := await move.step()).is_over:
        pass
    return progress
