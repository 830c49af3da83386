-- The verbs of delivery: push, pop, ack and related calls.

-- name: push batched
-- Store segments and outcomes of producers; one row per segment, or the reasons for the rejection.
select kind, ordinal, "offset", created_at, xid, code
from queen.push(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28,
  $29, $30, $31
);

-- name: key_blocks hot
-- Blocks of keys for the memory of this process; one row per partition, then one row per block of it.
select partition_id, seconds, bytes, base_offset, at, keys from queen.key_blocks($1, $2, $3);

-- name: pop batched
-- Claim messages; one row per run of messages in a segment, then one row per group.
select
  request, group_id, delivery_id, token, partition_id, partition, level, attempts, until, first_offset,
  end_offset, base_offset, message_count, created_at, xid, payload, extras, wait_seconds, ready_since, due_since,
  expired, lapsed, buried, dropped, evicted, unkept, code
from queen.pop($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: segments hot
-- Bodies of segments by position.
select k.partition_id, k.base_offset, s.xid, s.message_count, s.body, s.ends, s.extras
from unnest($1::bigint[], $2::bigint[]) k (partition_id, base_offset)
cross join lateral (
  select s.xid::text::bigint as xid, s.message_count, s.body, s.ends, s.extras
  from queen.segments s
  where s.partition_id = k.partition_id and s.base_offset = k.base_offset
  offset 0
) s;

-- name: ack batched
-- Settle messages; one row per request, in request order.
select group_id, settled, refused, is_over, has_more, code
from queen.ack($1, $2, $3::text[]::int8multirange[], $4, $5, $6, $7, $8, $9) order by ordinal;

-- name: nack batched
-- Return or settle messages; one row per request, in request order.
select group_id, due_at, due_seconds, is_dead, is_over, code
from queen.nack($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) order by ordinal;

-- name: combine batched
-- A push, acks or nacks, and pops in one transaction; the rows of each.
select
  kind, ordinal, "offset", created_at, xid, code, group_id, settled, refused, is_over, has_more, due_at, due_seconds,
  is_dead, request, delivery_id, token, partition_id, partition, level, attempts, until, first_offset, end_offset,
  base_offset, message_count, payload, extras, wait_seconds, ready_since, due_since, expired, lapsed, buried, dropped,
  evicted, unkept
from queen.combine(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text[]::int8multirange[], $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
  $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38
);

-- name: extend hot
-- Extend leases; one row per request, in request order.
select until, code from queen.extend($1, $2, $3) order by ordinal;

-- name: release hot
-- End leases without counting an attempt; one row per request, in request order.
select group_id, code from queen.release($1, $2) order by ordinal;

-- name: defer hot
-- End leases without counting an attempt, with a delay; one row per request, in request order.
select group_id, code from queen.defer($1, $2, $3) order by ordinal;

-- name: shorten hot
-- Take back the ends of leases; one row per request, in request order.
select group_id, code from queen.shorten($1, $2, $3) order by ordinal;

-- name: transact hot
-- Nacks, pushes and workflow steps, all or none; one row for each, or the reasons for the rejection.
select kind, ordinal, "offset", created_at, xid, code
from queen.transact(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
  $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39
);

-- name: transact_once hot
-- The same for the request of a producer, whose outcome is stored for repeated requests.
with done as materialized (
  select kind, ordinal, "offset", created_at, xid, code
  from queen.transact(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
    $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39
  )
)
select kind, ordinal, "offset", created_at, xid, code from done
union all
select kind, null, null, null, null, null
from queen.record_outcomes(
  $20, $21, $40, $41, $42, $43,
  array(select kind from done), array(select ordinal from done), array(select "offset" from done)
) kind;

-- name: transact_across hot
-- The same with pushes to other databases, which become forwards. $40 to $43 are null without a producer.
with done as materialized (
  select kind, ordinal, "offset", created_at, xid, code
  from queen.transact(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
    $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39
  )
)
select kind, ordinal, "offset", created_at, xid, code from done
union all
select r.kind, null, null, null, null, null
from (select 1 where $40::bytea[] is not null) n
cross join lateral queen.record_outcomes(
  $20, $21, $40, $41, $42, $43,
  array(select kind from done), array(select ordinal from done), array(select "offset" from done)
) r (kind)
union all
select kind, null, null, null, null, null
from queen.forward_pushes(
  $44, $45, $46, $47, $1::bigint[] || $8::bigint[] || $10::bigint[] || $22::bigint[], array(select kind from done)
) kind;

-- name: find_deliveries hot
-- The deliveries of messages, for acks without a complete lease; one row per match, with its ordinal.
select ordinal, id, token, partition_id, "offset", is_settled
from queen.find_deliveries($1, $2, $3, $4, $5, $6, $7);

-- name: are_settled hot
-- Whether groups have settled messages; one row per message, in request order.
select is_settled from queen.are_settled($1, $2, $3, $4) order by ordinal;

-- name: confirm hot
-- Wait until all that is visible here is as durable as a push: write an empty record and wait for its commit.
select pg_logical_emit_message(true, 'queen', '');

-- name: last_request hot
-- The last request of a producer in a scope, and its outcome.
select sequence, digest, outcome, bases, stale from queen.last_request($1, $2);

-- name: end_buffers
-- Mark buffer files as deleted, so that their progress can be deleted too.
update queen.producers p
set sequence = 9223372036854775807, at = queen.now()
where p.producer_id = any ($1) and p.scope = '';
