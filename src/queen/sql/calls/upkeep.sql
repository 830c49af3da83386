-- Background tasks, and one step of each.

-- name: take_duties
-- Take the background tasks that are due and have no leader.
select name, epoch, cursor from queen.take_duties($1, $2, $3);

-- name: report_duty
-- Store the result of a run, and when the next is due.
select queen.report_duty($1, $2, $3, $4, $5, $6, $7, $8);

-- name: duties
-- Every background task, its leader, and the result of its last run.
select
  d.name, case when d.until > queen.now() then d.holder end as holder, d.epoch, d.due_at, d.last_run_at,
  d.last_success_at, d.seconds, d.rows, d.lag_seconds, d.error
from queen.duties d
order by d.name;

-- name: kept_queues
-- Queues after an id that have a retention by age or for completed messages.
select q.id, q.retention_seconds > 0 as is_by_age, q.completed_retention_seconds > 0 as is_completed
from queen.queues q
where q.id > $1 and q.deleted_at is null and q.retention_enabled
  and (q.retention_seconds > 0 or q.completed_retention_seconds > 0)
order by q.id
limit $2;

-- name: retain
-- Remove messages that retention no longer keeps.
select partitions, messages, is_over, lag_seconds from queen.retain($1, $2, $3, $4, $5);

-- name: forget_removals
-- Delete some old records of removals.
select queen.forget_removals($1, $2, $3) as removed;

-- name: impatient_queues
-- Queues after an id that limit the wait of their messages.
select q.id, q.name
from queen.queues q
where q.id > $1 and q.deleted_at is null and q.max_wait_seconds > 0
order by q.id
limit $2;

-- name: evict
-- Evict messages that waited too long.
select partitions, messages, group_ids, counts, is_kept, is_over, lag_seconds from queen.evict($1, $2, $3, $4);

-- name: forget_generation
-- Truncate keys of a class that no window reaches any more.
select queen.forget_generation($1, $2) as is_truncated;

-- name: promote_due
-- Move due scheduled messages of the next queue into their partitions.
select queue_id, messages, lag_seconds from queen.promote_due($1, $2, $3);

-- name: emptied_queues
-- Queues after an id with partitions that were emptied or may never have had messages.
select q.id
from queen.queues q
where q.id > $1 and q.deleted_at is null
  and (
    exists (select 1 from queen.segments s where s.queue_id = q.id and s.body is null offset 0)
    or exists (select 1 from queen.laggards l where l.queue_id = q.id and l.kind = 'unused' offset 0)
  )
order by q.id
limit $2;

-- name: remove_partitions
-- Remove partitions that have been empty for long.
select removed, after_at, after_id, is_over, lag_seconds from queen.remove_partitions($1, $2, $3, $4, $5, $6);

-- name: forget_producers
-- Delete producers without a request for long.
select looked, removed, last from queen.forget_producers($1, $2, $3, $4);

-- name: forget_counters
-- Delete some old counters and samples.
select queen.forget_counters($1, $2, $3) as removed;

-- name: forget_traces
-- Delete some old events.
select queen.forget_traces($1, $2, $3) as removed;

-- name: forget_audit
-- Delete some old records of the audit log.
select queen.forget_audit($1, $2, $3) as removed;
