-- Holds: messages of a queue that retention keeps for another system.

-- name: list_holds
-- Holds by queue and name, after one, with the messages that each keeps; null if there are more than $4 segments. $5: patterns.
select
  q.name as queue, h.name, h.xid::text::bigint as position, h.held_at, h.expires_at,
  case when s.segments <= $4 then s.messages end as messages,
  coalesce(greatest(extract(epoch from queen.now() - s.oldest_at), 0), 0)::double precision as age_seconds
from queen.holds h
join queen.queues q on q.id = h.queue_id and q.deleted_at is null
cross join lateral (
  select count(*) as segments, coalesce(sum(n.message_count), 0)::bigint as messages, min(n.created_at) as oldest_at
  from (
    select s.message_count, s.created_at
    from queen.segments s
    where s.queue_id = h.queue_id and s.xid >= h.xid and s.body is not null
    order by s.xid
    limit $4 + 1
  ) n
) s
where (q.name, h.name) > ($1, $2)
  and (h.expires_at is null or h.expires_at > queen.now())
  and ($5::text[] is null or queen.sees(q.name, q.namespace, $5))
order by q.name, h.name
limit $3;

-- name: covering_hold
-- A hold that keeps messages which a purge of a queue, or of one partition, would remove; $3: only older ones.
select h.name
from queen.holds h
join queen.queues q on q.id = h.queue_id and q.deleted_at is null
where q.name = $1
  and (h.expires_at is null or h.expires_at > queen.now())
  and exists (
    select 1
    from (
      select s.created_at
      from queen.segments s
      where $2::text is null and s.queue_id = h.queue_id and s.xid >= h.xid and s.body is not null
      order by s.xid
      limit 1000
    ) s
    where $3::timestamptz is null or s.created_at < $3
    union all
    select 1
    from queen.partitions p
    cross join lateral (
      -- The last message that the purge would remove.
      select s.xid
      from queen.segments s
      where s.partition_id = p.id and s.body is not null and ($3::timestamptz is null or s.created_at < $3)
      order by s.base_offset desc
      limit 1
    ) n
    where $2::text is not null and p.queue_id = h.queue_id and p.name = $2 and n.xid >= h.xid
  )
order by h.xid, h.name
limit 1;

-- name: unhold
-- Drop a hold; false if there was none.
select queen.unhold($1, $2) as is_dropped;
