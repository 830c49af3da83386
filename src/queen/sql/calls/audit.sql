-- The audit log.

-- name: audit
-- Append records to the audit log.
select queen.audit_batch($1, $2, $3, $4) as id;

-- name: list_audit
-- Records of the audit log before an id, newest first.
select id, at, record
from queen.audit
where id < $1
  and ($2::text is null or actor = $2)
  and ($3::text is null or action = $3)
  and ($4::text is null or queue = $4)
  and ($5::timestamptz is null or at >= $5)
  and ($6::timestamptz is null or at < $6)
order by id desc
limit $7;

-- name: audit_chain
-- Records of the audit log after an id, in order, with the input of their hashes.
select id, (extract(epoch from at) * 1000000)::bigint as at_micros, actor, action, queue, record, hash
from queen.audit
where id > $1
order by id
limit $2;

-- name: audit_start
-- The newest record that retention removed, and its hash.
select id, hash from queen.audit_start;

-- name: audit_end
-- The newest record and its hash.
select id, hash from queen.audit_end;
