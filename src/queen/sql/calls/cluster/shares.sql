-- Shares: each database may use a part of a queue's limit.

-- name: share_reports
-- The shares of this database, and how it uses them, for these groups, or all.
select
  group_id, revision, rate_limit, rate_share, rate_reserved, rate_used,
  concurrency_limit, concurrency_share, concurrency_reserved, concurrency_used, moved_leases, is_ready, has_slots
from queen.share_reports($1);

-- name: apply_shares
-- Obey later decisions about shares.
select queen.apply_shares($1, $2, $3, $4);

-- name: decide_shares
-- Decide the shares of a group. Returns those that databases do not have yet.
select database, revision, rate_share, concurrency_share from queen.decide_shares($1, $2::text::jsonb);

-- name: absent_shares
-- What databases that have not reported may use of the limits of groups.
select
  s.group_id, sum(s.rate_reserved)::bigint as rate, sum(s.concurrency_reserved + s.moved_leases)::bigint as concurrency
from queen.shares s
join queen.databases d on d.number = s.database and d.removed_at is null and d.name <> all ($1::text[])
group by s.group_id;
