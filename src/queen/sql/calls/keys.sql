-- API keys, their allowances, and tickets.

-- name: find_keys
-- API keys that are valid now, and for how long.
select
  id, digest, name, role, permissions, scopes, requests_per_second,
  extract(epoch from expires_at - queen.now())::float8 as seconds_left,
  case when old_until > queen.now() then old_digest end as old_digest,
  extract(epoch from old_until - queen.now())::float8 as old_seconds_left
from queen.keys
where id = any ($1) and revoked_at is null and (expires_at is null or expires_at > queen.now());

-- name: changed_keys
-- API keys that changed since a snapshot whose xmin is $1, at most $2; without $1 the newest that are not revoked. If there
-- are none, one row without a key contains the xmin to continue from. Keys are never deleted, so each change is a row.
-- xmin has 32 bits: a distance below 2^31 is not older. A very old row may be returned again, which is harmless.
select
  s.snapshot_xmin, k.id, k.digest, k.name, k.role, k.permissions, k.scopes, k.requests_per_second, k.is_valid,
  k.seconds_left, k.old_digest, k.old_seconds_left
from (select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as snapshot_xmin) s
left join lateral (
  select
    id, digest, name, role, permissions, scopes, requests_per_second, revoked_at is null as is_valid,
    extract(epoch from expires_at - queen.now())::float8 as seconds_left,
    case when old_until > queen.now() then old_digest end as old_digest,
    extract(epoch from old_until - queen.now())::float8 as old_seconds_left
  from queen.keys
  where
    case
      when $1::bigint is null then revoked_at is null
      else (xmin::text::bigint - $1::bigint) & 4294967295 < 2147483648
    end
  order by created_at desc, id
  limit $2
) k on true;

-- name: make_key
-- Store a new API key.
insert into queen.keys as k (
  id, digest, name, role, permissions, scopes, requests_per_second, created_at, created_by, expires_at, managed_by
)
values ($1, $2, $3, $4, $5, $6, $7, queen.now(), $8, $9, $10)
returning id, name, role, permissions, scopes, requests_per_second, created_at, created_by, expires_at, revoked_at, managed_by;

-- name: list_keys
-- API keys after an id, including revoked ones on request.
select id, name, role, permissions, scopes, requests_per_second, created_at, created_by, expires_at, revoked_at, managed_by
from queen.keys
where id > $1 and ($2::boolean or revoked_at is null)
order by id
limit $3;

-- name: key_with_id
-- One API key that is not revoked.
select id, name, role, permissions, scopes, requests_per_second, created_at, created_by, expires_at, revoked_at, managed_by
from queen.keys
where id = $1 and revoked_at is null;

-- name: change_key
-- Change everything about an API key except its secret.
update queen.keys
set name = $2, role = $3, permissions = $4, scopes = $5, requests_per_second = $6, expires_at = $7, managed_by = $8
where id = $1 and revoked_at is null
returning id, name, role, permissions, scopes, requests_per_second, created_at, created_by, expires_at, revoked_at, managed_by;

-- name: rotate_key
-- Give an API key a new secret; the old one stays valid for some seconds.
update queen.keys
set
  old_digest = case when $3::float8 > 0 then digest end,
  old_until = case when $3::float8 > 0 then queen.now() + make_interval(secs => $3::float8) end,
  digest = $2
where id = $1 and revoked_at is null
returning id, name, role, permissions, scopes, requests_per_second, created_at, created_by, expires_at, revoked_at, managed_by;

-- name: revoke_key
-- Revoke an API key.
update queen.keys set revoked_at = queen.now(), old_digest = null, old_until = null
where id = $1 and revoked_at is null
returning id, name;

-- name: allow
-- Take requests from the allowance of an API key.
select granted, wait_seconds from queen.allow($1, $2, $3);

-- name: make_ticket
-- Store a ticket, and delete expired ones.
with gone as (delete from queen.tickets where until < queen.now())
insert into queen.tickets as t (digest, caller, until)
values ($1, $2, queen.now() + make_interval(secs => $3::float8))
returning until;

-- name: take_ticket
-- Use a ticket, and delete it.
delete from queen.tickets where digest = $1 returning caller, until > queen.now() as is_valid;
