-- Messages of the outbox for queues in other databases.

-- name: forward
-- Move messages from the outbox to those that are pushed to other databases.
select queen.forward($1, $2) as is_moved;

-- name: forwarded_queues
-- Queues with messages for other databases; of these queues, or all if null.
select b.queue
from queen.forward_batches b
where ($1::text[] is null or b.queue = any ($1))
  and exists (select 1 from queen.forwards f where f.queue = b.queue);

-- name: take_forwards
-- The next batch of a queue for another database.
select producer_id, sequence, outbox_id as id, item, payload from queen.take_forwards($1, $2, $3, $4, $5);

-- name: end_forwards
-- Delete the messages of a batch that has arrived in another database.
select queen.end_forwards($1, $2);

-- name: refuse_forwards
-- Return messages of a batch to the outbox, with the reasons.
select queen.refuse_forwards($1, $2, $3, $4);

-- name: abandon_batch
-- Record that a batch of another database is never stored; whether it was not stored before.
select queen.abandon_batch($1, $2, $3) as is_abandoned;
