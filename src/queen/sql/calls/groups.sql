-- Consumer groups: subscribe, fill, seek, list, delete.

-- name: subscribe hot
-- Find or create a group.
select queue_id, group_id, is_filled from queen.subscribe($1, $2, $3, $4);

-- name: find_groups hot
-- Existing queues, each with its group; null if it has none, or only one that was created with another start. A queue without an
-- id has moved to another database.
select k.name as queue, q.id as queue_id, g.id as group_id, g.filled_to is null as is_filled
from unnest($1::text[]) k (name)
left join lateral (
  select q.id from queen.queues q where q.name = k.name and q.deleted_at is null offset 0
) q on true
left join lateral (
  select g.id, g.filled_to
  from queen.groups g
  where g.queue_id = q.id and g.name = $2 and g.deleted_at is null
    and (
      $3::text is null
      or (g.start_mode = $3 and ($3 <> 'time' or least($4::timestamptz, g.created_at) = g.start_at))
    )
  offset 0
) g on true
where q.id is not null or exists (select 1 from queen.moved_queues(array[k.name]));

-- name: group_ids
-- The ids of groups, of those that exist.
select g.id
from unnest($1::text[], $2::text[]) n (queue, name)
join queen.queues q on q.name = n.queue and q.deleted_at is null
join queen.groups g on g.queue_id = q.id and g.name = n.name and g.deleted_at is null;

-- name: fill hot
-- Create the positions of a group in more partitions.
select queen.fill($1, $2) as is_filled;

-- name: seek
-- Move a group in more partitions.
select queen.seek($1, $2, $3, $4, $5, $6, $7) as partition_id;

-- name: delete_group
-- Soft-delete a group.
select queen.delete_group($1, $2) as id;

-- name: ready_groups hot
-- The given groups that have messages now or have moved: the slow poll that backs up the wake-ups.
select group_id from queen.ready_groups($1);

-- name: groups_by_age
-- Groups after an id, of one queue or all, with one name or any; $5: patterns of queues.
select g.id, q.name as queue
from queen.groups g
cross join lateral (
  select q.name, q.namespace from queen.queues q where q.id = g.queue_id and q.deleted_at is null offset 0
) q
where g.deleted_at is null
  and g.id > $1
  and ($2::bigint is null or g.queue_id = $2)
  and ($3::text is null or g.name = $3)
  and queen.sees(q.name, q.namespace, $5)
order by g.id
limit $4;

-- name: groups_by_name
-- The same by name, after a name and an id.
select g.id, g.name, q.name as queue
from queen.groups g
cross join lateral (
  select q.name, q.namespace from queen.queues q where q.id = g.queue_id and q.deleted_at is null offset 0
) q
where g.deleted_at is null
  and (g.name, g.id) > ($1, $2)
  and ($3::bigint is null or g.queue_id = $3)
  and ($4::text is null or g.name = $4)
  and queen.sees(q.name, q.namespace, $6)
order by g.name, g.id
limit $5;

-- name: groups_by_name_down
-- The same by name, descending.
select g.id, g.name, q.name as queue
from queen.groups g
cross join lateral (
  select q.name, q.namespace from queen.queues q where q.id = g.queue_id and q.deleted_at is null offset 0
) q
where g.deleted_at is null
  and ($1::text is null or (g.name, g.id) < ($1, $2))
  and ($3::bigint is null or g.queue_id = $3)
  and ($4::text is null or g.name = $4)
  and queen.sees(q.name, q.namespace, $6)
order by g.name desc, g.id desc
limit $5;

-- name: groups_by_sample
-- The same by a sampled value, highest first, after a value and an id; unknown ones (-1) come last.
select g.id, g.queue, g.figure
from (
  select
    g.id, q.name as queue,
    coalesce(case $1::text when 'lag' then s.depth else s.oldest_age_seconds end, -1)::double precision as figure
  from queen.groups g
  cross join lateral (
    select q.name, q.namespace from queen.queues q where q.id = g.queue_id and q.deleted_at is null offset 0
  ) q
  left join lateral (
    select s.depth, s.oldest_age_seconds
    from queen.samples s
    where s.queue_id = g.queue_id and s.group_id = g.id
      -- Groups of a queue are measured together.
      and s.minute = (
        select n.minute
        from queen.samples n
        where n.queue_id = g.queue_id and n.minute > queen.now() - interval '10 minutes'
        order by n.minute desc
        limit 1
      )
  ) s on true
  where g.deleted_at is null
    and ($4::bigint is null or g.queue_id = $4)
    and ($5::text is null or g.name = $5)
    and queen.sees(q.name, q.namespace, $7)
) g
where g.figure < $2::double precision or (g.figure = $2::double precision and g.id > $3)
order by g.figure desc, g.id
limit $6;

-- name: list_groups
-- Groups with how far each is behind, in request order.
select
  g.id, g.name, g.start_mode, nullif(g.start_at, '-infinity') as start_at, g.created_at, q.name as queue, q.namespace,
  f.lag, f.held, f.waiting,
  case when f.oldest_at is not null then greatest(0, extract(epoch from queen.now() - f.oldest_at))::double precision end as oldest_seconds,
  queen.last_pop_at(g.id) as last_pop_at
from unnest($1::bigint[]) with ordinality k (id, ordinal)
cross join lateral (select g.* from queen.groups g where g.id = k.id and g.deleted_at is null offset 0) g
cross join lateral (
  select q.name, q.namespace from queen.queues q where q.id = g.queue_id and q.deleted_at is null offset 0
) q
cross join lateral queen.group_figures(g.id, $2) f
order by k.ordinal;

-- name: queues_of_group
-- Queues read by a group with this name that the patterns match.
select q.name
from queen.groups g
join queen.queues q on q.id = g.queue_id and q.deleted_at is null
where g.name = $1 and g.deleted_at is null and queen.sees(q.name, q.namespace, $2)
order by q.name
limit 10000;

-- name: group_named
-- The group of a queue.
select g.id from queen.groups g where g.queue_id = $1 and g.name = $2 and g.deleted_at is null;

-- name: group_names
-- Names of groups, including deleted ones that are not erased yet.
select g.id, q.name as queue, g.name as "group"
from queen.groups g
join queen.queues q on q.id = g.queue_id
where g.id = any ($1::bigint[]);
