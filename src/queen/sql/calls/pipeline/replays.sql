-- Replays: messages that return to a queue.

-- name: find_replay
-- A replay, if planned.
select source, target, bounds, messages from queen.replays where name = $1;

-- name: plan_replay
-- Store how a replay is split, as first planned.
insert into queen.replays as r (name, source, target, bounds, messages, created_at)
values ($1, $2, $3, $4, $5, queen.now())
on conflict (name) do update set name = r.name
returning source, target, bounds, messages;

-- name: fence
-- The time, and a transaction: later transactions store messages at that time or later.
select queen.now() as at, pg_current_xact_id()::text::bigint as xid;

-- name: unarchived_since
-- When the first message was stored that an archive has not copied into its lake.
select min(s.created_at) as at
from queen.archives a
join queen.segments s on s.queue_id = a.queue_id and s.xid >= a.xid and s.body is not null
where a.name = $1;
