-- The progress of Spark jobs.

-- name: begin_pipeline
-- Start a run under a name, replacing the run before; deletes pipelines that did not report for a month.
with forgotten as (
  delete from queen.pipelines f
  where f.name in (
    select o.name
    from queen.pipelines o
    where o.updated_at < queen.now() - interval '30 days' and o.name <> $1
    order by o.name
    limit 100
    for update skip locked
  )
)
insert into queen.pipelines as p (name, run_id, kind, queues, target, state, ui_url, started_at, updated_at)
values ($1, $2::text::uuid, $3, $4::text[], $5, 'running', $6, queen.now(), queen.now())
on conflict (name) do update
set
  run_id = excluded.run_id, kind = excluded.kind, queues = excluded.queues, target = excluded.target,
  state = excluded.state, rows_before = p.rows_before + coalesce(p.rows_total, 0), position = null,
  lag_messages = null, lag_seconds = null, batch_id = null, batch_millis = null, rows_per_second = null,
  rows_total = null, detail = null, error = null, held_back_by = null,
  ui_url = excluded.ui_url, started_at = excluded.started_at, updated_at = excluded.updated_at
returning p.name;

-- name: report_pipeline
-- Store the progress of a run, and add it to the sample of this minute; no row if another run has its name.
with before as (
  select p.name, coalesce(p.rows_total, 0) as rows, coalesce((p.detail ->> 'dropped')::bigint, 0) as late
  from queen.pipelines p
  where p.name = $1 and p.run_id = $2::text::uuid
  for update
), reported as (
  update queen.pipelines p
  set
    state = $3, queues = $4::text[], position = $5::text::xid8, lag_messages = $6, lag_seconds = $7, batch_id = $8,
    batch_millis = $9, rows_per_second = $10, rows_total = $11, detail = $12::text::jsonb, error = $13,
    held_back_by = $14, updated_at = queen.now()
  from before b
  where p.name = b.name
  returning p.name, p.lag_messages, p.lag_seconds, p.batch_millis, p.updated_at,
    greatest(coalesce(p.rows_total, 0) - b.rows, 0) as rows,
    greatest(coalesce((p.detail ->> 'dropped')::bigint, 0) - b.late, 0) as late
), sampled as (
  insert into queen.pipeline_samples as s (name, minute, rows, late, lag_messages, lag_seconds, batch_millis)
  select r.name, date_trunc('minute', r.updated_at), r.rows, r.late, r.lag_messages, r.lag_seconds, r.batch_millis
  from reported r
  on conflict (name, minute) do update
  set
    rows = s.rows + excluded.rows, late = s.late + excluded.late, lag_messages = excluded.lag_messages,
    lag_seconds = excluded.lag_seconds, batch_millis = greatest(s.batch_millis, excluded.batch_millis)
)
select r.name from reported r;

-- name: pipeline_series
-- The history of a pipeline from $2 to $3, in buckets of $4 seconds. Buckets without reports are missing.
select
  date_bin(make_interval(secs => $4::double precision), s.minute, 'epoch') as t,
  sum(s.rows)::double precision / $4::double precision as rows_per_second,
  sum(s.late)::bigint as late, max(s.lag_messages) as lag_messages, max(s.lag_seconds) as lag_seconds,
  max(s.batch_millis) as batch_millis
from queen.pipeline_samples s
where s.name = $1 and s.minute >= $2 and s.minute < $3
group by 1
order by 1;

-- name: pipeline_lag
-- The size of queues, by name or id, from a transaction on; messages are null if there are too many segments.
select
  array(
    select q.name
    from queen.queues q
    where (q.name = any ($1::text[]) or q.id = any ($2::bigint[])) and q.deleted_at is null
    order by q.name
  ) as queues,
  case when max(s.segments) <= $4 then coalesce(sum(s.messages), 0)::bigint end as messages,
  case when count(*) > 0 then
    coalesce(greatest(extract(epoch from queen.now() - min(s.oldest_at)), 0), 0)
  end::double precision as seconds
from queen.queues q
cross join lateral (
  select count(*) as segments, sum(n.message_count) as messages, min(n.created_at) as oldest_at
  from (
    select s.message_count, s.created_at
    from queen.segments s
    where s.queue_id = q.id and s.xid >= $3::text::xid8 and s.body is not null
    order by s.xid
    limit $4 + 1
  ) n
) s
where (q.name = any ($1::text[]) or q.id = any ($2::bigint[])) and q.deleted_at is null;

-- name: is_held_back
-- Whether queues, by name or id, have messages of transactions $3 to $4, or from $3 on, that wait for an older open one.
select exists (
  select 1
  from (select pg_snapshot_xmin(pg_current_snapshot()) as xid) h
  cross join queen.queues q
  cross join lateral (
    select s.xid
    from queen.segments s
    where s.queue_id = q.id
      and s.xid >= greatest(h.xid, $3::text::xid8)
      and s.xid < coalesce($4::text::xid8, '18446744073709551615'::xid8)
      and s.body is not null
    limit 1
  ) s
  where (q.name = any ($1::text[]) or q.id = any ($2::bigint[])) and q.deleted_at is null
) as is_held_back;

-- name: newest
-- The number that the next transaction gets.
select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xid;

-- name: list_pipelines
-- Pipelines by name, after one; $4: patterns that match all of their queues. A stale pipeline has stopped reporting.
select
  p.name, p.kind, p.queues, p.target, p.state,
  p.state in ('running', 'idle') and p.updated_at < queen.now() - make_interval(secs => $3) as stale,
  p.position::text::bigint as position, p.lag_messages, p.lag_seconds, p.batch_id, p.batch_millis,
  p.rows_per_second, coalesce(p.rows_before + p.rows_total, nullif(p.rows_before, 0)) as rows_total, p.detail, p.error, p.ui_url,
  p.started_at, p.updated_at, p.held_back_by
from queen.pipelines p
where p.name > $1
  and ($4::text[] is null or (
    p.queues <> '{}'
    and not exists (
      select 1
      from unnest(p.queues) n (name)
      left join queen.queues q on q.name = n.name and q.deleted_at is null
      where not queen.sees(n.name, q.namespace, $4)
    )
  ))
order by p.name
limit $2;

-- name: pipeline
-- One pipeline.
select
  p.name, p.kind, p.queues, p.target, p.state,
  p.state in ('running', 'idle') and p.updated_at < queen.now() - make_interval(secs => $2) as stale,
  p.position::text::bigint as position, p.lag_messages, p.lag_seconds, p.batch_id, p.batch_millis,
  p.rows_per_second, coalesce(p.rows_before + p.rows_total, nullif(p.rows_before, 0)) as rows_total, p.detail, p.error, p.ui_url,
  p.started_at, p.updated_at, p.held_back_by
from queen.pipelines p
where p.name = $1;

-- name: queues_of_pipelines
-- Pipelines by name, with the queues that they read.
select p.name, p.queues from queen.pipelines p where p.name = any ($1);

-- name: pipeline_lags
-- Pipelines that have not ended, newest first.
select p.name, p.lag_messages, p.lag_seconds, p.updated_at
from queen.pipelines p
where p.state in ('running', 'idle')
order by p.updated_at desc
limit $1;

-- name: touch_pipelines
-- Renew the rows of idle pipelines, each with its run, and add their lag to the samples of this minute.
with renewed as (
  update queen.pipelines p
  set updated_at = queen.now()
  from unnest($1::text[], $2::text[]) r (name, run_id)
  where p.name = r.name and p.run_id = r.run_id::uuid
  returning p.name, p.lag_messages, p.lag_seconds, p.updated_at
)
insert into queen.pipeline_samples as s (name, minute, rows, late, lag_messages, lag_seconds)
select r.name, date_trunc('minute', r.updated_at), 0, 0, r.lag_messages, r.lag_seconds
from renewed r
order by r.name
on conflict (name, minute) do nothing;
