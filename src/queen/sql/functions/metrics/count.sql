-- Store the counters of a process for one minute. The values are absolute, so a repeated call changes nothing.
--
-- p_rows: a JSON array with one object per queue and group. The keys are the columns. queue_id is missing if the process
-- knows only the group. Deleted queues and groups are left out. A minute that ended over ten minutes ago is also written to
-- late_minutes, because the rollup may have passed it. Returns the clock. Locks: this process's rows; the late minute.
create or replace function queen.count (p_process bigint, p_minute timestamptz, p_rows jsonb)
  returns timestamptz
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  insert into queen.counters as k (
    minute, queue_id, group_id, process, pushed, duplicates, popped, acked, nacked, dead_lettered, expired, evicted,
    leases_expired, popped_at, wait_bins, wait_counts, processing_bins, processing_counts
  )
  select
    p_minute, coalesce(r.queue_id, g.queue_id), r.group_id, p_process, r.pushed, r.duplicates, r.popped, r.acked,
    r.nacked, r.dead_lettered, r.expired, r.evicted, r.leases_expired, r.popped_at, r.wait_bins, r.wait_counts,
    r.processing_bins, r.processing_counts
  from jsonb_populate_recordset(null::queen.counters, p_rows) r
  left join queen.groups g on g.id = r.group_id and r.queue_id is null
  where coalesce(r.queue_id, g.queue_id) is not null
  on conflict (queue_id, minute, group_id, process) do update
  set
    pushed = excluded.pushed, duplicates = excluded.duplicates, popped = excluded.popped, acked = excluded.acked,
    nacked = excluded.nacked, dead_lettered = excluded.dead_lettered, expired = excluded.expired,
    evicted = excluded.evicted, leases_expired = excluded.leases_expired, popped_at = excluded.popped_at, wait_bins = excluded.wait_bins,
    wait_counts = excluded.wait_counts, processing_bins = excluded.processing_bins,
    processing_counts = excluded.processing_counts;
  if p_minute < queen.now() - interval '10 minutes' then
    insert into queen.late_minutes as l (minute, xid)
    values (p_minute, pg_current_xact_id())
    on conflict (minute) do update set xid = greatest(excluded.xid, l.xid);
  end if;
  return queen.now();
end
$$;
