-- Store rows of the history, at most 1,000 per call. Returns how many were written.
--
-- p_rows: a JSON array. The keys are the columns. An existing row is replaced only by one that includes as much or more: up
-- to the same or a later transaction, and no fewer events and samples, because counters and samples expire. The number of
-- pushed messages never falls, because retention removes messages from the log. Deleted and moved queues are left out.
-- Locks: the queues, so that they are not erased meanwhile; rollups by key.
create or replace function queen.roll_up (p_rows jsonb)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_written bigint;
begin
  insert into queen.rollups as k (
    queue_id, grain_seconds, at, group_id, "group", pushed, bytes, duplicates, popped, acked, nacked, dead_lettered,
    expired, evicted, leases_expired, wait_bins, wait_counts, processing_bins, processing_counts, samples, depth_sum,
    depth_max, depth_last, oldest_age_seconds, xid
  )
  select
    r.queue_id, r.grain_seconds, r.at, r.group_id, r."group", r.pushed, r.bytes, r.duplicates, r.popped, r.acked,
    r.nacked, r.dead_lettered, r.expired, r.evicted, r.leases_expired, r.wait_bins, r.wait_counts, r.processing_bins,
    r.processing_counts, r.samples, r.depth_sum, r.depth_max, r.depth_last, r.oldest_age_seconds, r.xid
  from jsonb_populate_recordset(null::queen.rollups, p_rows) r
  join queen.queues q on q.id = r.queue_id and q.deleted_at is null and queen.owns_slot(q.slot)
  order by r.queue_id, r.grain_seconds, r.at, r.group_id
  limit 1000
  for key share of q
  on conflict (queue_id, grain_seconds, at, group_id) do update
  set
    "group" = coalesce(excluded."group", k."group"),
    pushed = greatest(excluded.pushed, k.pushed), bytes = greatest(excluded.bytes, k.bytes),
    duplicates = excluded.duplicates, popped = excluded.popped, acked = excluded.acked, nacked = excluded.nacked,
    dead_lettered = excluded.dead_lettered, expired = excluded.expired, evicted = excluded.evicted,
    leases_expired = excluded.leases_expired, wait_bins = excluded.wait_bins, wait_counts = excluded.wait_counts,
    processing_bins = excluded.processing_bins, processing_counts = excluded.processing_counts,
    samples = excluded.samples, depth_sum = excluded.depth_sum, depth_max = excluded.depth_max,
    depth_last = excluded.depth_last, oldest_age_seconds = excluded.oldest_age_seconds, xid = excluded.xid
  where k.xid <= excluded.xid
    and k.samples <= excluded.samples
    and k.duplicates + k.popped + k.acked + k.nacked + k.dead_lettered + k.expired + k.evicted + k.leases_expired
      <= excluded.duplicates + excluded.popped + excluded.acked + excluded.nacked + excluded.dead_lettered
        + excluded.expired + excluded.evicted + excluded.leases_expired;
  get diagnostics v_written = row_count;
  return v_written;
end
$$;

-- The input of one rollup: minutes from start_at to end_at, whose messages transactions from start_xid to end_xid stored,
-- and earlier late minutes, of which only counters are read.
--
-- The function is stable, so that it uses one snapshot: end_xid is the oldest open transaction in the snapshot that shows
-- the late minutes, and the clock is read after it was taken. A run begins fifteen minutes before the end of the last one,
-- because counters stored ten minutes late or more are listed in late_minutes. The first run begins with the oldest data.
create or replace function queen.plan_rollup (p_since timestamptz)
  returns table (
    start_at timestamptz, end_at timestamptz, start_xid bigint, end_xid bigint, late timestamptz[], planned_at timestamptz
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_xid  xid8 := pg_snapshot_xmin(pg_current_snapshot());
  v_mark queen.rollup_marks;
begin
  end_xid := v_xid::text::bigint;
  planned_at := queen.now();
  end_at := date_trunc('minute', planned_at, 'UTC');
  select m.* into v_mark from queen.rollup_marks m order by m.at desc limit 1;
  if found then
    start_at := least(
      p_since,
      v_mark.at - interval '15 minutes',
      -- A transaction that was open for longer than that.
      (
        select min(f.created_at)
        from queen.queues q
        cross join lateral (
          select min(s.created_at) as created_at
          from queen.segments s
          where s.queue_id = q.id and s.xid >= v_mark.xid and s.xid < v_xid and s.body is not null
        ) f
      )
    );
  else
    start_at := least(
      p_since, end_at, (select min(c.minute) from queen.counters c), (select min(s.minute) from queen.samples s),
      (
        select min(f.created_at)
        from queen.queues q
        cross join lateral (
          select s.created_at
          from queen.segments s
          where s.queue_id = q.id and s.body is not null
          order by s.xid
          limit 1
        ) f
      )
    );
  end if;
  start_at := date_trunc('minute', start_at, 'UTC');
  -- Five minutes allow for a clock that was set back.
  select m.xid::text::bigint into start_xid
  from queen.rollup_marks m
  where m.at <= start_at - interval '5 minutes'
  order by m.at desc
  limit 1;
  start_xid := coalesce(start_xid, 0);
  late := array(
    select l.minute from queen.late_minutes l where l.minute < start_at and l.xid < v_xid order by l.minute
  );
  return next;
end
$$;

-- Finish a run: the next one begins where this one was planned to end, and its late minutes are deleted.
-- One mark per hour is kept, for a month. Locks: late minutes.
create or replace function queen.mark_rollup (p_planned_at timestamptz, p_xid xid8)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  insert into queen.rollup_marks (at, xid) values (p_planned_at, p_xid) on conflict (at) do nothing;
  delete from queen.rollup_marks m
  where m.at < p_planned_at - interval '30 days'
    or m.at < p_planned_at - interval '1 hour'
    and exists (
      select 1
      from queen.rollup_marks o
      where o.at < m.at and date_trunc('hour', o.at, 'UTC') = date_trunc('hour', m.at, 'UTC')
    );
  delete from queen.late_minutes l
  where l.minute in (
    select o.minute from queen.late_minutes o where o.xid < p_xid order by o.minute for update skip locked
  );
end
$$;

-- Delete rows of a grain that began p_seconds ago or earlier, at most p_limit. Returns how many. Locks: rollups.
create or replace function queen.forget_rollups (p_grain_seconds integer, p_seconds double precision, p_limit integer)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
declare
  v_cut     timestamptz := queen.now() - make_interval(secs => p_seconds);
  v_removed bigint;
begin
  delete from queen.rollups r
  where r.ctid = any (array(
    select o.ctid
    from queen.rollups o
    where o.grain_seconds = p_grain_seconds and o.at < v_cut
    order by o.at
    limit p_limit
    for update skip locked
  ));
  get diagnostics v_removed = row_count;
  return v_removed;
end
$$;
