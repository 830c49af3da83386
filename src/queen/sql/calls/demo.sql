-- Generated history for the queues of `queen dev --demo`.

-- name: demo_groups
-- Some queues with their groups, the clock, and the newest minute of an earlier server with counters.
select
  q.id as queue_id, q.name as queue, g.id as group_id, queen.now() as now,
  (
    select max(c.minute)
    from queen.counters c
    where c.queue_id = q.id and c.minute < queen.now() - interval '2 minutes'
  ) as counted_to
from queen.queues q
join queen.groups g on g.queue_id = q.id and g.deleted_at is null
where q.name = any ($1::text[]) and q.deleted_at is null
order by q.id, g.id;

-- name: count_minutes
-- Store the counters of a process for many minutes, given as JSON: the minute and its rows.
select queen.count($1, (m.value ->> 'minute')::timestamptz, m.value -> 'rows') as now
from jsonb_array_elements($2::jsonb) m;

-- name: keep_samples
-- Store samples, given as JSON. Existing ones stay.
insert into queen.samples
select s.* from jsonb_populate_recordset(null::queen.samples, $1::jsonb) s
on conflict do nothing;
