-- Spread queues, their groups and their pins, which are equal in all databases.

-- name: outdated
-- Databases whose copies of spread queues may be older than here, with the newest revision.
select d.name as database, o.queue_id, o.revision
from queen.outdated o
join queen.databases d on d.number = o.database and d.removed_at is null
order by o.queue_id, d.number
limit 1000;

-- name: definition
-- A spread queue with its options and groups.
select queen.definition($1)::text as definition;

-- name: definition_of
-- A spread queue by name, with its options and groups.
select queen.definition(q.id)::text as definition
from queen.queues q
where q.name = $1 and q.deleted_at is null and q.slot is null;

-- name: apply_definition
-- Make a spread queue equal to that of the first database.
select queen.apply_definition($1::text::jsonb) as is_applied;

-- name: is_current
-- A database has a revision of a spread queue now.
delete from queen.outdated o
using queen.databases d
where d.name = $1 and o.database = d.number and o.queue_id = $2 and o.revision <= $3;

-- name: all_definitions
-- Spread queues after an id, with their revision here, a digest of their options and groups, and the databases that are known
-- to lack the revision.
select
  d.queue_id, q.name as queue, d.revision, queen.definition_digest(d.queue_id) as digest,
  array(
    select n.name
    from queen.outdated o
    join queen.databases n on n.number = o.database
    where o.queue_id = d.queue_id
  ) as outdated
from queen.definitions d
left join queen.queues q on q.id = d.queue_id
where d.queue_id > $1
order by d.queue_id
limit 1000;

-- name: raise_revision
-- Let the next revision of a spread queue follow this one.
update queen.definitions set revision = greatest(revision, $2) where queue_id = $1;

-- name: note_definition
-- Let all databases get the definition of this one again, because one of them lacks it.
select queen.note_definition($1);

-- name: pins
-- The pins of all spread queues.
select q.name as queue, p.queue_id, p.partition, p.slot, p.is_ready, p.revision
from queen.pins p
join queen.queues q on q.id = p.queue_id and q.deleted_at is null
order by q.name, p.partition;

-- name: reserve_pin
-- Reserve a slot for a partition of a spread queue.
select queue_id, slot, is_ready, revision, is_new from queen.reserve_pin($1, $2, $3);

-- name: change_pin
-- Make a pin ready or not ready, or delete it.
select queen.change_pin($1, $2, $3, $4) as revision;

-- name: has_partition
-- Whether a partition exists in a slot of this database.
select queen.has_partition($1, $2, $3) as exists_here;
