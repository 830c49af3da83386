-- The history of queues by minute, hour and day: its input, its rows, and time series.

-- name: plan_rollup
-- The minutes and transactions that a run must read.
select start_at, end_at, start_xid, end_xid, late, planned_at from queen.plan_rollup($1);

-- name: rollup_log
-- Messages pushed by transactions from $1 to $2, one row per queue and minute from $3 to $4.
select
  floor(extract(epoch from s.created_at) / 60)::bigint * 60 as at, q.id as queue_id, sum(s.message_count)::bigint as pushed,
  sum(s.bytes)::bigint as bytes
from queen.queues q
cross join lateral (
  select s.created_at, s.message_count, octet_length(s.body) as bytes
  from queen.segments s
  where s.queue_id = q.id and s.xid >= $1::bigint::text::xid8 and s.xid < $2::bigint::text::xid8 and s.body is not null
  offset 0
) s
where q.deleted_at is null and s.created_at >= $3 and s.created_at < $4
group by 1, 2;

-- name: rollup_counters
-- Counters from $1 to $2; pushed messages only where messages stored by transactions from $3 on were removed from the log.
select
  extract(epoch from c.minute)::bigint as at, c.queue_id, c.group_id,
  (select g.name from queen.groups g where g.id = c.group_id) as "group",
  case
    when c.pushed > 0 and exists (
      select 1 from queen.removals r where r.queue_id = c.queue_id and r.xid >= $3::bigint::text::xid8
      union all
      select 1 from queen.forgotten_removals f where f.queue_id = c.queue_id and f.xid >= $3::bigint::text::xid8
    ) then c.pushed
    else 0
  end as counted,
  c.duplicates, c.popped, c.acked, c.nacked, c.dead_lettered, c.expired, c.evicted, c.leases_expired, c.wait_bins,
  c.wait_counts, c.processing_bins, c.processing_counts
from queen.counters c
where c.minute >= $1 and c.minute < $2;

-- name: rollup_samples
-- Samples from $1 to $2.
select
  extract(epoch from s.minute)::bigint as at, s.queue_id, s.group_id,
  (select g.name from queen.groups g where g.id = s.group_id) as "group",
  1::bigint as samples, s.depth as depth_sum, s.depth as depth_max, s.depth as depth_last, s.oldest_age_seconds
from queen.samples s
where s.minute >= $1 and s.minute < $2;

-- name: rollups
-- Rows of a grain from $2 to $3.
select
  extract(epoch from r.at)::bigint as at, r.queue_id, r.group_id, r."group", r.pushed, r.bytes, r.duplicates, r.popped,
  r.acked, r.nacked, r.dead_lettered, r.expired, r.evicted, r.leases_expired, r.wait_bins, r.wait_counts,
  r.processing_bins, r.processing_counts, r.samples::bigint as samples, r.depth_sum, r.depth_max, r.depth_last,
  r.oldest_age_seconds, r.xid::text::bigint as xid
from queen.rollups r
where r.grain_seconds = $1 and r.at >= $2 and r.at < $3;

-- name: roll_up
-- Store rows, unless the existing ones include more events; returns how many were written.
select queen.roll_up($1) as written;

-- name: mark_rollup
-- Finish a run.
select queen.mark_rollup($1, $2::bigint::text::xid8);

-- name: forget_rollups
-- Delete some old rows of a grain.
select queen.forget_rollups($1, $2, $3) as removed;

-- name: rollup_reach
-- How far back each grain goes; null if it is empty.
select g.grain_seconds, o.at
from unnest(array[60, 3600, 86400]) g (grain_seconds)
left join lateral (
  select r.at from queen.rollups r where r.grain_seconds = g.grain_seconds order by r.at limit 1
) o on true;

-- name: rollup_series
-- Values of a grain in time buckets; null for any group. Values that were not counted are null.
select
  floor(extract(epoch from r.at) / $3)::bigint * $3 as t,
  sum(r.pushed)::bigint as pushed,
  sum(r.duplicates) filter (where r.samples > 0 or r.duplicates > 0)::bigint as duplicates,
  sum(r.popped) filter (where r.samples > 0 or r.popped > 0)::bigint as popped,
  sum(r.acked) filter (where r.samples > 0 or r.acked > 0)::bigint as acked,
  sum(r.nacked) filter (where r.samples > 0 or r.nacked > 0)::bigint as nacked,
  sum(r.dead_lettered) filter (where r.samples > 0 or r.dead_lettered > 0)::bigint as dead_lettered,
  sum(r.expired) filter (where r.samples > 0 or r.expired > 0)::bigint as expired,
  sum(r.evicted) filter (where r.samples > 0 or r.evicted > 0)::bigint as evicted,
  sum(r.leases_expired) filter (where r.samples > 0 or r.leases_expired > 0)::bigint as leases_expired
from queen.rollups r
where r.queue_id = any ($4::bigint[]) and r.grain_seconds = $6 and r.at >= $1 and r.at < $2
  and ($5::text is null or r."group" = $5)
group by 1
order by 1;

-- name: rollup_latencies
-- Histograms of waiting and processing times of a grain in time buckets.
select
  floor(extract(epoch from r.at) / $3)::bigint * $3 as t, b.is_wait, b.bin, sum(b.count)::bigint as count
from queen.rollups r
cross join lateral (
  select true as is_wait, w.bin, w.count from unnest(r.wait_bins, r.wait_counts) w (bin, count)
  union all
  select false, p.bin, p.count from unnest(r.processing_bins, r.processing_counts) p (bin, count)
) b
where r.queue_id = any ($4::bigint[]) and r.grain_seconds = $6 and r.at >= $1 and r.at < $2
  and ($5::text is null or r."group" = $5)
group by 1, 2, 3
order by 1;

-- name: rollup_depths
-- Depth, lag and oldest age of a grain in time buckets: the mean of a bucket, the highest age.
select
  m.t, sum(m.depth) filter (where m.group_id = 0)::double precision as depth,
  sum(m.depth) filter (where m.group_id <> 0)::double precision as lag, max(m.oldest_age_seconds) as oldest_age_seconds
from (
  select
    floor(extract(epoch from r.at) / $3)::bigint * $3 as t, r.queue_id, r.group_id,
    sum(r.depth_sum) / nullif(sum(r.samples), 0) as depth, max(r.oldest_age_seconds) as oldest_age_seconds
  from queen.rollups r
  where r.queue_id = any ($4::bigint[]) and r.grain_seconds = $6 and r.at >= $1 and r.at < $2
    and ($5::text is null or r."group" = $5)
  group by 1, 2, 3
) m
group by 1
order by 1;

-- name: rollup_totals
-- Totals of each of these queues in a time range, from a grain. Values that were not counted are null.
select
  r.queue_id,
  sum(r.pushed)::bigint as pushed,
  sum(r.duplicates) filter (where r.samples > 0 or r.duplicates > 0)::bigint as duplicates,
  sum(r.popped) filter (where r.samples > 0 or r.popped > 0)::bigint as popped,
  sum(r.acked) filter (where r.samples > 0 or r.acked > 0)::bigint as acked,
  sum(r.nacked) filter (where r.samples > 0 or r.nacked > 0)::bigint as nacked,
  sum(r.dead_lettered) filter (where r.samples > 0 or r.dead_lettered > 0)::bigint as dead_lettered,
  sum(r.expired) filter (where r.samples > 0 or r.expired > 0)::bigint as expired,
  sum(r.evicted) filter (where r.samples > 0 or r.evicted > 0)::bigint as evicted,
  sum(r.leases_expired) filter (where r.samples > 0 or r.leases_expired > 0)::bigint as leases_expired
from queen.rollups r
where r.queue_id = any ($3::bigint[]) and r.grain_seconds = $4 and r.at >= $1 and r.at < $2
group by 1;

-- name: rollup_queue_latencies
-- Histograms of each of these queues over a time range, from a grain.
select r.queue_id, b.is_wait, b.bin, sum(b.count)::bigint as count
from queen.rollups r
cross join lateral (
  select true as is_wait, w.bin, w.count from unnest(r.wait_bins, r.wait_counts) w (bin, count)
  union all
  select false, p.bin, p.count from unnest(r.processing_bins, r.processing_counts) p (bin, count)
) b
where r.queue_id = any ($3::bigint[]) and r.grain_seconds = $4 and r.at >= $1 and r.at < $2
group by 1, 2, 3;
