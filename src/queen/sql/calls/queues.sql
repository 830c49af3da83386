-- Queues, partitions and deliveries: find, create, configure, list, purge, delete.

-- name: partition_ids hot
-- Find or create partitions; one row per name, in request order.
select queue_id, partition_id from queen.partition_ids($1, $2, $3, $4, $5) order by ordinal;

-- name: queues hot
-- Queues by name, with their options, and whether they may have encrypted payloads.
select q.*, exists (select 1 from queen.data_keys k where k.queue_id = q.id) as has_data_keys
from queen.queues q
where q.name = any ($1) and q.deleted_at is null;

-- name: moved_queues
-- Those of the queues whose slot another database owns.
select name from queen.moved_queues($1) m (name);

-- name: moved_slots
-- Those of the slots that another database owns.
select s.slot from queen.slots s where s.slot = any ($1::integer[]) and s.state <> 'owned';

-- name: queues_in_scope hot
-- Queues of a namespace and a task, null for any, that have not moved, in the order in which a pop visits them.
select q.id, q.name
from queen.queues q
where q.deleted_at is null and ($1::text is null or q.namespace = $1) and ($2::text is null or q.task = $2)
  and not exists (select 1 from queen.slots s where s.slot = q.slot and s.state <> 'owned')
order by q.priority desc, q.id
limit 1000;

-- name: configure
-- Create or change a queue.
select * from queen.configure($1, $2, $3, $4, $5, $6, $7);

-- name: default_options
-- The options of a new queue, by column. $1: the server's own defaults.
select queen.default_options() || $1::jsonb as options;

-- name: list_options
-- Queues with their options, by name, after a name; $3: patterns. The page ends early if schemas take more than $4 bytes of
-- storage. rows: its size without that.
select q.*, p.rows
from (
  select l.id, l.name, sum(l.bytes) over (order by l.name) - l.bytes as bytes_before, count(*) over () as rows
  from (
    select q.id, q.name, coalesce(pg_column_size(q.schema), 0) as bytes
    from queen.queues q
    where q.deleted_at is null and q.name > $1 and queen.sees(q.name, q.namespace, $3)
    order by q.name
    limit $2
  ) l
) p
cross join lateral (select q.* from queen.queues q where q.id = p.id offset 0) q
where p.bytes_before < $4
order by p.name;

-- name: configure_partition
-- Set the priority of a partition.
select queen.configure_partition($1, $2, $3);

-- name: purge
-- Remove messages from more partitions.
select partition_id, messages from queen.purge($1, $2, $3, $4, $5, $6);

-- name: count_purge
-- How many messages a purge would remove, counted in a limited number of partitions.
select messages, is_complete from queen.count_purge($1, $2, $3, $4, $5);

-- name: delete_queue
-- Soft-delete a queue.
select queen.delete_queue($1) as id;

-- name: erase
-- Erase some rows of deleted queues and groups.
select queen.erase($1) as is_done;

-- name: backlog
-- The number of unsettled messages of a queue's slowest group.
select queen.backlog($1, $2) as messages;

-- name: queues_signature
-- Two numbers that change when a queue is created, deleted or configured, or moves.
select count(*) as queues, coalesce(sum(q.version + q.id), 0)::bigint as versions from queen.queues q
where q.deleted_at is null and not exists (select 1 from queen.slots s where s.slot = q.slot and s.state <> 'owned');

-- name: unordered_queues
-- Queues that may have jobs, by name, after a name; $3: patterns.
select q.id, q.name
from queen.queues q
where q.deleted_at is null and not q.ordered and q.name > $1 and queen.sees(q.name, q.namespace, $3)
order by q.name
limit $2;

-- name: queues_by_name
-- Queues by name, after a name; $6: patterns.
select q.id, q.name
from queen.queues q
where q.deleted_at is null
  and q.name > $1
  and ($2::text is null or q.namespace = $2)
  and ($3::text is null or q.task = $3)
  and ($4::text is null or strpos(lower(q.name), lower($4)) > 0)
  and queen.sees(q.name, q.namespace, $6)
order by q.name
limit $5;

-- name: queues_by_name_down
-- Queues by name, descending, before a name; null starts at the last.
select q.id, q.name
from queen.queues q
where q.deleted_at is null
  and ($1::text is null or q.name < $1)
  and ($2::text is null or q.namespace = $2)
  and ($3::text is null or q.task = $3)
  and ($4::text is null or strpos(lower(q.name), lower($4)) > 0)
  and queen.sees(q.name, q.namespace, $6)
order by q.name desc
limit $5;

-- name: queues_by_age
-- Queues after an id, oldest first.
select q.id, q.name
from queen.queues q
where q.deleted_at is null
  and q.id > $1
  and ($2::text is null or q.namespace = $2)
  and ($3::text is null or q.task = $3)
  and ($4::text is null or strpos(lower(q.name), lower($4)) > 0)
  and queen.sees(q.name, q.namespace, $6)
order by q.id
limit $5;

-- name: queues_by_age_down
-- Queues before an id, newest first.
select q.id, q.name
from queen.queues q
where q.deleted_at is null
  and q.id < $1
  and ($2::text is null or q.namespace = $2)
  and ($3::text is null or q.task = $3)
  and ($4::text is null or strpos(lower(q.name), lower($4)) > 0)
  and queen.sees(q.name, q.namespace, $6)
order by q.id desc
limit $5;

-- name: queues_by_sample
-- Queues by a sampled value, highest first, after a value and an id; unknown ones (-1) come last.
select q.id, q.name, q.figure
from (
  select
    q.id, q.name,
    coalesce(
      case $1::text
        when 'pending' then s.depth
        when 'dead_letters' then s.dead_letters
        else s.oldest_age_seconds
      end,
      -1
    )::double precision as figure
  from queen.queues q
  left join lateral (
    select s.depth, s.dead_letters, s.oldest_age_seconds
    from queen.samples s
    where s.queue_id = q.id and s.group_id = 0 and s.minute > queen.now() - interval '10 minutes'
    order by s.minute desc
    limit 1
  ) s on true
  where q.deleted_at is null
    and ($4::text is null or q.namespace = $4)
    and ($5::text is null or q.task = $5)
    and ($6::text is null or strpos(lower(q.name), lower($6)) > 0)
    and queen.sees(q.name, q.namespace, $8)
) q
where q.figure < $2::double precision or (q.figure = $2::double precision and q.id > $3)
order by q.figure desc, q.id
limit $7;

-- name: worst_queues
-- The paused queues, those with the oldest message and those with most dead letters: $2 of each, from the last samples.
with known as (
  select q.id, q.paused, s.oldest_age_seconds, s.dead_letters
  from unnest($1::bigint[]) k (id)
  join queen.queues q on q.id = k.id
  left join lateral (
    select s.dead_letters, s.oldest_age_seconds
    from queen.samples s
    where s.queue_id = q.id and s.group_id = 0 and s.minute > queen.now() - interval '10 minutes'
    order by s.minute desc
    limit 1
  ) s on true
)
(select k.id from known k where k.paused order by k.id limit $2)
union
(select k.id from known k where k.oldest_age_seconds > 0 order by k.oldest_age_seconds desc, k.id limit $2)
union
(select k.id from known k where k.dead_letters > 0 order by k.dead_letters desc, k.id limit $2);

-- name: queue_histories
-- Depths of queues in each of the last $2 minutes, the current one last; null if there is no sample.
select k.id as queue_id, array_agg(s.depth order by m.minute) as depths
from unnest($1::bigint[]) k (id)
cross join generate_series(
  date_trunc('minute', queen.now()) - make_interval(mins => $2 - 1), date_trunc('minute', queen.now()), interval '1 minute'
) m (minute)
left join queen.samples s on s.queue_id = k.id and s.minute = m.minute and s.group_id = 0
group by k.id;

-- name: list_queues
-- Queues with statistics that need not visit all partitions, and rates over $3 seconds, in request order.
select
  q.id, q.name, q.namespace, q.task, q.version, q.created_at, q.paused, q.priority, q.ordered,
  q.concurrency_limit, q.rate_max, q.rate_ms, q.rate_per, f.partitions, f.groups, f.pending, f.held, f.waiting, f.scheduled, f.dead_letters,
  case when f.oldest_at is not null then greatest(0, extract(epoch from queen.now() - f.oldest_at))::double precision end as oldest_seconds,
  r.pushed_per_second, r.popped_per_second, s.depth as sampled_pending, s.oldest_age_seconds as sampled_oldest_seconds
from unnest($1::bigint[]) with ordinality k (id, ordinal)
cross join lateral (select q.* from queen.queues q where q.id = k.id offset 0) q
cross join lateral queen.queue_figures(q.id, $2) f
cross join lateral queen.queue_rates(q.id, $3) r
left join lateral (
  select s.depth, s.oldest_age_seconds
  from queen.samples s
  where s.queue_id = q.id and s.group_id = 0 and s.minute > queen.now() - interval '10 minutes'
  order by s.minute desc
  limit 1
) s on true
order by k.ordinal;

-- name: queue_names
-- Names of queues that the patterns match, with namespace and task. Of several databases, one counts a spread queue.
select q.id, q.name, q.namespace, q.task, q.slot is not null or queen.is_first() as is_counted
from queen.queues q
where q.deleted_at is null and queen.sees(q.name, q.namespace, $2)
order by q.name
limit $1;

-- name: namespaces
-- Namespaces after one, with the number of their queues that the patterns match.
select
  q.namespace as name, array_agg(q.id) as ids,
  count(*) filter (where q.slot is not null or queen.is_first()) as queues
from queen.queues q
where q.deleted_at is null and q.namespace > $1 and queen.sees(q.name, q.namespace, $3)
group by q.namespace
order by q.namespace
limit $2;

-- name: tasks
-- Tasks after one, with the number of their queues that the patterns match.
select
  q.task as name, array_agg(q.id) as ids,
  count(*) filter (where q.slot is not null or queen.is_first()) as queues
from queen.queues q
where q.deleted_at is null and q.task > $1 and queen.sees(q.name, q.namespace, $3)
group by q.task
order by q.task
limit $2;

-- name: list_partitions
-- Partitions of a queue by name after (name, level), from a prefix on; with a group, also its positions.
select
  p.id, p.name, p.level, p.priority, f.first_offset, coalesce(n.next_offset, 0) as next_offset, n.created_at as last_pushed_at,
  (select d.datcollate in ('C', 'POSIX') from pg_database d where d.datname = current_database()) as is_bytewise,
  w.groups, w.pending, w.is_ready, w.claimed, w.position,
  l."group" as lease_group, l.until as lease_until, l.attempts as lease_attempts, l.messages as lease_messages
from (
  select p.id, p.name, p.level, p.priority
  from queen.partitions p
  where p.queue_id = $1
    and (p.name, p.level) > (greatest($2::text, $4::text), case when $2::text >= $4::text then $3::smallint else -1::smallint end)
  order by p.name, p.level
  limit $5
) p
left join lateral (
  select case when s.body is null then s.base_offset + s.message_count else s.base_offset end as first_offset
  from queen.segments s where s.partition_id = p.id order by s.base_offset limit 1
) f on true
left join lateral (
  select s.base_offset + s.message_count as next_offset, s.created_at
  from queen.segments s where s.partition_id = p.id order by s.base_offset desc limit 1
) n on true
cross join lateral (
  select
    count(*) as groups,
    max(greatest(0, coalesce(n.next_offset, 0) - c.claimed) + coalesce(d.messages, 0)) as pending,
    coalesce(bool_or(c.ready_at is not null and c.claimed < n.next_offset), false) as is_ready,
    min(c.claimed) as claimed,
    min(least(c.claimed, d.first_offset)) as position
  from queen.consumers c
  join queen.groups g on g.id = c.group_id and g.deleted_at is null
  left join lateral (
    select sum(queen.count_of(d.pending))::bigint as messages, min(lower(d.pending)) as first_offset
    from queen.deliveries d
    where d.partition_id = c.partition_id and d.group_id = c.group_id
  ) d on true
  where c.partition_id = p.id and ($6::bigint is null or c.group_id = $6)
) w
left join lateral (
  select g.name as "group", d.until, d.attempts, queen.count_of(queen.handed_out(d)) as messages
  from queen.deliveries d
  join queen.groups g on g.id = d.group_id
  where d.partition_id = p.id and d.held and d.until > queen.now() and ($6::bigint is null or d.group_id = $6)
  order by d.until
  limit 1
) l on true
order by p.name, p.level;

-- name: list_deliveries
-- Deliveries, leased or waiting, by group, priority and time, after a position in that order.
select
  g.id as group_id, g.name as "group", d.id, d.priority, d.until, d.held, d.attempts, d.error, d.first_offset, d.end_offset,
  d.messages, d.handed_out, d.partition_id, p.name as partition, p.level, d.is_parked, d.is_late
from (
  select g.id, g.name
  from queen.groups g
  where g.queue_id = $1 and g.deleted_at is null and ($2::text is null or g.name = $2) and g.id >= $3
  order by g.id
  limit 1000
) g
cross join lateral (
  select
    d.id, d.priority, nullif(d.until, 'infinity') as until, d.held, d.attempts, d.error, d.partition_id,
    d.until = 'infinity' as is_parked, d.until <= queen.now() as is_late,
    lower(d.pending) as first_offset, upper(d.pending) as end_offset, queen.count_of(d.pending) as messages,
    queen.count_of(queen.handed_out(d)) as handed_out, d.until as due_at
  from queen.deliveries d
  where d.group_id = g.id and (g.id > $3 or (d.priority, d.until, d.id) > ($4, $5::text::timestamptz, $6))
  order by d.priority, d.until, d.id
  limit $7
) d
join queen.partitions p on p.id = d.partition_id
order by g.id, d.priority, d.due_at, d.id
limit $7;

-- name: delivery_token
-- The token of a queue's leased delivery.
select d.token
from queen.deliveries d
join queen.partitions p on p.id = d.partition_id
where d.id = $2 and p.queue_id = $1 and d.held;

-- name: queues_of_partitions hot
-- The queues of partitions.
select p.id, q.name
from queen.partitions p
join queen.queues q on q.id = p.queue_id and q.deleted_at is null
where p.id = any ($1);

-- name: queues_of_deliveries hot
-- The queues of deliveries, for callers that know their tokens.
select d.id, d.token, q.name
from unnest($1::bigint[], $2::uuid[]) l (id, token)
join queen.deliveries d on d.id = l.id and d.token = l.token
join queen.partitions p on p.id = d.partition_id
join queen.queues q on q.id = p.queue_id and q.deleted_at is null;

-- name: queues_found
-- Queues of a namespace and task after a name, null for any, by name; $6: patterns.
select id, name, namespace, task, paused
from queen.queues
where deleted_at is null
  and ($1::text is null or namespace = $1)
  and ($2::text is null or task = $2)
  and ($3::text is null or name = $3)
  and name > $4
  and queen.sees(name, namespace, $6)
order by name
limit $5;
