-- Messages on their way back into a queue.

-- name: find_replay
-- A replay, if it was planned.
select source, target, bounds, messages from queen.replays where name = $1;

-- name: plan_replay
-- Remember how a replay is cut, as it was first planned.
insert into queen.replays as r (name, source, target, bounds, messages, created_at)
values ($1, $2, $3, $4, $5, queen.now())
on conflict (name) do update set name = r.name
returning source, target, bounds, messages;
