-- Recalls: archived messages that return to the log.

-- name: recall_starts
-- Partitions of a queue, or those named $2, with the offset at which the log of each starts. Without messages: the next offset.
select p.id, queen.log_start(p.id) as start_offset
from queen.partitions p
where p.queue_id = $1 and ($2::text[] is null or p.name = any ($2));

-- name: redacted_offsets
-- Messages of a queue that were erased.
select r.partition_id, r."offset"
from queen.redactions r
join queen.partitions p on p.id = r.partition_id
where p.queue_id = $1
order by r.partition_id, r."offset";

-- name: hold_recalled
-- Keep recalled messages from retention for $3 seconds.
select queen.hold_recalled($1, $2, $3);

-- name: read_recalled
-- Store segments that were read from a lake, in binary form.
copy queen.recalled from stdin (format binary);

-- name: recall
-- Move segments that were read from a lake to the log of these partitions.
select messages, is_changed from queen.recall($1, $2, $3, $4, $5);

-- name: forget_recall
-- Delete the segments of a recall that were read and not moved.
delete from queen.recalled where recall_id = $1;

-- name: forget_recalled
-- Delete segments that were read from a lake long ago and never moved.
select queen.forget_recalled($1, $2) as removed;
