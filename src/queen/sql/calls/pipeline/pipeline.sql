-- Reading whole queues from Spark, and writing to them.

-- name: pipeline_queue
-- A queue with the columns that readers and writers of all its partitions need.
select
  q.id, q.encrypted, q.max_size, q.max_payload_bytes, q.schema::text as schema,
  exists (select 1 from queen.data_keys k where k.queue_id = q.id) as has_data_keys,
  (select count(*) from queen.renumberings r) as numbering
from queen.queues q
where q.name = $1 and q.deleted_at is null;

-- name: horizon
-- The number below which all transactions have ended.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xid, pg_is_in_recovery() as is_replica;

-- name: first_xid
-- The first transaction in the log of a queue.
select s.xid::text::bigint as xid
from queen.segments s
where s.queue_id = $1 and s.body is not null
order by s.xid
limit 1;

-- name: last_xid
-- The last transaction in the log of a queue.
select s.xid::text::bigint as xid
from queen.segments s
where s.queue_id = $1 and s.body is not null
order by s.xid desc
limit 1;

-- name: xid_at
-- The first transaction of a queue that may have stored messages at that time or later.
select queen.xid_at($1, $2) as xid;

-- name: missed
-- Whether transactions from $3 on removed messages that a reader at $2 has not read.
select exists (
  select 1 from queen.removals where queue_id = $1 and xid >= $2::bigint::text::xid8 and by_xid >= $3::bigint::text::xid8
) or exists (
  select 1 from queen.forgotten_removals where queue_id = $1 and xid >= $2::bigint::text::xid8 and by_xid >= $3::bigint::text::xid8
) as is_missed;

-- name: plan_batch
-- The end of a batch.
select queen.plan_batch($1, $2::bigint::text::xid8, $3::bigint::text::xid8, $4, $5)::text::bigint as xid;

-- name: begin_stream
-- The start of an application's stream, as first stored, and its queue.
insert into queen.streams as s (app_id, queue_id, start_xid, since_xid, began_at)
values ($1, $2, $3::bigint::text::xid8, $4::bigint::text::xid8, queen.now())
on conflict (app_id) do update set queue_id = s.queue_id
returning queue_id, start_xid::text::bigint as xid, since_xid::text::bigint as since;

-- name: remember_plan
-- The end of an application's batch that starts here, as first planned.
insert into queen.plans as p (app_id, queue_id, start_xid, end_xid, planned_at)
values ($1, $2, $3::bigint::text::xid8, $4::bigint::text::xid8, queen.now())
on conflict (app_id, queue_id, start_xid) do update set end_xid = p.end_xid
returning end_xid::text::bigint as xid;

-- name: find_plan
-- The end of an application's batch that starts here, if planned.
select end_xid::text::bigint as xid from queen.plans where app_id = $1 and queue_id = $2 and start_xid = $3::bigint::text::xid8;

-- name: trailing_plan
-- The end of an application's empty batch that starts here, directly after a batch with messages; otherwise no row.
select least(h.xid, coalesce(n.xid, h.xid))::text::bigint as xid
from (select pg_snapshot_xmin(pg_current_snapshot()) as xid) h
left join lateral (
  select s.xid
  from queen.segments s
  where s.queue_id = $2 and s.xid >= $3::bigint::text::xid8 and s.body is not null
  order by s.xid
  limit 1
) n on true
cross join lateral (
  select p.start_xid, p.end_xid
  from queen.plans p
  where p.app_id = $1 and p.queue_id = $2 and p.start_xid < $3::bigint::text::xid8
  order by p.start_xid desc
  limit 1
) p
where least(h.xid, coalesce(n.xid, h.xid)) > $3::bigint::text::xid8
  and p.end_xid = $3::bigint::text::xid8
  and exists (
    select 1 from queen.segments s
    where s.queue_id = $2 and s.xid >= p.start_xid and s.xid < p.end_xid and s.body is not null
  );

-- name: split_batch
-- Split a batch into ranges.
select start_xid, messages from queen.split_batch($1, $2::bigint::text::xid8, $3::bigint::text::xid8, $4, $5);

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
limit 1;

-- name: segments_between
-- Segments of transactions $2 to $3. Sent as text, because COPY takes no parameters.
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
  and s.xid < $3::bigint::text::xid8
  and s.body is not null
  and s.expires_at is distinct from '-infinity'
  and s.created_at >= $4::timestamptz
  and s.created_at < $5::timestamptz
  and ($6::bigint[] is null or s.partition_id = any ($6::bigint[]))
order by s.xid, s.partition_id, s.base_offset;

-- name: published
-- The last batch of an application to a queue, how many messages it has published, and the time.
select p.version, coalesce(p.messages, 0) as messages, n.now
from (select queen.now() as now) n
left join queen.publications p on p.app_id = $1 and p.queue_id = $2;

-- name: stage
-- Stage segments of a task, in binary form.
copy queen.staged from stdin (format binary);

-- name: publish
-- Move staged segments to the log.
select outcome, messages from queen.publish($1, $2, $3, $4, $5);

-- name: unstage
-- Delete staged segments of failed tasks.
delete from queen.staged where write_id = any ($1::uuid[]);

-- name: forget_staged
-- Delete segments that were staged long ago and never published.
select queen.forget_staged($1, $2) as removed;
