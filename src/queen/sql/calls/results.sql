-- Results, progress and cancellations of messages.

-- name: report_progress
-- Store the progress of a message.
select queen.report_progress($1, $2, $3, $4, $5, $6, $7) as is_kept;

-- name: find_results
-- The status of messages; one row per message, in request order.
select partition_id, "offset", status, attempts, until, error, dead_letter_id, settled_at, result, progress
from queen.find_results($1, $2, $3, $4, $5) order by ordinal;

-- name: find_place
-- Find the message with a transactionId.
select partition_id, "offset", scheduled_id from queen.find_place($1, $2, $3, $4);

-- name: find_places
-- The same for several, only by their keys; one row per message, in request order.
select p.partition_id, p."offset", p.scheduled_id
from unnest($1::bigint[], $2::text[], $3::text[]) with ordinality k (queue_id, transaction_id, partition, ordinal)
left join lateral (
  select p.partition_id, p."offset", p.scheduled_id
  from queen.find_place(k.queue_id, k.partition, k.transaction_id, 0) p
  limit 1
) p on true
order by k.ordinal;

-- name: cancel
-- Remove a message from a group.
select status, group_id from queen.cancel($1, $2, $3, $4, $5, $6, $7);

-- name: cancelled
-- Which of these messages were cancelled, by ordinal.
select k.ordinal
from unnest($1::text[], $2::bigint[], $3::bigint[])
  with ordinality k (transaction_id, partition_id, "offset", ordinal)
cross join lateral (select p.queue_id from queen.partitions p where p.id = k.partition_id offset 0) p
cross join lateral (
  select 1
  from queen.results r
  where r.queue_id = p.queue_id and r.transaction_id = k.transaction_id and r.is_cancelled
    and r.partition_id = k.partition_id and r."offset" = k."offset"
  offset 0
) r;

-- name: erase_result
-- Delete the result of a message.
select queen.erase_result($1, $2);

-- name: forget_results
-- Delete some expired results.
select queen.forget_results($1, $2) as removed;

-- name: work_figures
-- The work of groups in queues, in messages.
select q.id, q.name, q.paused, f.waiting, f.active, f.delayed, f.stalled, f.dead
from queen.queues q
cross join lateral queen.work_figures(q.id, $2, $3) f
where q.id = any ($1) and q.deleted_at is null
order by q.name;
