"""Step through every order of the transactions of several connections, and check the rules."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import permutations
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID, uuid4

import asyncpg

from queen import sql
from queen.store.connection.database import Database
from queen.store.messages import Ack, Pop, Push, Settlement
from queen.store.queues import Queues
from queen.store.store import Store
from tests.support.clock import Clock

LEASE_SECONDS: Final = 60.0
GROUP: Final = "g"
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


class Violation(AssertionError):
    """A broken rule."""


class OneConnection(Database):
    """Sends every call on one connection, inside its open transaction."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self.connection = connection

    async def fetch(self, call: str, *arguments: object) -> list[asyncpg.Record]:
        return await self.connection.fetch(sql.CALLS[call], *arguments)


class Lease(NamedTuple):
    """A popped delivery: its ID and token, and its messages."""

    delivery_id: int
    token: UUID
    partition: str
    offsets: tuple[int, ...]


@dataclass
class Scene:
    """A queue for one schedule, and the results of the calls."""

    queue: str
    group_id: int
    partition_ids: dict[str, int]
    is_ordered: bool
    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])
    """Deliveries before the schedule, by partition."""
    pushed: Counter[str] = field(default_factory=Counter[str])
    settled: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    key: UUID = field(default_factory=uuid4)
    """The hash of a transactionId, for pushes that use one."""
    keyed: set[int] = field(default_factory=set[int])
    """The offsets that pushes with this key returned."""
    letter_id: int | None = None
    """The dead letter of offset 0 in partition x, from before the schedule."""
    redriven: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])


class Setting(NamedTuple):
    """
    The initial state: the number of messages, whether the first is claimed, and whether its lease
    is over.
    """

    messages: int
    is_claimed: bool = True
    is_expired: bool = False


Verb = Callable[[Scene, Store], Awaitable[None]]
"""One call in an open transaction, which records its result in the scene."""


def segment(partition_ids: Sequence[int]) -> Push:
    """One message for each of these partitions, in this order."""
    count = len(partition_ids)
    return Push(
        partition_ids=list(partition_ids),
        counts=[1] * count,
        bodies=[b"0"] * count,
        ends=[b"\0\0\0\0\1\0\0\0"] * count,
        extras=[None] * count,
        ttls=[None] * count,
    )


# --- verbs


def push(*partitions: str, has_key: bool = False) -> Verb:
    """Push one message to each of these, in this order. `has_key` gives the first one the key."""

    async def verb(scene: Scene, store: Store) -> None:
        columns = segment([scene.partition_ids[partition] for partition in partitions])
        if has_key:
            columns.keys = [scene.key.bytes]
            columns.key_counts = [1]
            columns.key_entries = [1]
            columns.key_places = [0]
        for row in await store.messages.push(columns):
            if row["kind"] == "stored":
                scene.pushed[partitions[row["ordinal"] - 1]] += 1
            elif row["kind"] != "duplicate":
                raise Violation(f"a push was refused: {row}")
            if has_key and row["ordinal"] == 1:
                scene.keyed.add(row["offset"])

    return verb


def pop(*, batch: int = 4, is_auto: bool = False, is_due_first: bool = True) -> Verb:
    """Pop for the group. Auto-ack settles immediately."""

    async def verb(scene: Scene, store: Store) -> None:
        for lease in await take(scene, store, batch=batch, is_auto=is_auto, due_first=is_due_first):
            if is_auto:
                scene.settled.update((lease.partition, offset) for offset in lease.offsets)

    return verb


def ack(partition: str = "x") -> Verb:
    """Settle the delivery that a partition had before the schedule."""

    async def verb(scene: Scene, store: Store) -> None:
        lease = scene.leases[partition]
        (row,) = await store.messages.ack([Ack(lease.delivery_id, lease.token, None)])
        if row["code"] is None:
            if row["settled"] != len(lease.offsets):
                raise Violation(f"an ack of {lease} settled {row['settled']}")
            scene.settled.update((partition, offset) for offset in lease.offsets)

    return verb


def nack(kind: str = "failed", partition: str = "x") -> Verb:
    """Nack the first message of that delivery."""

    async def verb(scene: Scene, store: Store) -> None:
        await store.messages.nack([_settlement(scene.leases[partition], kind)])

    return verb


def release(partition: str = "x") -> Verb:
    async def verb(scene: Scene, store: Store) -> None:
        lease = scene.leases[partition]
        await store.messages.release([(lease.delivery_id, lease.token)])

    return verb


def extend(partition: str = "x") -> Verb:
    async def verb(scene: Scene, store: Store) -> None:
        lease = scene.leases[partition]
        await store.messages.extend([(lease.delivery_id, lease.token)], [LEASE_SECONDS])

    return verb


def redrive() -> Verb:
    """Redrive the dead letter."""

    async def verb(scene: Scene, store: Store) -> None:
        assert scene.letter_id is not None
        if await store.dead_letters.redrive([scene.letter_id]):
            del scene.settled["x", 0]
            scene.redriven.add(("x", 0))

    return verb


def transact(*, acked: str, pushed: str) -> Verb:
    """Ack the delivery of one partition and push to another, both or neither."""

    async def verb(scene: Scene, store: Store) -> None:
        lease = scene.leases[acked]
        answer = await store.messages.transact(
            [_settlement(lease, "completed")],
            [(lease.delivery_id, lease.token)],
            segment([scene.partition_ids[pushed]]),
        )
        if any(row["kind"] not in ("stored", "acked") for row in answer):
            raise Violation(f"a transaction was refused: {answer}")
        scene.pushed[pushed] += 1
        scene.settled[acked, lease.offsets[0]] += 1

    return verb


def _settlement(lease: Lease, kind: str) -> Settlement:
    return Settlement(lease.delivery_id, lease.token, None, lease.offsets[0], kind, None, None)


async def take(
    scene: Scene,
    store: Store,
    *,
    batch: int,
    partition: str | None = None,
    is_auto: bool = False,
    due_first: bool = True,
) -> list[Lease]:
    """Pop, and join the runs of each delivery."""
    rows = await store.messages.pop(
        Pop(
            group_ids=[scene.group_id],
            ready_since=[None],
            due_since=[None],
            partition=partition,
            batches=[batch],
            partitions=[10],
            leases=[None],
            is_auto=is_auto,
            due="first" if due_first else "last",
            turn=0,
        )
    )
    leases: list[Lease] = []
    for row in rows:
        if row["request"] is None:
            continue
        offsets = tuple(range(row["first_offset"], row["end_offset"]))
        lease = Lease(row["delivery_id"], row["token"], row["partition"], offsets)
        if leases and leases[-1][:3] == lease[:3]:
            leases[-1] = leases[-1]._replace(offsets=leases[-1].offsets + offsets)
        else:
            leases.append(lease)
    return leases


# --- schedules


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
        self._pids = {client.pid for client in clients}
        self._scenes = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, clients: int = 3) -> AsyncGenerator["Lab"]:
        connections = [await _connect(dsn) for _ in range(clients + 1)]
        clock = await Clock.install(dsn)
        await connections[0].execute(_NO_VACUUM)
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
            await self.store.messages.nack([_settlement(lease, "dead")])
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

    # --- rules

    async def check(self, scene: Scene) -> None:
        """
        No message is lost, skipped or reordered, one lease per pair, no idle pair with messages.
        """
        await self.check_offsets(scene)
        await self.check_keys(scene)
        await self.check_settled_once(scene)
        await self.check_holders(scene)
        await self.check_wakefulness(scene)
        await self.check_drain(scene)

    async def check_offsets(self, scene: Scene) -> None:
        """I5: offsets are dense from 0, and as many as the pushes returned."""
        for partition, partition_id in scene.partition_ids.items():
            next_offset = 0
            for row in await self.base.fetch(
                "select base_offset, message_count from queen.segments"
                " where partition_id = $1 order by base_offset",
                partition_id,
            ):
                if row["base_offset"] != next_offset:
                    raise Violation(f"offsets not dense: {row} where {next_offset} comes next")
                next_offset += row["message_count"]
            if next_offset != scene.pushed[partition]:
                raise Violation(f"{next_offset} messages stored of {scene.pushed[partition]}")

    async def check_keys(self, scene: Scene) -> None:
        """I17: every push of a transactionId returned the same offset."""
        if len(scene.keyed) > 1:
            raise Violation(f"a transactionId was stored twice: at {scene.keyed}")

    async def check_settled_once(self, scene: Scene) -> None:
        """I10: of two calls that settle one message, one is rejected."""
        twice = [place for place, times in scene.settled.items() if times > 1]
        if twice:
            raise Violation(f"settled twice: {twice}")

    async def check_holders(self, scene: Scene) -> None:
        """I9: no message is leased twice, and an ordered pair has one delivery."""
        deliveries = await self.base.fetch(
            """
            select a.partition_id, a.pending::text as pending, b.pending::text as other
            from queen.deliveries a
            join queen.deliveries b
              on b.group_id = a.group_id and b.partition_id = a.partition_id and b.id > a.id
            where a.group_id = $1
              and case
                when $2 then a.until < 'infinity' and b.until < 'infinity'
                else a.pending && b.pending
              end
            """,
            scene.group_id,
            scene.is_ordered,
        )
        if deliveries:
            raise Violation(f"two holders: {deliveries}")

    async def check_wakefulness(self, scene: Scene) -> None:
        """Rule 3: no pair with unclaimed messages is idle."""
        asleep = await self.base.fetch(
            """
            select c.partition_id, c.claimed, s.next_offset
            from queen.consumers c
            cross join lateral (
              select max(s.base_offset + s.message_count) as next_offset
              from queen.segments s where s.partition_id = c.partition_id
            ) s
            where c.group_id = $1
              and c.ready_at is null
              and not c.held
              and c.claimed < s.next_offset
            """,
            scene.group_id,
        )
        if asleep:
            raise Violation(f"lost wake-up: {asleep}")

    async def check_drain(self, scene: Scene) -> None:
        """
        I1, I7, I12: unsettled messages are delivered once and in order, and settled ones are not.
        """
        came: dict[str, list[int]] = {partition: [] for partition in scene.partition_ids}
        # All current deliveries expire and are redelivered.
        await self.clock.advance(seconds=3 * LEASE_SECONDS)
        for _ in range(100):
            leases = await take(scene, self.store, batch=3)
            if not leases:
                break
            for lease in leases:
                came[lease.partition].extend(lease.offsets)
                (row,) = await self.store.messages.ack([Ack(lease.delivery_id, lease.token, None)])
                if row["code"] is not None:
                    raise Violation(f"a current lease was refused: {lease}")
        else:
            raise Violation(f"it does not drain: {came}")
        for partition, offsets in came.items():
            expected = [
                offset
                for offset in range(scene.pushed[partition])
                if (partition, offset) not in scene.settled
            ]
            if sorted(offsets) != expected:
                raise Violation(f"{partition}: {offsets} came, {expected} were to come")
            in_order = [each for each in offsets if (partition, each) not in scene.redriven]
            if scene.is_ordered and in_order != sorted(in_order):
                raise Violation(f"{partition}: out of order: {offsets}")


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
