"""Check that segments cover their partitions without gaps, while the table is written."""

import asyncio
import time
from collections import defaultdict

import asyncpg

EVERY_SECONDS = 0.1

_NEWER = """
select s.partition_id, s.base_offset, s.message_count
from queen.partitions p
left join unnest($1::bigint[], $2::bigint[]) k (partition_id, next_offset) on k.partition_id = p.id
join queen.segments s on s.partition_id = p.id and s.base_offset >= coalesce(k.next_offset, 0)
order by s.partition_id, s.base_offset
"""

# Partitions whose segments don't cover exactly 0 … n - 1 without gaps or overlaps.
_TORN = """
select s.partition_id, s.base_offset, s.message_count, s.expected
from (
  select
    s.partition_id, s.base_offset, s.message_count,
    coalesce(
      lag(s.base_offset + s.message_count)
        over (partition by s.partition_id order by s.base_offset),
      0
    ) as expected
  from queen.segments s
) s
where s.base_offset <> s.expected
"""

# Pairs of partition and group where the group is not at the end, or has claimed messages.
_BEHIND = """
select p.id, g.name, c.claimed, c.held, n.next_offset
from queen.partitions p
join queen.groups g on g.queue_id = p.queue_id and g.deleted_at is null
left join lateral (
  select c.claimed, c.held
  from queen.consumers c
  where c.partition_id = p.id and c.group_id = g.id
  order by c.version desc
  limit 1
) c on true
cross join lateral (
  select coalesce(max(s.base_offset + s.message_count), 0) as next_offset
  from queen.segments s
  where s.partition_id = p.id
) n
where c.claimed is distinct from n.next_offset
  or c.held
  or exists (select 1 from queen.deliveries d where d.partition_id = p.id and d.group_id = g.id)
"""


async def torn(connection: "asyncpg.Connection[asyncpg.Record]") -> list[asyncpg.Record]:
    """
    Segments that do not begin where the previous one ends. Requires that no message was removed.
    """
    return await connection.fetch(_TORN)


async def behind(connection: "asyncpg.Connection[asyncpg.Record]") -> list[asyncpg.Record]:
    """Groups whose position is not the end of a partition."""
    return await connection.fetch(_BEHIND)


class Sampler:
    """
    Checks every 100 ms that segments cover [first, next) without gaps.

    Segments never change, so a sample reads only those after the last one. A later segment below it
    is an overlap, which `torn` finds at the end.
    """

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection
        self._next: defaultdict[int, int] = defaultdict(int)
        self.samples = 0
        self.messages = 0

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            started = time.monotonic()
            await self.sample()
            await asyncio.sleep(max(0.0, started + EVERY_SECONDS - time.monotonic()))

    async def sample(self) -> None:
        for row in await self._connection.fetch(_NEWER, [*self._next], [*self._next.values()]):
            partition_id = row["partition_id"]
            if row["base_offset"] != self._next[partition_id]:
                raise AssertionError(
                    f"I5: partition {partition_id} has a segment at {row['base_offset']}, "
                    f"{self._next[partition_id]} was next"
                )
            self._next[partition_id] += row["message_count"]
            self.messages += row["message_count"]
        self.samples += 1
