-- The duties of upkeep, and a step of each.

-- name: take_duties
-- Take the duties that are due and that nobody has.
select name, epoch, cursor from queen.take_duties($1, $2, $3);

-- name: report_duty
-- What came of a run, and in how many seconds the next is due.
select queen.report_duty($1, $2, $3, $4, $5, $6, $7, $8);

-- name: duties
-- Every duty, who has it, and what came of its last run.
select
  d.name, case when d.until > queen.now() then d.holder end as holder, d.epoch, d.due_at, d.last_run_at,
  d.last_success_at, d.seconds, d.rows, d.lag_seconds, d.error
from queen.duties d
order by d.name;

-- name: kept_queues
-- Queues behind an id that remove what is old, by age or once it is completed.
select q.id, q.retention_seconds > 0 as is_by_age, q.completed_retention_seconds > 0 as is_completed
from queen.queues q
where q.id > $1 and q.deleted_at is null and q.retention_enabled
  and (q.retention_seconds > 0 or q.completed_retention_seconds > 0)
order by q.id
limit $2;

-- name: retain
-- Remove what a queue keeps no longer.
select partitions, messages, is_over, lag_seconds from queen.retain($1, $2, $3, $4, $5);

-- name: forget_removals
-- Forget some of what was removed long ago.
select queen.forget_removals($1, $2, $3) as removed;

-- name: impatient_queues
-- Queues behind an id whose messages wait for a bounded time.
select q.id, q.name
from queen.queues q
where q.id > $1 and q.deleted_at is null and q.max_wait_seconds > 0
order by q.id
limit $2;

-- name: evict
-- Evict what waited too long.
select partitions, messages, group_ids, counts, is_kept, is_over, lag_seconds from queen.evict($1, $2, $3, $4);

-- name: forget_generation
-- Truncate keys of a class that no window reaches any more.
select queen.forget_generation($1, $2) as is_truncated;

-- name: promote_due
-- Put scheduled messages of the next queue into their partitions.
select queue_id, messages, lag_seconds from queen.promote_due($1, $2, $3);

-- name: emptied_queues
-- Queues behind an id in which something was emptied, or may never have held anything.
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
-- Forget producers that were not heard of for long.
select looked, removed, last from queen.forget_producers($1, $2, $3, $4);

-- name: forget_counters
-- Forget some counters and samples of long ago.
select queen.forget_counters($1, $2, $3) as removed;

-- name: forget_traces
-- Forget some events of long ago.
select queen.forget_traces($1, $2, $3) as removed;

-- name: forget_audit
-- Remove some records of the audit log that are old.
select queen.forget_audit($1, $2, $3) as removed;
