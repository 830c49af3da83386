-- Reading whole queues from Spark, and writing to them.

-- name: pipeline_queue
-- A queue with the columns that readers and writers of all its partitions need, and the identity of the server.
select
  q.id, q.encrypted, q.max_size, q.max_payload_bytes, q.max_wait_seconds, q.schema::text as schema,
  exists (select 1 from queen.data_keys k where k.queue_id = q.id) as has_data_keys,
  (select count(*) from queen.renumberings r) as numbering,
  q.slot, q.slot is null and exists (select 1 from queen.databases) as is_divided,
  -- The name of a WAL segment begins with the timeline. A standby has none.
  case when not pg_is_in_recovery() then
    (select system_identifier from pg_control_system())::text || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
  end as server
from queen.queues q
where q.name = $1 and q.deleted_at is null;

-- name: pipeline_queue_by_id
-- How often the database was renumbered, and the identity of the server, if the queue exists.
select
  (select count(*) from queen.renumberings r) as numbering,
  case when not pg_is_in_recovery() then
    (select system_identifier from pg_control_system())::text || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
  end as server
from queen.queues q
where q.id = $1 and q.deleted_at is null;

-- name: database_identity
-- The identity of a database, which its replicas share.
select (select system_identifier from pg_control_system())::text as server, current_database()::text as database;

-- name: horizon
-- The number below which all transactions have ended.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xid, pg_is_in_recovery() as is_replica;

-- name: last_before
-- The position after the last segment of a queue that lower transactions have stored.
select
  s.xid::text::bigint as xid, s.partition_id, s.base_offset + s.message_count as end_offset,
  (extract(epoch from s.created_at) * 1000000)::bigint as stored_at
from queen.segments s
where s.queue_id = $1 and s.xid < $2::bigint::text::xid8 and s.body is not null
order by s.xid desc, s.partition_id desc, s.base_offset desc
limit 1;

-- name: stream_start
-- The current transactions, and the offsets at which partitions start: $2 for all of them, or $4 for each of $3.
--
-- $2 is not used for segments of transactions that are before the horizon, so only other partitions are listed. A partition
-- that ends before the requested offset starts at its end.
select
  n.horizon::text::bigint as horizon, n.until::text::bigint as until, queen.now() as now,
  (
    select jsonb_object_agg(o.partition_id, o.at)
    from (
      select s.partition_id, least($2::bigint, max(s.base_offset + s.message_count)) as at
      from queen.segments s
      where $2::bigint is not null and s.queue_id = $1 and s.xid >= n.horizon and s.body is not null
      group by s.partition_id
      limit $5
    ) o
  ) as offsets_beyond,
  (
    select jsonb_object_agg(w.id, least(w.at, s.next_offset))
    from unnest($3::bigint[], $4::bigint[]) w (id, at)
    cross join lateral (
      select s.base_offset + s.message_count as next_offset
      from queen.segments s
      where s.partition_id = w.id
      order by s.base_offset desc
      limit 1
    ) s
  ) as offsets_named
from (
  select pg_snapshot_xmin(c.snapshot) as horizon, pg_snapshot_xmax(c.snapshot) as until
  from (select pg_current_snapshot() as snapshot) c
) n;

-- name: xid_at
-- The first transaction of a queue that may have stored messages at that time or later, as start or end of a range.
select queen.xid_at($1, $2, $3) as xid;

-- name: missed
-- Whether transactions from $5 on removed messages that a reader at position $2, $3, $4 has not read.
--
-- $6: the partitions that it reads, or null for all. Partitions that no longer exist may have been among them.
select exists (
  select 1
  from queen.removals r
  where r.queue_id = $1 and r.xid >= $2::bigint::text::xid8
    and (r.xid, r.partition_id, r.end_offset) > ($2::bigint::text::xid8, $3::bigint, $4::bigint)
    and r.by_xid >= $5::bigint::text::xid8
    and (
      $6::bigint[] is null or r.partition_id = any ($6::bigint[])
      or not exists (select 1 from queen.partitions p where p.id = r.partition_id offset 0)
    )
) or exists (
  select 1
  from queen.forgotten_removals f
  where f.queue_id = $1
    and (f.xid, f.partition_id, f.end_offset) > ($2::bigint::text::xid8, $3::bigint, $4::bigint)
    and f.by_xid >= $5::bigint::text::xid8
) as is_missed;

-- name: witness
-- Whether the last segment that a reader has read still exists, and whether a removal explains that it does not.
select
  exists (
    select 1
    from (
      select s.base_offset + s.message_count as end_offset, s.xid, s.created_at
      from queen.segments s
      where s.partition_id = $3 and s.base_offset < $4
      order by s.base_offset desc
      limit 1
    ) s
    where s.end_offset = $4 and s.xid = $2::bigint::text::xid8
      and (extract(epoch from s.created_at) * 1000000)::bigint = $5::bigint
  ) as is_there,
  exists (
    select 1 from queen.removals r
    where r.queue_id = $1 and r.partition_id = $3 and r.first_offset < $4 and r.end_offset >= $4
  ) or exists (
    select 1 from queen.forgotten_removals f where f.queue_id = $1 and f.xid >= $2::bigint::text::xid8
  ) as is_removed;

-- name: plan_batch
-- The end of a batch.
select
  xid::text::bigint as xid, partition_id, end_offset, (extract(epoch from stored_at) * 1000000)::bigint as stored_at, is_split
from queen.plan_batch($1, $2::bigint::text::xid8, $3, $4, $5::bigint::text::xid8, $6, $7, $8);

-- name: begin_stream
-- The start of an application's stream, as first stored, and its queue.
insert into queen.streams as s (app_id, queue_id, start_xid, since_xid, start_offset, began_at)
values ($1, $2, $3::bigint::text::xid8, $4::bigint::text::xid8, $5::text::jsonb, queen.now())
on conflict (app_id) do update set queue_id = s.queue_id
returning queue_id, start_xid::text::bigint as xid, since_xid::text::bigint as since, start_offset::text as start_offset;

-- name: declare
-- The declaration of a pipeline, as stored before its first batch.
insert into queen.declarations as d (app_id, fields, declared_at)
values ($1, $2::text::jsonb, queen.now())
on conflict (app_id) do update
set fields = case when exists (select 1 from queen.streams s where s.app_id = $1) then d.fields else excluded.fields end
returning fields::text as fields;

-- name: remember_plan
-- The end of an application's batch that starts here, as first planned.
with entered as (
  select queen.enter_named(array(select q.name from queen.queues q where q.id = $2))
)
insert into queen.plans as p
  (app_id, queue_id, start_xid, start_partition_id, start_offset, start_is_trailing, end_xid, end_offset, planned_at)
select
  $1, $2, $3::bigint::text::xid8, $4::bigint, $5::bigint, $6::boolean, $7::bigint::text::xid8, $8::text::jsonb, queen.now()
from entered
on conflict (app_id, queue_id, start_xid, start_partition_id, start_offset, start_is_trailing) do update
set end_xid = p.end_xid
returning end_xid::text::bigint as xid, end_offset::text as end_offset;

-- name: find_plan
-- The end of an application's batch that starts here, if planned.
select end_xid::text::bigint as xid, end_offset::text as end_offset
from queen.plans
where app_id = $1 and queue_id = $2 and start_xid = $3::bigint::text::xid8 and start_partition_id = $4 and start_offset = $5
  and start_is_trailing = $6;

-- name: split_batch
-- Split a range into parts.
select xid::text::bigint as xid, partition_id, base_offset
from queen.split_batch($1, $2::bigint::text::xid8, $3, $4, $5::bigint::text::xid8, $6, $7, $8, $9);

-- name: partitions_named
-- Partitions of a queue by name, at all priorities.
select id, name from queen.partitions where queue_id = $1 and name = any ($2::text[]);

-- name: begins_later
-- A partition, of $5 or of all, that begins after the requested offset: $3 for each of $2, $4 for the others.
select p.name, f.first, coalesce(w.at, $4::bigint) as wanted
from queen.partitions p
left join unnest($2::bigint[], $3::bigint[]) w (id, at) on w.id = p.id
cross join lateral (
  select s.base_offset + case when s.body is null then s.message_count else 0 end as first
  from queen.segments s
  where s.partition_id = p.id
  order by s.base_offset
  limit 1
) f
where p.queue_id = $1 and ($5::bigint[] is null or p.id = any ($5::bigint[])) and f.first > coalesce(w.at, $4::bigint)
  -- After a move, some of its segments may be erased.
  and not exists (select 1 from queen.slots l where l.slot = p.id >> 53 and l.state = 'gone')
limit 1;

-- name: segments_between
-- Segments between two positions: from $2, $3, $4 to $5, $6, $7. Sent as text, because COPY takes no parameters.
select
  s.partition_id,
  (select p.name from queen.partitions p where p.id = s.partition_id) as partition,
  s.base_offset,
  s.message_count,
  s.created_at,
  s.body,
  s.ends,
  s.extras
from queen.segments s
where s.queue_id = $1
  and s.xid >= $2::bigint::text::xid8
  and s.xid <= $5::bigint::text::xid8
  and (s.xid, s.partition_id, s.base_offset) >= ($2::bigint::text::xid8, $3, $4)
  and (s.xid, s.partition_id, s.base_offset) < ($5::bigint::text::xid8, $6, $7)
  and s.body is not null
  and s.expires_at is distinct from '-infinity'
  and s.created_at >= $8::timestamptz
  and s.created_at < $9::timestamptz
  and ($10::bigint[] is null or s.partition_id = any ($10::bigint[]))
order by s.xid, s.partition_id, s.base_offset;

-- name: published
-- The last batch of an application to a queue, how many messages it has published, the time, whether another query $3
-- published it, and whether the plans of its batches are stored.
select
  p.version, coalesce(p.messages, 0) as messages, n.now,
  coalesce(p.query_id <> $3::text, false) as is_foreign,
  exists (select 1 from queen.streams s where s.app_id = $1) as is_planned
from (select queen.now() as now) n
left join queen.publications p on p.app_id = $1 and p.queue_id = $2;

-- name: last_published
-- The last batch that all queues have of a streaming query, or else of an application; null if there is none.
select coalesce(
  (select min(version) from queen.publications where query_id = $2),
  (select min(version) from queen.publications where app_id = $1)
) as version;

-- name: stage
-- Stage segments of a task, in binary form.
copy queen.staged from stdin (format binary);

-- name: publish
-- Move staged segments to the log.
select outcome, messages from queen.publish($1, $2, $3, $4, $5, $6, $7);

-- name: unstage
-- Delete staged segments of failed tasks.
delete from queen.staged where write_id = any ($1::uuid[]);

-- name: forget_staged
-- Delete segments that were staged long ago and never published.
select queen.forget_staged($1, $2) as removed;
