"""The databases that all random programs share, as one engine, and what happens to them."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final, cast

import asyncpg

from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.store.cluster.joining import join
from queen.store.cluster.mover import Move, Mover
from queen.store.migrations import connected
from tests.cluster.model.facade import Facade
from tests.cluster.moves import BROKEN, Members, Stopped, finish
from tests.engine.model.world import ENGINE_SETTINGS, World
from tests.support.clock import Clock
from tests.support.postgres import Postgres

_SLOW_TIME: Final = """
create or replace function queen.now () returns timestamptz language sql volatile as $$
  select c.at + (clock_timestamp() - timestamptz '2026-01-01 00:00Z') / 100 from public.clock c
$$
"""
"""Time passes at the same speed in all databases, and a program takes almost none."""
_MOST_ADDED: Final = 2
"""Databases that are added share one PostgreSQL server, whose connections are limited."""
_FLUSH: Final = "set synchronous_commit = on; select pg_logical_emit_message(true, 'test', '')"
"""A commit that waits for the disk, and so for all commits before it."""


class ClusterWorld(World):
    """Several databases. Each has its own server, except those that are added."""

    def __init__(self, servers: Mapping[str, Postgres], name: str) -> None:
        """``name``: of the database in each server."""
        super().__init__("")
        self._servers = dict(servers)
        self._name = name
        self._added = 0
        self._databases: dict[str, str] = {}
        self._clocks: dict[str, Clock] = {}
        self._opened = AsyncExitStack()
        self._moving: asyncio.Task[None] | None = None
        self.events: list[str] = []
        """What happened to the databases during the current program."""
        self.counts = dict.fromkeys(("moves", "stops", "kills", "adds", "removals"), 0)

    async def _open(self) -> None:
        for name, server in self._servers.items():
            self._databases[name] = server.create_database(self._name)
        await self._join()

    async def _close(self) -> None:
        await self._settled()
        await self._disconnect()

    async def _join(self) -> None:
        """Let all databases join, and connect to them."""
        await join(self._databases)
        await self._connect()

    async def _connect(self) -> None:
        engines: dict[str, Engine] = {}
        for name, dsn in self._databases.items():
            clock = await self._clock(name, dsn)
            self._opened.push_async_callback(clock.close)
            engines[name] = await Engine.open(dsn, settings=ENGINE_SETTINGS)
            self._opened.push_async_callback(engines[name].close)
        self.cluster = Cluster(engines)
        await self.cluster.start()
        self._opened.push_async_callback(self.cluster.close)
        self.engine = cast(Engine, Facade(self.cluster, self._settled))

    async def _clock(self, name: str, dsn: str) -> Clock:
        async with connected(dsn) as connection:
            if await connection.fetchval("select to_regclass('public.clock')"):
                self._clocks[name] = Clock(await asyncpg.connect(dsn))
                return self._clocks[name]
            clock = await Clock.install(dsn)
            await connection.execute(_SLOW_TIME)
        async with connected(self._databases["main"]) as first:
            await clock.set(await first.fetchval("select at from public.clock"))
        self._clocks[name] = clock
        return clock

    async def _disconnect(self) -> None:
        await self._opened.aclose()
        self._opened = AsyncExitStack()

    async def advance(self, seconds: int) -> None:
        for each in self._clocks.values():
            await each.advance(seconds=seconds)

    async def fetch(self, query: str, queue_ids: Sequence[int]) -> list[asyncpg.Record]:
        await self._settled()
        rows: list[asyncpg.Record] = []
        for dsn in self._databases.values():
            async with connected(dsn) as connection:
                await connection.execute("set enable_seqscan = off; set jit = off")
                rows += await connection.fetch(query, queue_ids)
        return rows

    # --- what happens

    async def move(self, slot: int, target: int, stop_at: int | None) -> None:
        """Begin to move a slot. The next calls of the program meet the move."""
        await self._settled()
        await self.cluster.owners.load()
        source = self.cluster.owners.of_slot(slot)
        others = [each for each in self._databases if each != source]
        self.counts["moves"] += 1
        self.events.append(f"move {source} to {others[target % len(others)]}, stop at {stop_at}")
        self._moving = asyncio.create_task(
            self._move(slot, source, others[target % len(others)], stop_at)
        )
        await asyncio.sleep(0)

    async def _move(self, slot: int, source: str, target: str, stop_at: int | None) -> None:
        if stop_at is not None:
            with contextlib.suppress(Stopped, asyncpg.InterfaceError, asyncpg.PostgresError):
                async with Members.connected(self._databases, stop_at=stop_at) as members:
                    await finish(members.move(slot, source, target))
            self.counts["stops"] += 1
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(*BROKEN):
                    async with Members.connected(self._databases) as members:
                        await finish(members.move(slot, source, target))
                        return
                await asyncio.sleep(0.05)

    async def _settled(self) -> None:
        if self._moving is not None and self._moving is not asyncio.current_task():
            moving, self._moving = self._moving, None
            await moving

    async def kill(self, which: int) -> None:
        """
        Kill a database, also in the middle of a move, and start it again.

        A pop commits without waiting for the disk, so a crash may forget it. The model does not
        know that, so all that the program has done is flushed first.
        """
        name = [*self._servers][which % len(self._servers)]
        self.counts["kills"] += 1
        self.events.append(f"kill {name}")
        async with connected(self._databases[name]) as connection:
            await connection.execute(_FLUSH)
        await asyncio.to_thread(self._servers[name].kill)
        await asyncio.to_thread(self._servers[name].start)
        await self._settled()
        await self._disconnect()
        await self._connect()

    async def add(self) -> None:
        """Let a new database join, up to a limit. Servers start again for that."""
        if len(self._databases) - len(self._servers) >= _MOST_ADDED:
            return
        await self._settled()
        await self._disconnect()
        self._added += 1
        self.counts["adds"] += 1
        self.events.append("add")
        name = f"added{self._added}"
        server = self._servers["main"]
        self._databases[name] = server.create_database(f"{self._name}_{self._added}")
        await self._join()

    async def remove(self) -> None:
        """Drain the database that was added, and remove it."""
        name = [*self._databases][-1]
        if name in self._servers:
            return
        await self._settled()
        self.counts["removals"] += 1
        self.events.append(f"remove {name}")
        async with Mover(self._databases) as mover:
            async with connected(self._databases[name]) as connection:
                query = "select slot from queen.slots where state = 'owned'"
                slots = [row["slot"] for row in await connection.fetch(query)]
            given = await mover.give(slots, name, "two")
            for slot in {*slots} - given:
                while not (await mover.step(Move(slot, name, "two"))).is_over:
                    pass
        assert await self.cluster.first.store.homes.remove(name)
        await self._disconnect()
        del self._databases[name], self._clocks[name]
        await self._connect()
