-- Events that consumers recorded for messages.

-- name: add_trace
-- Store an event of a message.
select queen.add_trace($1, $2, $3, $4, $5, $6) as id;

-- name: traces_of_message
-- Events of a message after an id, in time order.
select
  t.id, t.partition_id, t.transaction_id, t."group", t.event_type, t.names, t.data, t.created_at,
  q.name as queue, p.name as partition
from (
  select t.*
  from queen.traces t
  where t.partition_id = $1 and t.transaction_id = $2 and t.id > $3
  order by t.id
  limit $4
) t
left join queen.partitions p on p.id = t.partition_id
left join queen.queues q on q.id = p.queue_id
order by t.id;

-- name: traces_of_name
-- Events with a name after an id, in time order; $4: patterns of queues.
select
  t.id, t.partition_id, t.transaction_id, t."group", t.event_type, t.names, t.data, t.created_at,
  q.name as queue, p.name as partition
from (
  select n.trace_id
  from queen.trace_names n
  where n.name = $1 and n.trace_id > $2
    and ($4::text[] is null or exists (
      select 1
      from queen.traces t
      join queen.partitions p on p.id = t.partition_id
      join queen.queues q on q.id = p.queue_id
      where t.id = n.trace_id and queen.sees(q.name, q.namespace, $4)
      offset 0
    ))
  order by n.trace_id
  limit $3
) n
cross join lateral (select t.* from queen.traces t where t.id = n.trace_id offset 0) t
left join queen.partitions p on p.id = t.partition_id
left join queen.queues q on q.id = p.queue_id
order by t.id;

-- name: trace_names
-- Names of traces after one, each found by one step in the index; counts events up to $4.
with recursive step (name, n) as (
  (select n.name, 1 from queen.trace_names n where n.name > $1 and n.name >= $2 order by n.name limit 1)
  union all
  select (select n.name from queen.trace_names n where n.name > s.name order by n.name limit 1), s.n + 1
  from step s
  where s.name is not null and s.n < $3
)
select
  s.name,
  (
    select nullif(count(*), $4 + 1)
    from (select 1 from queen.trace_names n where n.name = s.name limit $4 + 1) n
  ) as events,
  (
    select t.created_at
    from queen.traces t
    where t.id = (select n.trace_id from queen.trace_names n where n.name = s.name order by n.trace_id desc limit 1)
  ) as last_at
from step s
where s.name is not null
order by s.name;
