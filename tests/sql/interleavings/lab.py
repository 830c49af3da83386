"""Step through every order of the transactions of several connections, and check the rules."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import permutations
from types import MappingProxyType
from typing import Final

import asyncpg

from queen.store.queues import Queues
from queen.store.store import Store
from tests.sql.interleavings.rules import Rules
from tests.sql.interleavings.scene import (
    GROUP,
    LEASE_SECONDS,
    OneConnection,
    Scene,
    Setting,
    Verb,
    Violation,
    settlement,
    take,
)
from tests.sql.interleavings.verbs import push
from tests.support.clock import Clock

_PATIENCE_SECONDS: Final = 10.0

# A vacuum that truncates a table locks it at a random time.
_NO_VACUUM: Final = """
do $$
declare
  v_table regclass;
begin
  for v_table in
    select c.oid
    from pg_class c
    where c.relnamespace in ('queen'::regnamespace, 'public'::regnamespace) and c.relkind = 'r'
  loop
    execute format('alter table %s set (autovacuum_enabled = off)', v_table);
  end loop;
end
$$
"""


_PATIENT_COMBINE: Final = """
do $$
declare
  v_combine regprocedure := (
    select oid from pg_proc where proname = 'combine' and pronamespace = 'queen'::regnamespace
  );
begin
  -- It gives up after a moment, but a deadlock must not depend on that.
  execute format('alter function %s set lock_timeout = %L', v_combine, '20s');
end
$$
"""


def schedules(clients: int) -> Iterator[tuple[int, ...]]:
    """
    Every order of one call and one commit per client. The first occurrence of a number is its call.
    """
    seen: set[tuple[int, ...]] = set()
    for order in permutations([each for each in range(clients) for _ in range(2)]):
        if order not in seen:
            seen.add(order)
            yield order


class Client:
    """One connection: a call in a transaction, then the commit."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self.connection = connection
        self.store = Store(OneConnection(connection))
        self.pid = connection.get_server_pid()
        self.call: asyncio.Task[None] | None = None

    @property
    def is_through(self) -> bool:
        return self.call is not None and self.call.done()

    async def begin(self, scene: Scene, verb: Verb) -> None:
        await self.connection.execute("begin")
        self.call = asyncio.ensure_future(_await(verb(scene, self.store)))

    async def commit(self) -> None:
        call, self.call = self.call, None
        if call is None:
            raise RuntimeError("there is nothing to commit")
        await call
        await self.connection.execute("commit")


async def _await(awaitable: Awaitable[None]) -> None:
    await awaitable


class Lab:
    """A database with a clock that tests move, and connections to step through."""

    def __init__(
        self,
        base: "asyncpg.Connection[asyncpg.Record]",
        clients: Sequence[Client],
        clock: Clock,
    ) -> None:
        self.base = base
        self.store = Store(OneConnection(base))
        self.clients = clients
        self.clock = clock
        self._rules = Rules(base, self.store, clock)
        self._pids = {client.pid for client in clients}
        self._scenes = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, clients: int = 3) -> AsyncGenerator["Lab"]:
        connections = [await _connect(dsn) for _ in range(clients + 1)]
        clock = await Clock.install(dsn)
        await connections[0].execute(_NO_VACUUM)
        await connections[0].execute(_PATIENT_COMBINE)
        try:
            yield cls(connections[0], [Client(each) for each in connections[1:]], clock)
        finally:
            for connection in connections:
                connection.terminate()
            await clock.close()

    async def scene(
        self,
        *,
        is_ordered: bool,
        partitions: Sequence[str] = ("x",),
        messages: int = 1,
        is_claimed: bool = True,
        is_expired: bool = False,
        has_letter: bool = False,
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> Scene:
        """
        Create a queue with messages in each partition. If claimed, the first of each is leased.
        """
        self._scenes += 1
        queue = f"q{self._scenes}"
        defaults: dict[str, object] = {
            "ordered": is_ordered,
            "lease_seconds": LEASE_SECONDS,
            "retry_limit": 100,
            "retry_delay_ms": 0,
            **options,
        }
        queues = Queues(OneConnection(self.base), defaults=defaults)
        ids = await queues.partition_ids([(queue, partition, 0) for partition in partitions])
        partition_ids = {
            partition: partition_id
            for partition, (_, partition_id) in zip(partitions, ids, strict=True)
            if partition_id is not None
        }
        group = await self.store.groups.subscribe(queue, GROUP, mode=None, start_at=None)
        assert group is not None
        scene = Scene(queue, group["group_id"], partition_ids, is_ordered)
        if has_letter:
            await push("x")(scene, self.store)
            (lease,) = await take(scene, self.store, batch=1)
            await self.store.messages.nack([settlement(lease, "dead")])
            scene.settled["x", 0] += 1
            scene.letter_id = await self.base.fetchval(
                "select id from queen.dead_letters where group_id = $1", scene.group_id
            )
        for _ in range(messages):
            await push(*partitions)(scene, self.store)
        if is_claimed:
            for partition in partitions:
                (lease,) = await take(scene, self.store, batch=1, partition=partition)
                scene.leases[partition] = lease
        if is_expired:
            await self.clock.advance(seconds=LEASE_SECONDS + 1)
        return scene

    async def run(self, scene: Scene, verbs: Sequence[Verb], order: Sequence[int]) -> None:
        """
        Step through one order of calls and commits.

        A call that waits for another transaction stays waiting, and its commit follows when
        possible.
        """
        running: list[int] = []
        late: list[int] = []
        try:
            for number in order:
                client = self.clients[number]
                if number not in running:
                    running.append(number)
                    await client.begin(scene, verbs[number])
                    await self._settle(client)
                    continue
                late.append(number)
                while ready := [each for each in late if self.clients[each].is_through]:
                    late.remove(ready[0])
                    await self.clients[ready[0]].commit()
                    for each in running:
                        await self._settle(self.clients[each])
            if late:
                # They seem to wait for each other, which PostgreSQL will report as a deadlock.
                calls = [call for each in late if (call := self.clients[each].call)]
                await asyncio.wait_for(asyncio.gather(*calls), _PATIENCE_SECONDS)
                raise Violation(f"clients {late} were through too late")
        except asyncpg.PostgresError as error:
            raise Violation(f"{type(error).__name__}: {error}") from error
        finally:
            await self._reset()

    async def step_through(
        self,
        verbs: Mapping[str, Verb],
        settings: Sequence[Setting],
        *,
        is_ordered: bool,
        partitions: Sequence[str] = ("x",),
        has_letter: bool = False,
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> int:
        """Check every order of these verbs in every setting, and return their number."""
        count = 0
        for order in schedules(len(verbs)):
            for setting in settings:
                scene = await self.scene(
                    is_ordered=is_ordered,
                    partitions=partitions,
                    has_letter=has_letter,
                    options=options,
                    **setting._asdict(),
                )
                try:
                    await self.run(scene, list(verbs.values()), order)
                    await self.check(scene)
                except Exception as error:
                    error.add_note(f"{' / '.join(verbs)} in order {order}, {setting}")
                    raise
                count += 1
        return count

    async def _settle(self, client: Client) -> None:
        """Return once the call is done, or waits for another transaction."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while client.call is not None and not client.call.done():
            await asyncio.wait((client.call,), timeout=0.005)
            blocking = await self.base.fetchval("select pg_blocking_pids($1)", client.pid)
            # Other sessions release their locks without being stepped.
            if not self._pids.isdisjoint(blocking):
                return
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError("a call neither ends nor waits for a lock")

    async def _reset(self) -> None:
        """End all transactions, even after an error."""
        for client in self.clients:
            if client.connection.is_in_transaction() or client.call is not None:
                await self.base.execute("select pg_cancel_backend($1)", client.pid)
                if client.call is not None:
                    await asyncio.wait((client.call,))
                    client.call.exception()
                    client.call = None
                await client.connection.execute("rollback")

    async def check(self, scene: Scene) -> None:
        """Check the rules on this scene."""
        await self._rules.check(scene)


async def _connect(dsn: str) -> "asyncpg.Connection[asyncpg.Record]":
    connection = await asyncpg.connect(
        dsn,
        server_settings={
            "deadlock_timeout": "100ms",
            "jit": "off",
            "lock_timeout": "20s",
            # These tests check visibility, not durability.
            "synchronous_commit": "off",
        },
    )
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads, format="text"
    )
    return connection
