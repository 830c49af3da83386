-- Counters of processes, samples, and time series of both.

-- name: count
-- Store the counters of a process for one minute; returns the clock.
select queen.count($1, $2, $3) as now;

-- name: lead_sampling
-- Become or stay the leader that samples, for $2 seconds. For the leader, with the last success of each background task.
select l.is_leader, d.name, d.last_success_at, d.lag_seconds
from queen.lead_sampling($1, $2) l (is_leader)
left join queen.duties d on l.is_leader and d.last_success_at is not null;

-- name: sample
-- Measure queues after an id and store the samples; one row per queue and one per group.
select
  queue_id, group_id, queue, "group", paused, depth, oldest_age_seconds, deliveries, dead_letters, scheduled, bytes,
  ready_partitions, leased_partitions, idle_partitions, is_exact
from queen.sample($1, $2, $3);

-- name: counter_series
-- Counters in time buckets; null for any queue, namespace, task or group.
select
  floor(extract(epoch from c.minute) / $3)::bigint * $3 as t,
  sum(c.pushed)::bigint as pushed, sum(c.duplicates)::bigint as duplicates, sum(c.popped)::bigint as popped,
  sum(c.acked)::bigint as acked, sum(c.nacked)::bigint as nacked, sum(c.dead_lettered)::bigint as dead_lettered,
  sum(c.expired)::bigint as expired, sum(c.evicted)::bigint as evicted,
  sum(c.leases_expired)::bigint as leases_expired
from queen.counters c
where c.minute >= $1 and c.minute < $2
  and c.queue_id = any ($4::bigint[])
  and ($5::text is null or c.group_id = any (array(
    select g.id from queen.groups g where g.queue_id = c.queue_id and g.name = $5
  )))
group by 1
order by 1;

-- name: latency_series
-- Histograms of waiting and processing times in time buckets.
select
  floor(extract(epoch from c.minute) / $3)::bigint * $3 as t, b.is_wait, b.bin, sum(b.count)::bigint as count
from queen.counters c
cross join lateral (
  select true as is_wait, w.bin, w.count from unnest(c.wait_bins, c.wait_counts) w (bin, count)
  union all
  select false, p.bin, p.count from unnest(c.processing_bins, c.processing_counts) p (bin, count)
) b
where c.minute >= $1 and c.minute < $2
  and c.queue_id = any ($4::bigint[])
  and ($5::text is null or c.group_id = any (array(
    select g.id from queen.groups g where g.queue_id = c.queue_id and g.name = $5
  )))
group by 1, 2, 3
order by 1;

-- name: depth_series
-- Depth, lag and oldest age in time buckets: the mean of a bucket, the highest age.
select
  m.t, avg(m.depth)::double precision as depth, avg(m.lag)::double precision as lag,
  max(m.oldest_age_seconds) as oldest_age_seconds
from (
  select
    floor(extract(epoch from s.minute) / $3)::bigint * $3 as t, s.minute,
    sum(s.depth) filter (where s.group_id = 0) as depth,
    sum(s.depth) filter (where s.group_id <> 0) as lag,
    max(s.oldest_age_seconds) as oldest_age_seconds
  from queen.samples s
  where s.minute >= $1 and s.minute < $2
    and s.queue_id = any ($4::bigint[])
    and ($5::text is null or s.group_id = any (array(
      select g.id from queen.groups g where g.queue_id = s.queue_id and g.name = $5
    )))
  group by 1, 2
) m
group by 1
order by 1;

-- name: queue_totals
-- Counts of each of these queues in a time range.
select
  c.queue_id,
  sum(c.pushed)::bigint as pushed, sum(c.duplicates)::bigint as duplicates, sum(c.popped)::bigint as popped,
  sum(c.acked)::bigint as acked, sum(c.nacked)::bigint as nacked, sum(c.dead_lettered)::bigint as dead_lettered,
  sum(c.expired)::bigint as expired, sum(c.evicted)::bigint as evicted,
  sum(c.leases_expired)::bigint as leases_expired
from queen.counters c
where c.minute >= $1 and c.minute < $2 and c.queue_id = any ($3::bigint[])
group by 1;

-- name: queue_latencies
-- Histograms of each of these queues over a time range.
select c.queue_id, b.is_wait, b.bin, sum(b.count)::bigint as count
from queen.counters c
cross join lateral (
  select true as is_wait, w.bin, w.count from unnest(c.wait_bins, c.wait_counts) w (bin, count)
  union all
  select false, p.bin, p.count from unnest(c.processing_bins, c.processing_counts) p (bin, count)
) b
where c.minute >= $1 and c.minute < $2 and c.queue_id = any ($3::bigint[])
group by 1, 2, 3;

-- name: newest_samples
-- The newest samples of queues, at most ten minutes old.
select
  q.id as queue_id, q.name as queue, q.namespace, q.task, q.paused, g.name as "group", s.group_id, s.depth,
  s.oldest_age_seconds, s.deliveries, s.dead_letters, s.scheduled, s.bytes, s.ready_partitions, s.leased_partitions,
  s.idle_partitions, s.is_exact, s.sampled_at
from queen.queues q
cross join lateral (
  select max(s.minute) as minute
  from queen.samples s
  where s.queue_id = q.id and s.minute > queen.now() - interval '10 minutes'
) m
cross join lateral (
  select s.* from queen.samples s where s.queue_id = q.id and s.minute = m.minute
) s
left join queen.groups g on g.id = s.group_id
where q.deleted_at is null and ($1::bigint[] is null or q.id = any ($1))
order by q.name, s.group_id
limit 10000;
