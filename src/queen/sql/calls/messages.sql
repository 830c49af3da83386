-- The verbs of delivery: push, pop, ack and what goes with them.

-- name: push
-- Store segments; one row a segment, or the reasons why nothing was stored.
select kind, ordinal, "offset", created_at, xid, code
from queen.push($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19);

-- name: pop
-- Claim messages; one row a run of messages in a segment, last one row a group.
select
  request, group_id, delivery_id, token, partition_id, partition, level, attempts, until, first_offset,
  end_offset, base_offset, message_count, created_at, xid, payload, extras, wait_seconds, ready_since, due_since,
  expired, lapsed, buried, dropped, evicted, unkept, code
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
select group_id, settled, refused, is_over, has_more, code
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

-- name: shorten
-- Take back the ends of deliveries; one row a request, in the order asked.
select group_id, code from queen.shorten($1, $2, $3) order by ordinal;

-- name: transact
-- Acks, nacks and pushes, all or none; the rows of push, or the reasons.
select kind, ordinal, "offset", created_at, xid, code
from queen.transact(
  $1, $2, $3::text[]::int8multirange[], $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
  $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31
);

-- name: find_deliveries
-- The deliveries that messages are in, for acks that do not say it; a row a match, which of them by its ordinal.
select ordinal, id, token, partition_id, "offset", is_settled
from queen.find_deliveries($1, $2, $3, $4, $5, $6, $7);

-- name: are_settled
-- Whether groups are done with messages; one row a message, in the order asked.
select is_settled from queen.are_settled($1, $2, $3, $4) order by ordinal;

-- name: confirm
-- Come back once all that is to be seen here is as durable as a push: an empty record whose commit is waited for.
select pg_logical_emit_message(true, 'queen', '');

-- name: last_sequence
-- The newest sequence of a producer.
select queen.last_sequence($1) as sequence;

-- name: end_buffers
-- Files of a buffer are gone: nothing of them is stored any more, and how far they were may be forgotten.
update queen.producers p
set sequence = 9223372036854775807, at = queen.now()
where p.producer_id = any ($1);
