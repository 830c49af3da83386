-- Segments as one row per message, for people who query with SQL.
create or replace view queen.messages as
select
  q.name as queue,
  p.name as partition,
  s.base_offset + i.n as "offset",
  s.created_at,
  -- Null if encrypted, because the database cannot decrypt it.
  case when substr(m.payload, 1, 1) <> '\x01' then convert_from(m.payload, 'UTF8') end as payload,
  convert_from(queen.extra_at(s.extras, s.message_count, i.n), 'UTF8')::json as extras,
  p.level as priority,
  s.expires_at,
  s.partition_id,
  s.xid
from queen.segments s
join queen.partitions p on p.id = s.partition_id
join queen.queues q on q.id = p.queue_id
cross join lateral generate_series(0, s.message_count - 1) as i (n)
cross join lateral (select queen.payload_at(s.body, s.ends, i.n) as payload offset 0) m
where s.body is not null;
