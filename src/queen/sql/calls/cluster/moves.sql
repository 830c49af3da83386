-- How a slot moves from one database to another.

-- name: slot_state
-- Whether this database owns a slot, whether it is copied to another one, and the server with its timeline.
select
  state, epoch, moved_to, copied_to,
  (select system_identifier from pg_control_system())::text || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
    as server
from queen.slots
where slot = $1;

-- name: copy_slot
-- Begin to copy a slot.
select queen.copy_slot($1, $2, $3);

-- name: leave_slot
-- Reject calls on a slot; its epoch, and the last ids of this database.
select epoch, partition_id, delivery_id from queen.leave_slot($1, $2, $3);

-- name: keep_slot
-- Own a slot again that has not moved.
select queen.keep_slot($1, $2);

-- name: close_slot
-- The slot has moved.
select queen.close_slot($1, $2, $3);

-- name: receive_slot
-- Begin or continue to receive a slot.
select queen.receive_slot($1, $2, $3);

-- name: lock_arrival
-- The progress of a copy, locked; no row if another process continues it.
select copied, since from queen.arrivals where slot = $1 and copier = $2 for update;

-- name: restart_arrival
-- Copy everything again; no row if another process continues the copy.
update queen.arrivals
set copied = -1, since = 0, copied_bytes = 0, total_bytes = null
where slot = $1 and copier = $2
returning slot;

-- name: expect_bytes
-- About how many stored bytes of messages will arrive.
update queen.arrivals set total_bytes = $2 where slot = $1;

-- name: pass_segments
-- Segments of transactions up to this one have arrived, and their bytes.
update queen.arrivals set copied = $2, copied_bytes = copied_bytes + $3 where slot = $1;

-- name: pass_rows
-- Rows that changed before this transaction have arrived.
update queen.arrivals set since = $2 where slot = $1;

-- name: pass_ids
-- New ids are above those of the other database.
select queen.pass_ids($1, $2);

-- name: record_move
-- Record the move of a slot to this database.
select queen.record_move($1, $2, $3, $4::bigint::text::xid8);

-- name: birthplace
-- Where messages that this database stores are born.
select queen.birthplace() as birthplace;

-- name: own_slot
-- Own a slot that has arrived.
select queen.own_slot($1, $2, $3);

-- name: record_owner
-- The first database lists the owner.
select queen.record_owner($1, $2, $3);

-- name: next_segments
-- The last transaction of the next segments to copy, about 32 MB, and their number and size; $3: only of ended transactions.
select max(n.xid)::text::bigint as xid, count(n.xid) as segments, coalesce(sum(n.size), 0)::bigint as bytes
from (
  select f.xid, f.size, sum(f.size) over (order by f.xid, f.partition_id, f.base_offset) - f.size as before
  from (
    select l.*
    from queen.queues q
    cross join lateral (
      select s.xid, s.partition_id, s.base_offset, pg_column_size(s.body) as size
      from queen.segments s
      where s.queue_id = q.id and s.body is not null and s.xid >= $2::bigint::text::xid8
        and (not $3 or s.xid < pg_snapshot_xmin(pg_current_snapshot()))
      order by s.xid
      limit 5000
    ) l
    where q.slot = $1
    union all
    (
      -- Of spread queues, only the partitions in the slot.
      select s.xid, s.partition_id, s.base_offset, pg_column_size(s.body)
      from queen.segments s
      where s.queue_id in (select queen.spread_in($1))
        and s.partition_id between $1::bigint << 53 and $1::bigint << 53 | 9007199254740991
        and s.body is not null and s.xid >= $2::bigint::text::xid8
        and (not $3 or s.xid < pg_snapshot_xmin(pg_current_snapshot()))
      order by s.xid
      limit 5000
    )
  ) f
  order by f.xid, f.partition_id, f.base_offset
  limit 5000
) n
where n.before < 33554432;

-- name: open_transaction
-- The oldest transaction that is open.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xid;

-- name: this_transaction
-- The number of this transaction.
select pg_current_xact_id()::text::bigint as xid;

-- name: forget_copy
-- Stop copying a slot to a database.
select queen.forget_copy($1, $2);

-- name: end_arrival
-- Forget a copy whose rows are erased; no row if another process continues it.
delete from queen.arrivals where slot = $1 and copier = $2 returning slot;

-- name: rewrites
-- Partitions of a slot whose segments were removed or changed.
select id, partition_id from queen.rewrites where partition_id >> 53 = $1 and id > $2 order by id limit 5000;

-- name: forwards_of_slot
-- The first and last positions of messages that transactions of a slot send to other databases, or nulls.
select min(f.position) as first, max(f.position) as last from queen.forwards f where $1::smallint = any (f.slots);

-- name: forget_rewrites
-- These partitions are equal in both databases.
delete from queen.rewrites where id = any ($1::bigint[]);

-- name: hindrances
-- What must end before a slot can move.
select reason from queen.hindrances($1);

-- name: definitions_in
-- The spread queues with partitions or dead letters in a slot, with their revisions.
select d.queue_id, d.revision
from queen.definitions d
where d.queue_id in (
  select queen.spread_in($1)
  union
  select l.queue_id
  from queen.dead_letters l
  where l.partition_id between $1::bigint << 53 and $1::bigint << 53 | 9007199254740991
);

-- name: revisions
-- The revisions of spread queues.
select d.queue_id, d.revision from queen.definitions d where d.queue_id = any ($1::bigint[]);
