-- Recurring messages.

-- name: put_schedule
-- Create a schedule, or change one that belongs to the queues in $10; no row if it belongs to another queue.
-- The next tick stays if cron expression and time zone do not change. $11: whether the manager changes to $12.
insert into queen.schedules as s (
  name, queue, partition, cron, time_zone, missed, message, paused, next_at, look_at, created_at, managed_by
)
select
  $1, $2, $3, $4, $5, $6, $7, coalesce($8::boolean, false), t.next_at, t.next_at, queen.now(), $12
from (
  -- Also the slot of its former queue, because it leaves that slot.
  select
    case when coalesce($8, false) then null else $9::timestamptz end,
    queen.enter_named(array(select $2 union select e.queue from queen.schedules e where e.name = $1))
) t (next_at, entered)
on conflict (name) do update
set
  queue = excluded.queue, partition = excluded.partition, cron = excluded.cron, time_zone = excluded.time_zone,
  missed = excluded.missed, message = excluded.message, paused = coalesce($8, s.paused), error = null,
  managed_by = case when $11::boolean then excluded.managed_by else s.managed_by end,
  next_at = case
    when coalesce($8, s.paused) then null
    when s.cron = excluded.cron and s.time_zone = excluded.time_zone and s.next_at is not null then s.next_at
    else $9
  end,
  look_at = case
    when coalesce($8, s.paused) then null
    when s.cron = excluded.cron and s.time_zone = excluded.time_zone and s.next_at is not null then s.next_at
    else $9
  end
where s.queue = any ($10::text[])
returning name, queue, partition, cron, time_zone, missed, message, paused, next_at, last_at, error, created_at, managed_by;

-- name: list_schedules
-- Schedules by name, after one; $4: patterns of queues.
select s.name, s.queue, s.partition, s.cron, s.time_zone, s.missed, s.paused, s.next_at, s.last_at, s.error, s.created_at,
  s.managed_by
from queen.schedules s
where s.name > $1 and s.queue = coalesce($2, s.queue)
  and queen.sees(s.queue, (select q.namespace from queen.queues q where q.name = s.queue and q.deleted_at is null), $4)
order by s.name
limit $3;

-- name: schedule
-- One schedule.
select s.name, s.queue, s.partition, s.cron, s.time_zone, s.missed, s.message, s.paused, s.next_at, s.last_at, s.error,
  s.created_at, s.managed_by
from queen.schedules s
where s.name = $1;

-- name: pause_schedule
-- Pause a schedule, or resume it from the given tick on; no row if there is no such schedule.
with entered as (
  select queen.enter_named(array(select s.queue from queen.schedules s where s.name = $1))
)
update queen.schedules s
set
  paused = $2,
  next_at = case when $2 then null else coalesce(s.next_at, $3) end,
  look_at = case when $2 then null else coalesce(s.look_at, $3) end,
  error = null
from entered
where s.name = $1
returning s.name, s.queue, s.partition, s.cron, s.time_zone, s.missed, s.message, s.paused, s.next_at, s.last_at, s.error,
  s.created_at, s.managed_by;

-- name: delete_schedule
-- Delete a schedule.
with entered as (
  select queen.enter_named(array(select s.queue from queen.schedules s where s.name = $1))
)
delete from queen.schedules s using entered where s.name = $1 returning s.name;

-- name: due_schedules
-- Schedules whose tick is due, if this process is the leader; otherwise how long to wait.
select name, queue, partition, cron, time_zone, missed, message, next_at, now, wait_seconds
from queen.due_schedules($1, $2, $3);

-- name: fire hot
-- Push the messages of due ticks and advance their schedules; the rows of push, or `schedule` if they had advanced.
select kind, ordinal, "offset", created_at, xid, code
from queen.fire(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23
);

-- name: defer_schedule
-- Record why a tick could not be pushed, and retry it after some seconds.
update queen.schedules s
set look_at = queen.now() + make_interval(secs => $3), error = $4
where s.name = $1 and s.next_at = $2;
