-- Consumer groups: subscribe, fill, seek, list, delete.

-- name: subscribe
-- Find or make a group.
select queue_id, group_id, is_filled from queen.subscribe($1, $2, $3, $4);

-- name: fill
-- Give a group its place in more partitions.
select queen.fill($1, $2) as is_filled;

-- name: seek
-- Move a group in more partitions.
select queen.seek($1, $2, $3, $4, $5, $6, $7) as partition_id;

-- name: delete_group
-- Let a group be gone.
select queen.delete_group($1, $2) as id;

-- name: ready_groups
-- Those of the groups that have something to give now: the slow poll behind the wake-ups.
select group_id from queen.ready_groups($1);

-- name: list_groups
-- Groups behind an id, of one queue or of all, with how far each is behind.
select
  g.id, g.name, g.start_mode, nullif(g.start_at, '-infinity') as start_at, g.created_at, q.name as queue, q.namespace,
  f.lag, f.held, f.waiting,
  case when f.oldest_at is not null then greatest(0, extract(epoch from queen.now() - f.oldest_at))::double precision end as oldest_seconds,
  queen.last_pop_at(g.id) as last_pop_at
from (
  select g.*
  from queen.groups g
  where g.deleted_at is null and g.id > $1 and ($2::bigint is null or g.queue_id = $2)
  order by g.id
  limit $3
) g
cross join lateral (
  select q.name, q.namespace from queen.queues q where q.id = g.queue_id and q.deleted_at is null offset 0
) q
cross join lateral queen.group_figures(g.id, $4) f
order by g.id;

-- name: queues_of_group
-- Queues that a group of this name reads.
select q.name
from queen.groups g
join queen.queues q on q.id = g.queue_id and q.deleted_at is null
where g.name = $1 and g.deleted_at is null
order by q.name
limit 10000;

-- name: group_named
-- The group of a queue.
select g.id from queen.groups g where g.queue_id = $1 and g.name = $2 and g.deleted_at is null;

-- name: group_names
-- What groups are called, deleted ones too, as long as they are known.
select g.id, q.name as queue, g.name as "group"
from queen.groups g
join queen.queues q on q.id = g.queue_id
where g.id = any ($1::bigint[]);
