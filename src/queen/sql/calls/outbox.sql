-- Messages that applications enqueued in their own transactions, on the way to the log.

-- name: outbox hot
-- Committed messages of transactions from a number on, and the first number from which transactions may be open. In the
-- order of enqueueing: a transaction gets its number with its first change, and may then have waited for another commit.
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
-- A number above that of every transaction that has one now. The end of a snapshot is not enough: it follows the last
-- transaction that ended, and an open transaction may have it.
select pg_current_xact_id()::text::bigint as xid;

-- name: open_xid
-- The first number from which transactions may be open.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xid;

-- name: append hot
-- Move messages from the outbox to the log; the rows of push, or `outbox` if they were moved before.
select kind, ordinal, "offset", created_at, xid, code
from queen.append(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20
);

-- name: set_aside_outbox
-- Mark messages that cannot be moved, with the reason; they stay and do not block others.
update queen.outbox o set error = u.error
from unnest($1::bigint[], $2::text[]) u (id, error)
where o.id = u.id;

-- name: lead_appending
-- Become or stay the leader that moves the outbox, for $2 seconds.
select queen.lead_appending($1, $2, $3) as is_leader;

-- name: take_batch
-- The next batch to push to a server, from the outbox in an application's own database.
select producer_id, sequence, is_again, id, item, payload, open_xid from queen.take_batch($1, $2, $3);

-- name: end_batch
-- Delete the messages of a batch that has arrived.
select queen.end_batch($1) as is_ended;

-- name: refuse_batch
-- Mark messages of a rejected batch, with the reasons.
select queen.refuse_batch($1, $2, $3) as is_refused;

-- name: outbox_objects
-- Which objects of an outbox are in this database, and whether it is a database of Queen servers.
select
  to_regclass('queen.outbox') is not null as has_outbox,
  to_regclass('queen.relay') is not null as has_relay,
  to_regclass('queen.migrations') is not null as has_servers;
