-- Every statement that Python sends.

-- name: migrations
-- What has been applied.
select name, checksum from queen.migrations order by name;

-- name: identity
-- Which server this is: a change means another timeline, and everything remembered is void.
select
  (select system_identifier from pg_control_system())::text || '/' || case
    -- The name of a segment of WAL begins with the timeline; the last checkpoint may still be of the one before.
    when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
  end as identity,
  pg_is_in_recovery() as is_standby,
  current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes;

-- name: partition_ids
-- Find or make lanes; one row a name, in the order asked.
select queue_id, partition_id from queen.partition_ids($1, $2, $3, $4, $5) order by ordinal;

-- name: queues
-- Queues by name, with their options.
select * from queen.queues where name = any ($1) and deleted_at is null;

-- name: queues_in_scope
-- Queues of a namespace and a task, null for any, in the order in which a pop visits them.
select id, name from queen.queues
where deleted_at is null and ($1::text is null or namespace = $1) and ($2::text is null or task = $2)
order by priority desc, id
limit 1000;

-- name: push
-- Store segments; one row a segment, or the reasons why nothing was stored.
select kind, ordinal, "offset", created_at, xid, code
from queen.push($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19);

-- name: pop
-- Claim messages; one row a run of messages in a segment, last one row a group.
select
  request, group_id, delivery_id, token, partition_id, partition, level, attempts, until, first_offset,
  end_offset, base_offset, message_count, created_at, xid, payload, extras, wait_seconds, ready_since, due_since,
  expired, code
from queen.pop($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: segments
-- Bodies of segments by position.
select k.partition_id, k.base_offset, s.xid, s.message_count, s.body, s.ends, s.extras
from unnest($1::bigint[], $2::bigint[]) k (partition_id, base_offset)
cross join lateral (
  select s.xid::text::bigint as xid, s.message_count, s.body, s.ends, s.extras
  from queen.segments s
  where s.partition_id = k.partition_id and s.base_offset = k.base_offset
  offset 0
) s;

-- name: ack
-- Settle messages; one row a request, in the order asked.
select group_id, settled, refused, is_over, code
from queen.ack($1, $2, $3::text[]::int8multirange[], $4) order by ordinal;

-- name: nack
-- Give messages back; one row a request, in the order asked.
select group_id, due_at, due_seconds, is_dead, is_over, code from queen.nack($1, $2, $3, $4, $5, $6, $7) order by ordinal;

-- name: extend
-- Move the ends of leases; one row a request, in the order asked.
select until, code from queen.extend($1, $2, $3) order by ordinal;

-- name: release
-- Give deliveries back uncounted; one row a request, in the order asked.
select group_id, code from queen.release($1, $2) order by ordinal;

-- name: transact
-- Acks, nacks and pushes, all or none; the rows of push, or the reasons.
select kind, ordinal, "offset", created_at, xid, code
from queen.transact(
  $1, $2, $3::text[]::int8multirange[], $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
  $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31
);

-- name: find_delivery
-- The delivery that a message is in, for an ack without a lease.
select id, token, partition_id, "offset", is_settled from queen.find_delivery($1, $2, $3, $4, $5, $6, $7);

-- name: are_settled
-- Whether groups are done with messages; one row a message, in the order asked.
select is_settled from queen.are_settled($1, $2, $3, $4) order by ordinal;

-- name: last_sequence
-- The newest sequence of a producer.
select queen.last_sequence($1) as sequence;

-- name: subscribe
-- Find or make a group.
select queue_id, group_id, is_filled from queen.subscribe($1, $2, $3, $4);

-- name: fill
-- Give a group its place in more partitions.
select queen.fill($1, $2) as is_filled;

-- name: configure
-- Make or change a queue.
select * from queen.configure($1, $2, $3, $4, $5, $6, $7);

-- name: configure_partition
-- Set the priority of a partition.
select queen.configure_partition($1, $2, $3);

-- name: seek
-- Move a group in more partitions.
select queen.seek($1, $2, $3, $4, $5, $6, $7) as partition_id;

-- name: purge
-- Remove messages of more partitions.
select partition_id, messages from queen.purge($1, $2, $3, $4, $5, $6);

-- name: delete_queue
-- Let a queue be gone.
select queen.delete_queue($1) as id;

-- name: delete_group
-- Let a group be gone.
select queen.delete_group($1, $2) as id;

-- name: erase
-- Erase some of what was deleted.
select queen.erase($1) as is_done;

-- name: redrive
-- Deliver dead letters again.
select id, group_id from queen.redrive($1);

-- name: dead_letters
-- Dead letters of a queue, oldest first, behind an id.
select
  id, queue, "group", partition, partition_id, "offset", level, payload, extras, created_at, attempts, reason,
  error, failed_at
from queen.dead_letters
where queue_id = $1 and id > $2 and ($3::text is null or "group" = $3)
order by id
limit $4;

-- name: backlog
-- What the slowest group of a queue has not settled.
select queen.backlog($1, $2) as messages;

-- name: queues_signature
-- Two numbers that change when a queue is made, deleted or configured.
select count(*) as queues, coalesce(sum(version + id), 0)::bigint as versions from queen.queues where deleted_at is null;

-- name: notify
-- Tell other processes which queues have work.
select pg_notify('queen', $1);

-- name: now
-- The clock.
select queen.now() as now;

-- name: ready_groups
-- Those of the groups that have something to give now: the slow poll behind the wake-ups.
select group_id from queen.ready_groups($1);
