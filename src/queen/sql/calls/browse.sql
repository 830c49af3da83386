-- Messages for people: find one, list many, retry, cancel, dead-letter or erase one.

-- name: partition_with_id
-- A partition and its queue, unless the queue is deleted.
select
  p.id, p.name, p.level, case when p.level > 0 then p.level else p.priority end as priority, p.queue_id, q.name as queue
from queen.partitions p
join queen.queues q on q.id = p.queue_id and q.deleted_at is null
where p.id = $1;

-- name: partitions_with_ids
-- Names of partitions.
select p.id, p.name, p.level, case when p.level > 0 then p.level else p.priority end as priority
from queen.partitions p
where p.id = any ($1);

-- name: ids_of_partition
-- The ids of a partition, one per priority, highest first.
select p.id from queen.partitions p where p.queue_id = $1 and p.name = $2 order by p.level desc;

-- name: newest_segments
-- Segments of a queue from a position on, newest first, without bodies.
select
  s.partition_id, s.base_offset, s.message_count, s.created_at, s.xid::text::bigint as xid,
  octet_length(s.body) as body_bytes, coalesce(s.expires_at = '-infinity', false) as is_redacted,
  nullif(s.expires_at, '-infinity') as expires_at
from queen.segments s
where s.queue_id = $1 and s.body is not null and (s.xid, s.partition_id, s.base_offset) <= ($2::text::xid8, $3::bigint, $4::bigint)
order by s.xid desc, s.partition_id desc, s.base_offset desc
limit $5;

-- name: newest_segments_of_partition
-- Segments of one partition row from a position on, newest first, without bodies.
select
  s.partition_id, s.base_offset, s.message_count, s.created_at, s.xid::text::bigint as xid,
  octet_length(s.body) as body_bytes, coalesce(s.expires_at = '-infinity', false) as is_redacted,
  nullif(s.expires_at, '-infinity') as expires_at
from queen.segments s
where s.partition_id = $1 and s.body is not null and s.base_offset <= $2
order by s.base_offset desc
limit $3;

-- name: segment_at
-- The segment that contains an offset.
select
  s.partition_id, s.base_offset, s.message_count, s.created_at, s.xid::text::bigint as xid,
  octet_length(s.body) as body_bytes, coalesce(s.expires_at = '-infinity', false) as is_redacted,
  nullif(s.expires_at, '-infinity') as expires_at
from (
  select s.*
  from queen.segments s
  where s.partition_id = $1 and s.base_offset <= $2
  order by s.base_offset desc
  limit 1
) s
where s.body is not null and s.base_offset + s.message_count > $2;

-- name: positions
-- Positions of groups in partitions.
select k.partition_id, g.id as group_id, g.name as "group", c.claimed
from unnest($1::bigint[]) k (partition_id)
cross join lateral (
  select c.group_id, c.claimed from queen.consumers c where c.partition_id = k.partition_id offset 0
) c
cross join lateral (
  select g.id, g.name from queen.groups g
  where g.id = c.group_id and g.deleted_at is null and ($2::text is null or g.name = $2)
  offset 0
) g;

-- name: deliveries_of
-- Deliveries of partitions, leased or waiting.
select
  d.partition_id, d.group_id, d.held as is_taken, d.held and d.until > queen.now() as is_held,
  coalesce(d.parked_until, nullif(d.until, 'infinity')) as until, d.head, d.attempts, d.error,
  array(select lower(r) from unnest(d.pending) r order by 1) as firsts,
  array(select upper(r) from unnest(d.pending) r order by 1) as ends,
  array(select lower(r) from unnest(queen.handed_out(d)) r order by 1) as out_firsts,
  array(select upper(r) from unnest(queen.handed_out(d)) r order by 1) as out_ends
from unnest($1::bigint[]) k (partition_id)
cross join lateral (select d.* from queen.deliveries d where d.partition_id = k.partition_id offset 0) d;

-- name: dead_offsets_of
-- Dead-lettered offsets of partitions, between two offsets each, with their groups.
select l.partition_id, l.group_id, l."group", l."offset", l.id, l.attempts, l.error, l.reason, l.failed_at
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) k (partition_id, first_offset, end_offset)
cross join lateral (
  select l.partition_id, l.group_id, l."group", l."offset", l.id, l.attempts, l.error, l.reason, l.failed_at
  from queen.dead_letters l
  where l.partition_id = k.partition_id and l."offset" >= k.first_offset and l."offset" < k.end_offset
  offset 0
) l;

-- name: list_scheduled
-- Messages of a queue that are not due yet, after a position.
select s.id, s.partition_id, s.due_at, s.ttl_seconds, s.payload, s.extras, p.name as partition, p.level
from (
  select s.id, s.partition_id, s.due_at, s.ttl_seconds, s.payload, s.extras
  from queen.scheduled s
  where s.queue_id = $1 and (s.due_at, s.id) > ($2::timestamptz, $3::bigint)
  order by s.due_at, s.id
  limit $4
) s
join queen.partitions p on p.id = s.partition_id
order by s.due_at, s.id;

-- name: scheduled_with_id
-- One message that is not due yet.
select s.id, s.partition_id, s.due_at, s.ttl_seconds, s.payload, s.extras from queen.scheduled s where s.id = $1;

-- name: withdraw
-- Delete a message that is not due yet.
select queen.withdraw($1) as is_deleted;

-- name: find_message
-- Find the message with a transactionId.
select "offset", scheduled_id from queen.find_message($1, $2, $3);

-- name: named_messages
-- Messages with a known transactionId, in the newest $2 partitions; $3: patterns of queues.
select p.id as partition_id, q.name as queue, k."offset"
from (
  select p.id, p.queue_id from queen.partitions p order by p.id & 9007199254740991 desc limit $2
) p
join queen.queues q on q.id = p.queue_id and queen.sees(q.name, q.namespace, $3)
cross join lateral (
  select k."offset"
  from queen.offsets_of_key(p.id, $1) k
  where k."offset" is not null
  order by k.at desc
  limit 1
) k
limit 2;

-- name: retry
-- Retry a message now.
select group_id from queen.retry($1, $2, $3);

-- name: give_up
-- Dead-letter a message.
select queen.give_up($1, $2, $3, $4) as group_id;

-- name: redactions
-- Messages that were erased since an id, oldest first.
select r.id, r.partition_id, r."offset" from queen.redactions r where r.id > $1 order by r.id limit $2;

-- name: redact
-- Erase a message.
select queen.redact($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) as is_done;
