-- What applications put down in their own transactions, on its way to the log.

-- name: outbox hot
-- Messages that transactions put down and committed, of those from a number on; and from which number on some may still
-- be open. In the order in which they were put down: a transaction has its number from its first change on, and may
-- since have waited for another to commit.
select o.id, o.item, o.payload, pg_snapshot_xmin(pg_current_snapshot())::text::bigint as open_xid
from (
  select o.id, o.item, o.payload
  from queen.outbox o
  where o.xid >= $1::bigint::text::xid8 and o.error is null
  order by o.xid, o.id
  limit $2
) o
order by o.id;

-- name: next_xid
-- A number that is higher than that of every transaction that has one by now. Not the end of a snapshot: that is the number after
-- the last that ended, and one that is open may have it.
select pg_current_xact_id()::text::bigint as xid;

-- name: open_xid
-- From which number on transactions may be open.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xid;

-- name: append hot
-- Move messages of the outbox to the log; the rows of push, or that they were moved.
select kind, ordinal, "offset", created_at, xid, code
from queen.append(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20
);

-- name: set_aside_outbox
-- Messages that cannot be moved, and why: they stay, and hold up no other.
update queen.outbox o set error = u.error
from unnest($1::bigint[], $2::text[]) u (id, error)
where o.id = u.id;

-- name: lead_appending
-- Whether this process moves what is in the outbox, for some seconds.
select queen.lead_appending($1, $2, $3) as is_leader;

-- name: take_batch
-- The batch to push to a server from the outbox of an application's own database.
select producer_id, sequence, is_again, id, item, payload, open_xid from queen.take_batch($1, $2, $3);

-- name: end_batch
-- A batch has arrived.
select queen.end_batch($1) as is_ended;

-- name: refuse_batch
-- Some messages of a batch cannot be pushed, and why.
select queen.refuse_batch($1, $2, $3) as is_refused;

-- name: outbox_objects
-- Which of the objects of an outbox are in this database, and whether servers of Queen are over it.
select
  to_regclass('queen.outbox') is not null as has_outbox,
  to_regclass('queen.relay') is not null as has_relay,
  to_regclass('queen.migrations') is not null as has_servers;
