-- Reading queues of several databases, by the database and transaction in which messages were born.

-- name: member
-- The number and name of this database, its birthplace, transactions and server. No row: it has not joined others.
select
  d.number, d.name, queen.birthplace() as birthplace, pg_snapshot_xmin(c.snapshot)::text::bigint as horizon, pg_snapshot_xmax(c.snapshot)::text::bigint as until,
  queen.now() as now, (select count(*) from queen.renumberings r) as numbering,
  (select system_identifier from pg_control_system())::text || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
    as server
from queen.databases d
cross join (select pg_current_snapshot() as snapshot) c
where d.is_here;

-- name: members_listed
-- Databases that have joined the first one, also those that were removed since.
select number, name, removed_at is not null as is_removed from queen.databases order by number;

-- name: slots_here
-- The slots whose rows are in this database, or slot $1 if it is one of them, with their epochs.
select s.slot, s.epoch from queen.slots s where s.state <> 'gone' and ($1::smallint is null or s.slot = $1) order by s.slot;

-- name: moves
-- Moves of the slots in this database, or of slot $1.
select m.slot, m.epoch, m.source, m.target, m.fence::text::bigint as fence, m.first::text::bigint as first
from queen.moves m
where $1::smallint is null or m.slot = $1;

-- name: plan_births
-- The end of a batch of messages that were born in database $2.
select
  xid::text::bigint as xid, partition_id, end_offset, (extract(epoch from stored_at) * 1000000)::bigint as stored_at, is_over
from queen.plan_births($1, $2, $3::bigint::text::xid8, $4::bigint::text::xid8, $5, $6);

-- name: last_birth
-- The last segment here that was born in database $2, before transaction $3.
select
  b.xid::text::bigint as xid, b.partition_id, b.base_offset + b.message_count as end_offset,
  (extract(epoch from b.created_at) * 1000000)::bigint as stored_at
from (
  (
    select s.xid, s.partition_id, s.base_offset, s.message_count, s.created_at
    from queen.segments s
    where s.queue_id = $1 and s.xid < $3::bigint::text::xid8 and s.body is not null and s.born_in is null
      and $2 = (select queen.birthplace())
    order by s.xid desc
    limit 1
  )
  union all
  (
    select s.born_xid, s.partition_id, s.base_offset, s.message_count, s.created_at
    from queen.segments s
    where s.queue_id = $1 and s.born_in = $2 and s.born_xid < $3::bigint::text::xid8 and s.body is not null
    order by s.born_xid desc
    limit 1
  )
) b
order by b.xid desc
limit 1;

-- name: first_birth
-- The first transaction of database $2, before $3, that stored messages at that time or later, or null.
select min(b.xid::text::bigint) as xid
from queen.births b
where b.queue_id = $1 and b.birthplace = $2 and b.xid < $3::bigint::text::xid8 and b.created_at >= $4;

-- name: count_births
-- Messages here that were born in databases $2, in transactions from $3 on and before $4.
select coalesce(sum(b.message_count), 0)::bigint as messages
from unnest($2::integer[], $3::bigint[], $4::bigint[]) r (birthplace, low, high)
cross join lateral (
  select b.message_count
  from queen.births b
  where b.queue_id = $1 and b.birthplace = r.birthplace and b.xid >= r.low::text::xid8 and b.xid < r.high::text::xid8
  offset 0
) b;

-- name: epochs_here
-- The slots $1 whose rows are here, with epochs of at least $2. Sent as text.
select s.slot::bigint as slot
from unnest($1::smallint[], $2::bigint[]) w (slot, epoch)
join queen.slots s on s.slot = w.slot and s.state <> 'gone' and s.epoch >= w.epoch;

-- name: segments_born
-- Segments here that were born in databases $2, in transactions from $3 on and before $4. Sent as text.
--
-- $5: from these transactions on, all of them. Before: those stored from $6 on. $9: slots. $10, $11: the part of partitions.
select
  b.partition_id,
  (select p.name from queen.partitions p where p.id = b.partition_id) as partition,
  b.base_offset,
  b.message_count,
  b.created_at,
  b.body,
  b.ends,
  b.extras
from unnest($2::integer[], $3::bigint[], $4::bigint[], $5::bigint[]) r (birthplace, low, high, until)
cross join lateral (
  select b.*
  from queen.births b
  where b.queue_id = $1 and b.birthplace = r.birthplace and b.xid >= r.low::text::xid8 and b.xid < r.high::text::xid8
  offset 0
) b
where b.expires_at is distinct from '-infinity'
  and (b.created_at >= $6::timestamptz or b.xid >= r.until::text::xid8)
  and b.created_at < $7::timestamptz
  and ($8::bigint[] is null or b.partition_id = any ($8::bigint[]))
  and b.partition_id >> 53 = any ($9::bigint[])
  and abs(hashint8(b.partition_id)::bigint) % $10 = $11
order by b.partition_id, b.base_offset;

-- name: missed_births
-- Whether messages were removed here that a reader has not read: born in databases $2, in transactions from $3 on. Removals by
-- earlier transactions than $4 don't count. $5: the partitions that it reads, or null for all.
with here as (
  select queen.birthplace() as number
), wanted as (
  select w.number, w.position, w.since
  from unnest($2::integer[], $3::bigint[], $4::bigint[]) w (number, position, since)
), removed as (
  select r.*
  from wanted w
  join here h on h.number = w.number
  join queen.removals r on r.queue_id = $1 and r.born_in is null and r.xid >= w.position::text::xid8
  union all
  select r.*
  from wanted w
  join queen.removals r on r.queue_id = $1 and r.born_in = w.number and r.born_xid >= w.position::text::xid8
)
select exists (
  select 1
  from removed r
  cross join here h
  join wanted w on w.number = coalesce(r.by_in, h.number) and coalesce(r.by_born, r.by_xid) >= w.since::text::xid8
  where $5::bigint[] is null or r.partition_id = any ($5::bigint[])
    or not exists (select 1 from queen.partitions p where p.id = r.partition_id offset 0)
) as is_missed;

-- name: witness_birth
-- Whether the last segment that a reader has read exists here, and whether a removal here explains that it does not.
select
  exists (
    select 1
    from (
      select
        s.base_offset + s.message_count as end_offset, s.created_at, coalesce(s.born_xid, s.xid) as xid,
        coalesce(s.born_in, queen.birthplace()) as number
      from queen.segments s
      where s.partition_id = $3 and s.base_offset < $4
      order by s.base_offset desc
      limit 1
    ) s
    where s.end_offset = $4 and s.number = $1 and s.xid = $2::bigint::text::xid8
      and (extract(epoch from s.created_at) * 1000000)::bigint = $5::bigint
  ) as is_there,
  exists (
    select 1 from queen.removals r where r.partition_id = $3 and r.queue_id = $6 and r.first_offset < $4 and r.end_offset >= $4
  ) as is_removed;
