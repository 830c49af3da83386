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
  a.name, a.queue_id, a.format, a.location, a.xid::text::bigint as xid, a.batch,
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
  batch, start_xid::text::bigint as start_xid, end_xid::text::bigint as end_xid, state, files, messages, bytes, planned_at,
  archived_at
from queen.archive_batches
where archive = $1
order by batch desc
limit $2;

-- name: plan_archive
-- The next batch of an archive, planned if there is none.
select batch, token, start_xid, end_xid from queen.plan_archive($1, $2::text::xid8);

-- name: archive_batch
-- Record that the lake has a batch: move the position and the hold.
select queen.archive_batch($1, $2, $3, $4, $5, $6) as is_moved;
