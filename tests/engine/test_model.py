"""Random programs have the same effect on the engine as on a model of the delivery rules."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import asyncpg
import pytest
import uvloop
from hypothesis import HealthCheck, reproduce_failure, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from queen import errors
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.engine.push.batches import PushResult
from queen.settings import Settings
from queen.wire.messages import Acknowledgment, PopRequest, PushItem
from tests.engine.helpers import extend
from tests.engine.model import (
    DEDUP_SECONDS,
    GRID_SECONDS,
    LEASE_SECONDS,
    MAX_RETRY_SECONDS,
    RETRY_BACKOFF,
    RETRY_SECONDS,
    Got,
    Group,
    Held,
    Item,
    Model,
    Pair,
    Queue,
    Refused,
    Stored,
)
from tests.support.clock import Clock

T = TypeVar("T")

PROGRAMS: Final = int(os.environ.get("QUEEN_MODEL_EXAMPLES", "25"))
STEPS: Final = 50
GROUPS: Final[tuple[Group, ...]] = (None, "g1", "g2")
PARTITIONS: Final = ("a", "b", "c")
QUEUE_MODE: Final = "__QUEUE_MODE__"

# Searches by time begin at their mark, and each pop scans the leases, at any time of day: a
# failed program must fail again.
ENGINE_SETTINGS: Final = Settings(due_search_ms=1e-6, full_search_ms=1e12)

OBSERVE: Final = """
select json_build_object(
  'pairs', (
    select coalesce(json_agg(json_build_array(
      g.queue_id, g.name, p.name, c.claimed, c.ready_at is not null, coalesce((
        select s.base_offset + s.message_count from queen.segments s
        where s.partition_id = p.id order by s.base_offset desc limit 1
      ), 0)
    )), '[]')
    from queen.groups g
    join queen.partitions p on p.queue_id = g.queue_id
    join queen.consumers c on c.partition_id = p.id and c.group_id = g.id
    where g.queue_id = any ($1)
  ),
  'deliveries', (
    select coalesce(json_agg(json_build_array(
      g.queue_id, g.name, p.name,
      array(
        select o
        from unnest(d.pending) r
        cross join lateral generate_series(lower(r), upper(r) - 1) o
        order by o
      ),
      case when d.held then '0.' || d.id || '.' || replace(d.token::text, '-', '') end,
      d.payload is not null, d.until = 'infinity',
      case when d.until < 'infinity' then extract(epoch from d.until - n.at) else 0 end
    )), '[]')
    from (select queen.now() as at) n
    cross join queen.groups g
    join queen.deliveries d on d.group_id = g.id
    join queen.partitions p on p.id = d.partition_id
    where g.queue_id = any ($1)
  ),
  'letters', (
    select coalesce(json_agg(json_build_array(
      l.queue_id, l."group", l.partition, l."offset", l.id, convert_from(l.payload, 'UTF8'),
      l.attempts, l.error
    )), '[]')
    from queen.dead_letters l
    where l.queue_id = any ($1)
  )
)
"""

# I5: from 0 on without gaps or overlaps. I6: times never decrease with rising offsets.
NOT_DENSE: Final = """
select s.partition_id, s.base_offset
from (
  select
    s.*,
    lag(s.base_offset + s.message_count, 1, 0::bigint) over w as next_offset,
    lag(s.created_at, 1, s.created_at) over w as last_at
  from queen.segments s
  join queen.partitions p on p.id = s.partition_id
  where p.queue_id = any ($1)
  window w as (partition by s.partition_id order by s.base_offset)
) s
where s.base_offset <> s.next_offset or s.created_at < s.last_at
"""

# I14: a message is unclaimed, claimed, a dead letter, or settled. A redriven message is only
# claimed. I15: no offset is claimed that does not exist, or delivered that was not claimed.
STATES: Final = """
with message as (
  select
    c.partition_id, c.group_id, g.queue_id, g.name as "group", p.name as partition, c.claimed, o.n
  from queen.groups g
  join queen.partitions p on p.queue_id = g.queue_id
  join queen.consumers c on c.partition_id = p.id and c.group_id = g.id
  cross join lateral (
    select coalesce(max(s.base_offset + s.message_count), 0) as next
    from queen.segments s where s.partition_id = p.id
  ) e
  cross join lateral generate_series(0, greatest(e.next, c.claimed) - 1) o (n)
  where g.queue_id = any ($1)
)
select m.queue_id, m."group", m.partition, m.n as "offset", s.states
from message m
cross join lateral (
  select array_agg(s.state) as states
  from (
    select 'unclaimed' as state where m.n >= m.claimed
    union all
    select 'out' from queen.deliveries d
    where d.partition_id = m.partition_id and d.group_id = m.group_id and d.pending @> m.n
    union all
    select 'dead' from queen.dead_letters l
    where l.partition_id = m.partition_id and l.group_id = m.group_id and l."offset" = m.n
    union all
    select 'missing' where not exists (
      select 1 from queen.segments s
      where s.partition_id = m.partition_id
        and m.n >= s.base_offset and m.n < s.base_offset + s.message_count
    )
  ) s
) s
where cardinality(s.states) > 1 or 'missing' = any (s.states)
"""

# No message may be left to deliver, and no row may claim that there is one.
NOT_DRAINED: Final = """
select g.name as "group", p.name as partition, c.claimed, c.held, c.ready_at, c.parked
from queen.groups g
join queen.partitions p on p.queue_id = g.queue_id
join queen.consumers c on c.partition_id = p.id and c.group_id = g.id
where g.queue_id = any ($1)
  and (
    c.held
    or c.parked > 0
    or c.claimed <> coalesce((
      select max(s.base_offset + s.message_count) from queen.segments s where s.partition_id = p.id
    ), 0)
    or exists (
      select 1 from queen.deliveries d where d.partition_id = p.id and d.group_id = g.id
    )
  )
"""


class Given(NamedTuple):
    """A lease that was granted at some time, with its message IDs by offset."""

    group: Group
    ids: dict[int, str]
    transaction_ids: dict[int, str]


class Seen(NamedTuple):
    """The content of the tables: rows of `OBSERVE`, by place."""

    pairs: dict[tuple[int, Group, str], tuple[int, bool, int]]
    deliveries: dict[tuple[int, Group, str], list[tuple[tuple[int, ...], str, bool, bool, float]]]
    """Pending offsets, lease, is a copy, is parked, seconds until it is due."""
    letters: dict[tuple[int, Group, str, int], tuple[int, str, int, str | None]]

    @property
    def leases(self) -> set[str]:
        return {lease for each in self.deliveries.values() for _, lease, *_ in each if lease}


class World:
    """The database, engine, clock and event loop that all programs share."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.programs = 0

    def __enter__(self) -> "World":
        self._runner.__enter__()
        self.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self._close())
        finally:
            self._runner.close()

    def run(self, coroutine: Coroutine[Any, Any, object]) -> None:
        self._runner.run(coroutine)

    async def _open(self) -> None:
        self.clock = await Clock.install(self._dsn)
        self.connection = await asyncpg.connect(
            self._dsn, server_settings={"enable_seqscan": "off", "jit": "off"}
        )
        self.engine = await Engine.open(self._dsn, settings=ENGINE_SETTINGS)

    async def _close(self) -> None:
        await self.engine.close()
        await self.connection.close()
        await self.clock.close()

    async def observe(self, queue_ids: Sequence[int]) -> Seen:
        """The current content of the delivery tables."""
        found = json.loads(await self.connection.fetchval(OBSERVE, queue_ids))
        seen = Seen({}, {}, {})
        for queue_id, group, partition, claimed, is_ready, end in found["pairs"]:
            seen.pairs[queue_id, _group(group), partition] = (claimed, is_ready, end)
        for queue_id, group, partition, pending, lease, *flags in found["deliveries"]:
            seen.deliveries.setdefault((queue_id, _group(group), partition), []).append(
                (tuple(pending), lease or "", *flags)
            )
        for queue_id, group, partition, offset, *rest in found["letters"]:
            seen.letters[queue_id, _group(group), partition, offset] = tuple(rest)
        return seen


def _pair(lease_id: str | None) -> str:
    """A lease without the time of its delivery, which the database does not store."""
    if not lease_id:
        return ""
    shard, delivery_id, _, token = lease_id.split(".")
    return f"{shard}.{delivery_id}.{token}"


def _group(name: str) -> Group:
    return None if name == QUEUE_MODE else name


def _predict(call: Callable[[], T]) -> tuple[T | None, str | None]:
    """The result of the model, or its error code."""
    try:
        return call(), None
    except Refused as refusal:
        return None, refusal.code


async def _attempt(call: Awaitable[T]) -> tuple[T | None, str | None]:
    """The result of the engine, or its error code."""
    try:
        return await call, None
    except errors.QueenError as error:
        return None, error.code


class Program(RuleBasedStateMachine):
    """A program of 50 steps. `stands` is False from the start of a step until its check."""

    world: ClassVar[World]

    def __init__(self) -> None:
        super().__init__()
        self.stands = False
        self.world.programs += 1
        self.prefix = f"p{self.world.programs}"
        self.model = Model({})
        self.queue_ids: dict[str, int] = {}
        self.groups: Sequence[Group] = ()
        self.partitions: Sequence[str] = ()
        self.given: dict[str, Given] = {}
        self.ids: dict[tuple[str, str, int], str] = {}
        self.positions: dict[tuple[str, Group, str], int] = {}
        self.seen = Seen({}, {}, {})
        self.payloads = 0

    def do(self, step: Coroutine[Any, Any, object]) -> None:
        self.stands = False
        self.world.run(step)
        self.stands = True

    # --- rules

    @initialize(
        kinds=st.sampled_from([(True,), (False,), (True, False)]),
        groups=st.integers(1, len(GROUPS)),
        partitions=st.integers(1, len(PARTITIONS)),
        retry_limit=st.integers(0, 3),
    )
    def begin(self, kinds: Sequence[bool], groups: int, partitions: int, retry_limit: int) -> None:
        """Use few queues, groups and partitions, so that more happens to each."""
        self.groups = GROUPS[:groups]
        self.partitions = PARTITIONS[:partitions]
        for is_ordered in kinds:
            name = f"{self.prefix}-{'ordered' if is_ordered else 'unordered'}"
            self.model.queues[name] = Queue(is_ordered, retry_limit)
        self.do(self._configure())

    @rule(
        queue=st.integers(0, 1),
        partition=st.integers(0, 2),
        keys=st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=3),
        producer=st.none() | st.sampled_from([0, 0, 1, -1, -2]),
    )
    def push(
        self, queue: int, partition: int, keys: list[int | None], producer: int | None
    ) -> None:
        name = self._queue(queue)
        place = self._partition(partition)
        items = [self._item(place, key) for key in keys]
        sequence = self._sequence(producer)
        last = self.model.requests.get(sequence[0]) if sequence else None
        if producer == -1 and last is not None and len(keys) > 1:
            name, items = last  # Repeat the same request, or send another one with its number.
        self.do(self._push(name, items, sequence))

    @rule(
        queue=st.integers(0, 1),
        group=st.integers(0, 2),
        partition=st.none() | st.integers(0, 2),
        batch=st.integers(1, 4),
        partitions=st.integers(1, 2),
        is_auto=st.sampled_from([False, False, False, True]),
    )
    def pop(
        self,
        queue: int,
        group: int,
        partition: int | None,
        batch: int,
        partitions: int,
        is_auto: bool,
    ) -> None:
        self.do(
            self._pop(
                self._queue(queue),
                self.groups[group % len(self.groups)],
                partition=None if partition is None else self._partition(partition),
                batch=batch,
                partitions=partitions,
                is_auto=is_auto,
            )
        )

    @rule(queue=st.integers(0, 1), group=st.integers(0, 2), batch=st.integers(1, 4))
    def pop_of_all(self, queue: int, group: int, batch: int) -> None:
        """One more pop: while no message is leased, most other steps have no effect."""
        self.do(
            self._pop(
                self._queue(queue),
                self.groups[group % len(self.groups)],
                partition=None,
                batch=batch,
                partitions=2,
                is_auto=False,
            )
        )

    @precondition(lambda self: self.model.held())
    @rule(which=st.integers(0, 11))
    def ack(self, which: int) -> None:
        self.do(self._ack(self._held(which), None))

    @precondition(lambda self: self.model.held())
    @rule(which=st.integers(0, 11), picks=st.lists(st.integers(0, 3), min_size=1, max_size=3))
    def ack_some(self, which: int, picks: list[int]) -> None:
        held = self._held(which)
        out = held.delivery.out
        self.do(self._ack(held, [out[pick % len(out)] for pick in picks]))

    @precondition(lambda self: self.model.held())
    @rule(
        which=st.integers(0, 11),
        pick=st.integers(0, 3),
        status=st.sampled_from(["failed", "failed", "retry", "dlq", "completed"]),
        by_key=st.booleans(),
    )
    def nack(self, which: int, pick: int, status: str, by_key: bool) -> None:
        held = self._held(which)
        out = held.delivery.out
        self.do(self._nack(held, out[pick % len(out)], status, by_key))

    @precondition(lambda self: self.model.held())
    @rule(which=st.integers(0, 11), steps=st.integers(1, 5))
    def extend(self, which: int, steps: int) -> None:
        self.do(self._extend(self._held(which), steps * GRID_SECONDS))

    @precondition(lambda self: self.model.held())
    @rule(which=st.integers(0, 11))
    def release(self, which: int) -> None:
        self.do(self._release(self._held(which)))

    @rule(steps=st.sampled_from([1, 1, 2, 3, 3, DEDUP_SECONDS // GRID_SECONDS]))
    def let_time_pass(self, steps: int) -> None:
        self.do(self._advance(steps * GRID_SECONDS))

    @rule(
        queue=st.integers(0, 1),
        group=st.integers(0, 2),
        partition=st.none() | st.integers(0, 2),
        to=st.sampled_from(["start", "end"]) | st.integers(0, 5),
    )
    def seek(self, queue: int, group: int, partition: int | None, to: str | int) -> None:
        if isinstance(to, int) and partition is None:
            partition = to
        self.do(
            self._seek(
                self._queue(queue),
                self.groups[group % len(self.groups)],
                None if partition is None else self._partition(partition),
                to,
            )
        )

    @precondition(lambda self: self.model.held())
    @rule(
        which=st.lists(st.integers(0, 11), min_size=1, max_size=2),
        queue=st.integers(0, 1),
        keys=st.lists(st.none() | st.integers(0, 3), max_size=2),
        first=st.integers(0, 2),
        producer=st.none() | st.sampled_from([0, 0, -1, -2]),
        is_whole=st.booleans(),
        is_rolled_back=st.booleans(),
    )
    def transact(
        self,
        which: list[int],
        queue: int,
        keys: list[int | None],
        first: int,
        producer: int | None,
        is_whole: bool,
        is_rolled_back: bool,
    ) -> None:
        name = self._queue(queue)
        # One item per partition, because the second of two with one key is not a repeat of a stored
        # one.
        keys = keys[: len(self.partitions)]
        items = [self._item(self._partition(first + at), key) for at, key in enumerate(keys)]
        helds = {id(held.delivery): held for held in map(self._held, which)}
        acks = [
            (held, list(held.delivery.out if is_whole else held.delivery.out[-1:]))
            for held in helds.values()
        ]
        self.do(self._transact(acks, name, items, self._sequence(producer), is_rolled_back))

    @precondition(lambda self: self._stale())
    @rule(
        which=st.integers(0, 11),
        verb=st.sampled_from(
            ["ack", "ack some", "nack", "extend", "release", "transact", "require"]
        ),
    )
    def come_too_late(self, which: int, verb: str) -> None:
        stale = self._stale()
        self.do(self._come_too_late(stale[which % len(stale)], verb))

    @precondition(lambda self: self._letters())
    @rule(which=st.integers(0, 11))
    def redrive(self, which: int) -> None:
        letters = self._letters()
        self.do(self._redrive(*letters[which % len(letters)]))

    @rule(queue=st.integers(0, 1), is_paused=st.sampled_from([True, False, False]))
    def pause_or_resume(self, queue: int, is_paused: bool) -> None:
        self.do(self._pause(self._queue(queue), is_paused))

    def teardown(self) -> None:
        if self.stands:
            self.do(self._end())

    # --- choices

    def _queue(self, number: int) -> str:
        names = list(self.model.queues)
        return names[number % len(names)]

    def _partition(self, number: int) -> str:
        return self.partitions[number % len(self.partitions)]

    def _held(self, number: int) -> Held:
        held = self.model.held()
        return held[number % len(held)]

    def _stale(self) -> list[str]:
        current = {held.delivery.lease_id for held in self.model.held()}
        return [lease for lease in self.given if lease not in current]

    def _letters(self) -> list[tuple[str, tuple[Group, str, int]]]:
        return [
            (name, letter) for name, queue in self.model.queues.items() for letter in queue.letters
        ]

    def _item(self, partition: str, key: int | None) -> Item:
        self.payloads += 1
        payload = f'{{"n":{self.payloads},"in":"{self.prefix}"}}'.encode()
        return Item(partition, payload, None if key is None else f"t{key}")

    def _sequence(self, step: int | None) -> tuple[str, int] | None:
        """A producer and its sequence: 0 is the next one, -1 repeats the last, -2 is stale."""
        if step is None:
            return None
        producer = f"{self.prefix}-producer"
        return producer, max(self.model.sequences.get(producer, -1) + 1 + step, 0)

    # --- steps

    async def _configure(self) -> None:
        for name, queue in self.model.queues.items():
            row = await self.world.engine.queues.configure(
                name,
                {
                    "ordered": queue.is_ordered,
                    "lease_seconds": LEASE_SECONDS,
                    "retry_limit": queue.retry_limit,
                    "retry_delay_ms": RETRY_SECONDS * 1000,
                    "retry_backoff": RETRY_BACKOFF,
                    "max_retry_delay_ms": MAX_RETRY_SECONDS * 1000,
                    "dedup_seconds": DEDUP_SECONDS,
                },
            )
            self.queue_ids[name] = row["id"]

    async def _push(
        self, queue: str, items: Sequence[Item], producer: tuple[str, int] | None
    ) -> None:
        producer_id, sequence = producer or (None, None)
        expected, refused = _predict(
            lambda: self.model.push(queue, items, producer_id=producer_id, sequence=sequence)
        )
        pushed, code = await _attempt(
            self.world.engine.push(
                self._wire(queue, items), producer_id=producer_id, sequence=sequence
            )
        )
        assert code == refused
        if pushed is not None:
            self._check_pushed(queue, items, pushed, expected)
        await self._judge()

    def _wire(self, queue: str, items: Sequence[Item]) -> list[PushItem]:
        return [
            PushItem(
                queue=queue,
                partition=item.partition,
                payload=item.payload,
                transaction_id=item.transaction_id,
            )
            for item in items
        ]

    def _check_pushed(
        self,
        queue: str,
        items: Sequence[Item],
        pushed: PushResult,
        expected: Sequence[Stored] | None,
    ) -> None:
        assert pushed.is_replayed == (expected is None)
        if expected is None:
            return
        assert [(each.status, each.offset) for each in pushed] == list(expected)
        for item, each in zip(items, pushed, strict=True):
            assert each.id is not None
            assert each.offset is not None
            assert each.transaction_id == (item.transaction_id or each.id)
            place = (queue, item.partition, each.offset)
            assert self.ids.setdefault(place, each.id) == each.id, f"two ids for {place}"

    async def _pop(
        self,
        queue: str,
        group: Group,
        *,
        partition: str | None,
        batch: int,
        partitions: int,
        is_auto: bool,
    ) -> int:
        deliveries = await self.world.engine.pop(
            PopRequest(
                queue=queue,
                consumer_group=group,
                partition=partition,
                batch=batch,
                partitions=partitions,
                auto_ack=is_auto,
            )
        )
        got = [self._got(queue, group, delivery) for delivery in deliveries]
        seen = await self._observe()
        self.model.pop(
            queue,
            group,
            partition=partition,
            batch=batch,
            partitions=partitions,
            is_auto=is_auto,
            got=got,
            current={lease for lease in self.given if _pair(lease) in seen.leases},
        )
        await self._judge(seen)
        return len(got)

    def _got(self, queue: str, group: Group, delivery: Delivery) -> Got:
        messages = list(delivery.messages())
        for message in messages:
            place = (queue, delivery.partition, message.offset)
            assert message.id == self.ids[place], f"another id at {place}"
            assert message.attempt == delivery.attempt
        lease_id = delivery.lease_id
        if lease_id is not None:
            assert lease_id not in self.given, f"lease {lease_id} was given twice"
            self.given[lease_id] = Given(
                group,
                {message.offset: message.id for message in messages},
                {message.offset: message.transaction_id for message in messages},
            )
        return Got(
            delivery.partition,
            lease_id,
            delivery.attempt,
            tuple(message.offset for message in messages),
            tuple(bytes(message.data) for message in messages),
        )

    async def _ack(self, held: Held, offsets: list[int] | None) -> None:
        assert held.delivery.lease_id is not None
        settled = await self.world.engine.ack(held.delivery.lease_id, offsets)
        assert settled == self.model.ack(held, offsets)
        await self._judge()

    async def _nack(self, held: Held, offset: int, status: str, by_key: bool) -> None:
        given = self.given[held.delivery.lease_id or ""]
        queue = self.model.queues[held.queue]
        key = given.transaction_ids[offset]
        # After its window, several messages may have one transactionId.
        is_named = by_key and [given.transaction_ids[o] for o in held.delivery.out].count(key) == 1
        error = None if status == "completed" else f"{status} {offset}"
        letters = len(queue.letters)
        is_dead_already = (held.group, held.partition, offset) in queue.letters
        (answer,) = await self.world.engine.acknowledge(
            [
                Acknowledgment(
                    id=None if is_named else given.ids[offset],
                    transaction_id=key if is_named else None,
                    status=status,
                    error=error,
                    lease_id=held.delivery.lease_id,
                    consumer_group=held.group,
                )
            ]
        )
        assert answer.success, answer
        if status == "completed":
            self.model.ack(held, [offset])
        else:
            self.model.nack(held, offset, status, error)
        assert answer.dlq == (len(queue.letters) > letters) or is_dead_already, answer
        await self._judge()

    async def _extend(self, held: Held, seconds: int) -> None:
        assert held.delivery.lease_id is not None
        await extend(self.world.engine, held.delivery.lease_id, seconds=seconds)
        self.model.extend(held, seconds)
        await self._judge()

    async def _release(self, held: Held) -> None:
        assert held.delivery.lease_id is not None
        await self.world.engine.release(held.delivery.lease_id)
        self.model.release(held)
        await self._judge()

    async def _advance(self, seconds: int) -> None:
        await self.world.clock.advance(seconds=seconds)
        self.model.now += seconds

    async def _seek(self, queue: str, group: Group, partition: str | None, to: str | int) -> None:
        offset = to if isinstance(to, int) else 0 if to == "start" else None
        _, refused = _predict(lambda: self.model.seek(queue, group, partition, offset))
        _, code = await _attempt(
            self.world.engine.queues.seek(
                queue,
                group,
                partition=partition,
                to_start=to == "start",
                to_end=to == "end",
                offset=to if isinstance(to, int) else None,
            )
        )
        assert code == refused
        for place in list(self.positions):
            if place[:2] == (queue, group):
                del self.positions[place]
        await self._judge()

    async def _transact(
        self,
        acks: Sequence[tuple[Held, Sequence[int]]],
        queue: str,
        items: Sequence[Item],
        producer: tuple[str, int] | None,
        is_rolled_back: bool,
    ) -> None:
        producer_id, sequence = producer or (None, None)
        acknowledgments = [
            Acknowledgment(
                id=self.given[held.delivery.lease_id or ""].ids[offset],
                lease_id=held.delivery.lease_id,
            )
            for held, offsets in acks
            for offset in offsets
        ]
        leases = [held.delivery.lease_id or "" for held, _ in acks]
        expected, refused = _predict(
            lambda: self.model.transact(
                acks,
                queue,
                items,
                is_rolled_back_on_duplicate=is_rolled_back,
                producer_id=producer_id,
                sequence=sequence,
            )
        )
        pushed, code = await _attempt(
            self.world.engine.transact(
                acknowledgments=acknowledgments,
                items=self._wire(queue, items),
                required_leases=leases,
                is_rolled_back_on_duplicate=is_rolled_back,
                producer_id=producer_id,
                sequence=sequence,
            )
        )
        assert code == refused
        if pushed is not None:
            self._check_pushed(queue, items, pushed, expected)
        await self._judge()

    async def _come_too_late(self, lease_id: str, verb: str) -> None:
        engine = self.world.engine
        offset, message_id = next(iter(self.given[lease_id].ids.items()))
        acknowledgment = Acknowledgment(id=message_id, lease_id=lease_id, status="failed")
        items = self._wire(self._queue(0), [self._item(self._partition(0), None)])
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "ack": lambda: engine.ack(lease_id),
            "ack some": lambda: engine.ack(lease_id, [offset]),
            "extend": lambda: extend(engine, lease_id, seconds=GRID_SECONDS),
            "release": lambda: engine.release(lease_id),
            "transact": lambda: engine.transact(acknowledgments=[acknowledgment], items=items),
            "require": lambda: engine.transact(required_leases=[lease_id], items=items),
        }
        if verb == "nack":
            (answer,) = await engine.acknowledge([acknowledgment])
            assert (answer.success, answer.code) == (False, "lease_lost")
        else:
            with pytest.raises(errors.LeaseLost):
                await calls[verb]()
        if verb in ("transact", "require"):
            # It may have created the partition, but never the message.
            self.model.queues[self._queue(0)].add_partition(self._partition(0))
        await self._judge()

    async def _redrive(self, queue: str, letter: tuple[Group, str, int]) -> None:
        letter_id = self.seen.letters[self.queue_ids[queue], *letter][0]
        assert await self.world.engine.dead_letters.redrive([letter_id]) == [letter_id]
        self.model.redrive(queue, letter)
        self.positions.pop((queue, *letter[:2]), None)
        await self._judge()
        assert await self.world.engine.dead_letters.redrive([letter_id]) == []

    async def _pause(self, queue: str, is_paused: bool) -> None:
        await self.world.engine.queues.configure(queue, {"paused": is_paused})
        self.model.queues[queue].is_paused = is_paused

    # --- checks

    async def _observe(self) -> Seen:
        return await self.world.observe(list(self.queue_ids.values()))

    async def _judge(self, seen: Seen | None = None) -> None:
        """Compare the tables with the model."""
        self.seen = seen = seen or await self._observe()
        letters: dict[tuple[int, Group, str, int], tuple[str, int | None, str | None]] = {}
        for name, queue in self.model.queues.items():
            queue_id = self.queue_ids[name]
            for group, partition, pair in queue.places():
                place = (queue_id, group, partition)
                end = len(queue.partitions[partition])
                claimed, is_ready, seen_end = seen.pairs.get(place, (0, end > 0, end))
                where = f"{name} {group} {partition}"
                assert (claimed, seen_end) == (pair.claimed, end), where
                self._judge_deliveries(pair, seen.deliveries.get(place, []), where)
                is_free = not queue.is_ordered or not pair.deliveries
                if is_free and pair.claimed < end:
                    assert is_ready, f"{where}: idle with messages behind {claimed}"
                last = self.positions.get((name, group, partition), 0)
                assert pair.position >= last, f"{where}: the position fell to {pair.position}"
                self.positions[name, group, partition] = pair.position
            for letter, dead in queue.letters.items():
                letters[queue_id, *letter] = (
                    dead.message.payload.decode(),
                    dead.attempts,
                    dead.error,
                )
        assert seen.letters.keys() == letters.keys()
        for place, (payload, attempts, error) in letters.items():
            _, seen_payload, seen_attempts, seen_error = seen.letters[place]
            assert (seen_payload, seen_error) == (payload, error), place
            assert attempts in (None, seen_attempts), place

    def _judge_deliveries(
        self,
        pair: Pair,
        seen: Sequence[tuple[tuple[int, ...], str, bool, bool, float]],
        where: str,
    ) -> None:
        """Compare the claimed messages, their holders and their ends."""
        expected = sorted(
            (tuple(d.pending), _pair(d.lease_id), d.is_copy, d.is_parked, d.until - self.model.now)
            for d in pair.deliveries
        )
        found = sorted(seen)
        assert [each[:4] for each in found] == [each[:4] for each in expected], where
        for (_, lease, _, is_parked, seconds), (*_, grid_seconds) in zip(
            found, expected, strict=True
        ):
            # Backoffs end before the grid time at which they are certainly over.
            slack = 0 if lease else GRID_SECONDS
            is_right = grid_seconds - slack - 1 < seconds < grid_seconds + 1
            assert is_parked or is_right, f"{where}: ends in {seconds} s, not {grid_seconds}"

    async def _end(self) -> None:
        """Check the invariants on the tables, drain all queues, and check them again."""
        if not self.queue_ids:
            return
        ids = list(self.queue_ids.values())
        await self._check_invariants(ids)
        for name in self.model.queues:
            await self._pause(name, False)
        for _ in range(20):
            # The leases end, and the longest backoff is over.
            await self._advance(5 * LEASE_SECONDS)
            if not await self._drain():
                break
        else:
            raise AssertionError("something comes again and again")
        rows = await self.world.connection.fetch(NOT_DRAINED, ids)
        assert not rows, f"not drained: {rows}"
        await self._check_invariants(ids)

    async def _drain(self) -> int:
        """Pop and ack until all queues are empty, and return the number of deliveries."""
        count = 0
        for name, queue in self.model.queues.items():
            for group in list(queue.pairs):
                while await self._pop(
                    name, group, partition=None, batch=100, partitions=10, is_auto=False
                ):
                    for held in self.model.held():
                        if (held.queue, held.group) == (name, group):
                            count += 1
                            await self._ack(held, None)
        return count

    async def _check_invariants(self, ids: Sequence[int]) -> None:
        rows = await self.world.connection.fetch(NOT_DENSE, ids)
        assert not rows, f"offsets are not dense, or time fell: {rows}"
        excused = {
            (self.queue_ids[name], *letter)
            for name, queue in self.model.queues.items()
            for letter in queue.sought_back
        }
        for row in await self.world.connection.fetch(STATES, ids):
            place = (row["queue_id"], _group(row["group"]), row["partition"], row["offset"])
            assert "missing" not in row["states"], f"{place} was claimed and does not exist"
            assert place in excused, f"{place} is {row['states']}"


@pytest.mark.timeout(300 + 2 * PROGRAMS)
def test_random_programs_agree_with_the_model(dsn: str) -> None:
    """
    A failure is printed as a program and as a blob.

    `QUEEN_MODEL_BLOB=version:blob` replays it. `QUEEN_MODEL_EXAMPLES` sets the number of programs.
    """
    with World(dsn) as shared:

        class Programs(Program):
            world = shared

        if blob := os.environ.get("QUEEN_MODEL_BLOB"):
            version, _, data = blob.partition(":")
            reproduce_failure(version, data.encode())(Programs)
        run_state_machine_as_test(
            Programs,
            settings=settings(
                max_examples=PROGRAMS,
                stateful_step_count=STEPS,
                deadline=None,
                print_blob=True,
                suppress_health_check=[
                    HealthCheck.too_slow,
                    HealthCheck.data_too_large,
                    HealthCheck.filter_too_much,
                ],
            ),
        )
