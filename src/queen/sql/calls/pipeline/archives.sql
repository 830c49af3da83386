-- Archives: how far the log of a queue was copied into a lake.

-- name: open_archive
-- An archive, created if missing, with the queue that has the name now and the queue it belongs to.
select queue_id, archive_queue_id, format, location from queen.open_archive($1, $2, $3, $4);

-- name: drop_archive
-- Delete an archive and its hold.
select queen.drop_archive($1) as is_dropped;

-- name: find_archive
-- The position of an archive, and its planned batch, if any.
select
  a.name, a.queue_id, a.format, a.location, a.xid::text::bigint as xid, a.batch, a.missed_messages,
  b.batch as planned_batch, b.token, b.start_xid::text::bigint as start_xid, b.end_xid::text::bigint as end_xid
from queen.archives a
left join queen.archive_batches b on b.archive = a.name and b.batch = a.batch + 1
where a.name = $1;

-- name: archives
-- Every archive, its position, and when it got there.
select
  a.name, a.queue_id, q.name as queue, a.format, a.location, a.xid::text::bigint as xid, a.batch, a.created_at,
  b.archived_at, b.messages, b.bytes
from queen.archives a
left join queen.queues q on q.id = a.queue_id and q.deleted_at is null
left join queen.archive_batches b on b.archive = a.name and b.batch = a.batch
order by a.name;

-- name: archive_batch_end
-- The transaction at which a batch ends, planned or archived.
select b.end_xid::text::bigint as xid from queen.archive_batches b where b.archive = $1 and b.batch = $2 and b.token = $3;

-- name: archive_batches
-- The last batches of an archive, newest first.
select
  batch, start_xid::text::bigint as start_xid, end_xid::text::bigint as end_xid, state, files, messages, bytes,
  missed_messages, missed, misfit_messages, planned_at, archived_at
from queen.archive_batches
where archive = $1
order by batch desc
limit $2;

-- name: plan_archive
-- The next batch of an archive, planned if there is none.
select batch, token, start_xid, end_xid from queen.plan_archive($1, $2::text::xid8);

-- name: archive_batch
-- Record that the lake has a batch: move the position and the hold.
select queen.archive_batch($1, $2, $3, $4, $5, $6, $7, $8::text, $9) as is_moved;

-- name: missed_by_archive
-- Messages of transactions $2 to $3, or from $2 on, that were removed since the archive was created, and some of the ranges. A
-- range without a partition stands for removals whose records were deleted: at least one message.
with removed as (
  select r.partition_id, r.first_offset, r.end_offset, r.reason, r.removed_at, r.end_offset - r.first_offset as messages
  from queen.archives a
  join queen.removals r
    on r.queue_id = a.queue_id
    and r.xid >= $2::bigint::text::xid8
    and r.xid < coalesce($3::bigint::text::xid8, '18446744073709551615'::xid8)
    and r.by_xid >= a.since_xid
  where a.name = $1
  union all
  select null, null, null, 'forgotten', null, 1
  from queen.archives a
  join queen.forgotten_removals f
    on f.queue_id = a.queue_id
    and f.xid >= $2::bigint::text::xid8
    and f.xid < coalesce($3::bigint::text::xid8, '18446744073709551615'::xid8)
    and f.by_xid >= a.since_xid
  where a.name = $1
)
select
  coalesce((select sum(r.messages) from removed r), 0)::bigint as messages,
  (
    select jsonb_agg(
      jsonb_build_object(
        'partition', s.name, 'partitionId', s.partition_id, 'firstOffset', s.first_offset, 'endOffset', s.end_offset,
        'reason', s.reason, 'removedAt', s.removed_at
      )
      order by s.removed_at, s.partition_id, s.first_offset
    )
    from (
      select r.partition_id, r.first_offset, r.end_offset, r.reason, r.removed_at, p.name
      from removed r
      left join queen.partitions p on p.id = r.partition_id
      order by r.removed_at, r.partition_id, r.first_offset
      limit 100
    ) s
  )::text as gaps;

-- name: hold_archive
-- Keep the messages of a queue for an archive that has no batch yet, because there was nothing to archive.
select queen.hold(q.name, 'archive:' || a.name, a.xid)
from queen.archives a
join queen.queues q on q.id = a.queue_id and q.deleted_at is null
where a.name = $1
  and not exists (
    select 1 from queen.holds h
    where h.queue_id = a.queue_id and h.name = 'archive:' || a.name and h.expires_at is null
  );

-- name: release_first_batch
-- Drop the hold of an archive whose first batch failed.
delete from queen.holds h
using queen.archives a
where a.name = $1 and h.queue_id = a.queue_id and h.name = 'archive:' || a.name and h.expires_at is not null;

-- name: list_archives
-- Archives by name, after one, with the messages that each has missed, also since its last batch; $3: patterns.
select
  a.name, q.name as queue, a.format, regexp_replace(a.location, '://[^/@]*@', '://***@') as location,
  a.xid::text::bigint as position, a.batch, b.messages as batch_messages, b.archived_at, a.missed_messages + m.messages as missed_messages,
  a.misfit_messages, a.created_at
from queen.archives a
join queen.queues q on q.id = a.queue_id and q.deleted_at is null
left join queen.archive_batches b on b.archive = a.name and b.batch = a.batch and b.state = 'archived'
cross join lateral (
  select coalesce(sum(r.end_offset - r.first_offset), 0)::bigint as messages
  from queen.removals r
  where r.queue_id = a.queue_id and r.xid >= a.xid and r.by_xid >= a.since_xid
) m
where a.name > $1 and ($3::text[] is null or queen.sees(q.name, q.namespace, $3))
order by a.name
limit $2;

-- name: archive_queue
-- The queue of an archive.
select q.name as queue
from queen.archives a
left join queen.queues q on q.id = a.queue_id and q.deleted_at is null
where a.name = $1;

-- name: archive_tables
-- Iceberg tables of a namespace, or one of them, whose archive reads a queue that matches the patterns $2.
select t.table_name as name, q.name as queue
from queen.iceberg_tables t
left join queen.archives a on a.name = t.table_name and a.format = 'iceberg'
left join queen.queues q on q.id = a.queue_id and q.deleted_at is null
where t.catalog_name = $1
  and t.table_namespace = $1
  and ($3::text is null or t.table_name = $3)
  and ($2::text[] is null or (q.id is not null and queen.sees(q.name, q.namespace, $2)))
order by t.table_name;

-- name: poll_archives
-- Archives by name: whether there is something to archive, and whether messages wait for an open transaction.
select
  a.name, a.queue_id, a.xid::text::bigint as xid, h.xid::text::bigint as horizon,
  q.id is null or exists (
    select 1 from queen.archive_batches b where b.archive = a.name and b.batch = a.batch + 1
  ) as is_urgent,
  exists (
    select 1
    from queen.segments s
    where s.queue_id = a.queue_id and s.xid >= a.xid and s.xid < h.xid and s.body is not null
  ) as has_messages,
  exists (
    select 1
    from queen.segments s
    where s.queue_id = a.queue_id and s.xid >= greatest(a.xid, h.xid) and s.body is not null
  ) as is_waiting
from unnest($1::text[]) n (name)
cross join (select pg_snapshot_xmin(pg_current_snapshot()) as xid) h
join queen.archives a on a.name = n.name
left join queen.queues q on q.id = a.queue_id and q.deleted_at is null;

-- name: match_queues
-- Queues whose names match LIKE patterns, each with the patterns, and the archives that read the queue.
select p.pattern, q.name, array(select a.name from queen.archives a where a.queue_id = q.id order by a.name) as archives
from unnest($1::text[]) p (pattern)
join queen.queues q on q.name like p.pattern and q.deleted_at is null
order by p.pattern, q.name;
