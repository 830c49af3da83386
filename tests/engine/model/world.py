"""The database and engine of the random programs, and the queries that read its tables."""

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NamedTuple, Self

import asyncpg
import uvloop

from queen.engine.engine import Engine
from queen.settings import Settings
from tests.engine.model.state import Group
from tests.support.clock import Clock

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
      case when d.held then concat_ws(
        '.', d.id >> 53, d.id & 9007199254740991, replace(d.token::text, '-', '')
      ) end,
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

    def __enter__(self) -> Self:
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

    async def advance(self, seconds: int) -> None:
        await self.clock.advance(seconds=seconds)

    async def fetch(self, query: str, queue_ids: Sequence[int]) -> list[asyncpg.Record]:
        """The rows of a query about queues."""
        return await self.connection.fetch(query, queue_ids)

    async def observe(self, queue_ids: Sequence[int]) -> Seen:
        """The current content of the delivery tables."""
        seen = Seen({}, {}, {})
        for (text,) in await self.fetch(OBSERVE, queue_ids):
            found = json.loads(text)
            for queue_id, group, partition, claimed, is_ready, end in found["pairs"]:
                seen.pairs[queue_id, group_of(group), partition] = (claimed, is_ready, end)
            for queue_id, group, partition, pending, lease, *flags in found["deliveries"]:
                seen.deliveries.setdefault((queue_id, group_of(group), partition), []).append(
                    (tuple(pending), lease or "", *flags)
                )
            for queue_id, group, partition, offset, *rest in found["letters"]:
                seen.letters[queue_id, group_of(group), partition, offset] = tuple(rest)
        return seen


def group_of(name: str) -> Group:
    return None if name == QUEUE_MODE else name
