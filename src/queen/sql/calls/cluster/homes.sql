-- Where queues are, if there are several databases.

-- name: find_homes hot
-- The slots of queues, of those that have one.
select name, slot from queen.homes where name = any ($1);

-- name: claim_homes hot
-- Decide the slots of queues that have none yet.
select name, slot from queen.claim_homes($1, $2);

-- name: copy_homes hot
-- Store slots that the first database decided.
select queen.copy_homes($1, $2);

-- name: slot_owners
-- The slots that are not in this database, and their owners.
select slot, moved_to from queen.slots where state = 'gone';

-- name: databases
-- The databases that this one knows.
select number, name, is_here from queen.databases order by number;

-- name: list_database
-- Give a database a number.
select queen.list_database($1) as number;

-- name: unlist_database
-- Remove a database that could not join.
select queen.unlist_database($1);

-- name: leaving_slots
-- The databases that slots are leaving to, because a join was interrupted.
select distinct moved_to from queen.slots where state = 'leaving';

-- name: join_databases
-- Join this database with others.
select queen.join_databases($1, $2, $3, $4);

-- name: shared_sequences
-- The last values of the sequences of ids that are unique in all databases.
select jsonb_object_agg(s.name::text, s.last_value) as last_values from queen.shared_sequences() s;

-- name: leave_slots
-- Begin to give empty slots to another database.
select s.slot, s.epoch from queen.leave_slots($1, $2) l join queen.slots s on s.slot = l;

-- name: own_slots
-- Own slots that are leaving another database.
select queen.own_slots($1, $2);

-- name: close_slots
-- Slots that were leaving have another owner now.
select queen.close_slots($1);
