"""What databases record about claims and leases while a test runs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import asyncpg

LEASE_SECONDS: Final = 60
_RECORD: Final = f"""
create table public.events (queue text, lease bigint, at timestamptz, messages integer);
create or replace function public.record () returns trigger language plpgsql as $$
begin
  if not queen.is_owned(coalesce(new.partition_id, old.partition_id)) then
    return null;  -- A move copies or erases it.
  end if;
  -- By the clock of the claim.
  if new.held and new.id is distinct from old.id then
    insert into public.events
    select
      q.name, new.id, new.until - interval '{LEASE_SECONDS} seconds',
      queen.count_of(queen.handed_out(new))
    from queen.groups g
    join queen.queues q on q.id = g.queue_id
    where g.id = new.group_id;
  end if;
  if old.held and new.id is distinct from old.id then
    insert into public.events (lease, at) values (old.id, clock_timestamp());
  end if;
  return null;
end
$$;
create trigger record after insert or update or delete on queen.deliveries
  for each row execute function public.record();
"""


class Claim(NamedTuple):
    """A delivery that was claimed, and when its lease ended, if it did."""

    queue: str
    at: datetime
    messages: int
    ended_at: datetime | None


async def record(databases: Iterable[str]) -> None:
    """Record the claims and the ends of leases in these databases from now on."""
    for dsn in databases:
        connection = await asyncpg.connect(dsn)
        await connection.execute(_RECORD)
        await connection.close()


async def read(databases: Iterable[str]) -> list[Claim]:
    """The claims of all databases, in order. They are on one host, with one clock."""
    begun: list[asyncpg.Record] = []
    ended: dict[int, datetime] = {}
    for dsn in databases:
        connection = await asyncpg.connect(dsn)
        for row in await connection.fetch("select * from public.events"):
            if row["queue"] is None:
                ended[row["lease"]] = row["at"]
            else:
                begun.append(row)
        await connection.close()
    claims = [
        Claim(row["queue"], row["at"], row["messages"], ended.get(row["lease"])) for row in begun
    ]
    return sorted(claims, key=lambda each: each.at)


def most_in_window(claims: Sequence[Claim], seconds: float) -> int:
    """The largest number of messages that were claimed within one period."""
    most = count = first = 0
    for claim in claims:
        count += claim.messages
        while claim.at - claims[first].at >= timedelta(seconds=seconds):
            count -= claims[first].messages
            first += 1
        most = max(most, count)
    return most


def most_leases(claims: Sequence[Claim]) -> int:
    """The largest number of leases at one time."""
    changes = [(each.at, 1) for each in claims]
    changes += [(each.ended_at, -1) for each in claims if each.ended_at is not None]
    most = count = 0
    for _, change in sorted(changes):
        count += change
        most = max(most, count)
    return most


def lease_seconds(claims: Sequence[Claim], begin: datetime, end: datetime) -> float:
    """The sum of the durations of all leases between two times."""
    spans = (
        min(each.ended_at or end, end) - max(each.at, begin)
        for each in claims
        if each.at < end and (each.ended_at or end) > begin
    )
    return sum(span.total_seconds() for span in spans)


def claimed(claims: Sequence[Claim], begin: datetime, end: datetime) -> int:
    """The number of messages that were claimed between two times."""
    return sum(each.messages for each in claims if begin <= each.at < end)


def by_queue(claims: Sequence[Claim]) -> Mapping[str, list[Claim]]:
    """The claims of each queue."""
    queues: dict[str, list[Claim]] = {}
    for each in claims:
        queues.setdefault(each.queue, []).append(each)
    return queues
