-- Truncate the generation of a class of keys that no window reaches any more. Returns true if it contained keys.
--
-- A truncate waits for running users of the keys and makes all later ones wait, so it has a short timeout and the next call
-- tries again. Raises QN016. Locks: the task; the generation, exclusive, with a short timeout.
create or replace function queen.forget_generation (p_epoch bigint, p_class integer)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now        timestamptz;
  v_generation smallint;
  v_table      text;
  v_pages      bigint;
  v_has_keys   boolean := false;
  v_newest     timestamptz;
begin
  perform queen.hold_duty('dedup', p_epoch);
  v_now := queen.now();
  v_generation := queen.dedup_generation(p_class, v_now, 2);
  -- The longest window has passed since rows were stored for these partitions.
  delete from queen.dedup_rows r
  where r.ctid = any (array(
    select o.ctid
    from queen.dedup_rows o
    where o.at < v_now - make_interval(secs => queen.dedup_length(3))
    order by o.at
    limit 1000
    for update skip locked
  ));
  foreach v_table in array array['dedup', 'dedup_blocks'] loop
    v_pages := pg_relation_size(format('queen.%s_%s', v_table, v_generation)::regclass)
      / current_setting('block_size')::integer;
    continue when v_pages = 0;
    v_has_keys := true;
    -- Keys are mostly appended, so the newest are at the end. If the clock went back, no valid key may be lost.
    if v_table = 'dedup' then
      select max(d.at) into v_newest
      from queen.dedup d
      where d.generation = v_generation and d.ctid >= format('(%s,0)', greatest(v_pages - 8, 0))::tid;
    else
      select max(b.at) into v_newest
      from queen.dedup_blocks b
      where b.generation = v_generation and b.ctid >= format('(%s,0)', greatest(v_pages - 8, 0))::tid;
    end if;
    if v_newest > v_now - make_interval(secs => queen.dedup_length(p_class)) then
      return false;
    end if;
  end loop;
  if not v_has_keys then
    return false;
  end if;
  begin
    perform set_config('lock_timeout', '50ms', true);
    case v_generation
      when 0 then truncate queen.dedup_0, queen.dedup_blocks_0;
      when 1 then truncate queen.dedup_1, queen.dedup_blocks_1;
      when 2 then truncate queen.dedup_2, queen.dedup_blocks_2;
      when 3 then truncate queen.dedup_3, queen.dedup_blocks_3;
      when 4 then truncate queen.dedup_4, queen.dedup_blocks_4;
      when 5 then truncate queen.dedup_5, queen.dedup_blocks_5;
      when 6 then truncate queen.dedup_6, queen.dedup_blocks_6;
      when 7 then truncate queen.dedup_7, queen.dedup_blocks_7;
      when 8 then truncate queen.dedup_8, queen.dedup_blocks_8;
      when 9 then truncate queen.dedup_9, queen.dedup_blocks_9;
      when 10 then truncate queen.dedup_10, queen.dedup_blocks_10;
      when 11 then truncate queen.dedup_11, queen.dedup_blocks_11;
    end case;
  exception when lock_not_available then
    return false;
  end;
  return true;
end
$$;

-- Delete producers without a request for p_seconds, among the next p_limit after p_after.
--
-- Keeps producers that stand for files of a buffer until the call end_buffers marks the files as deleted.
-- Returns how many were visited, how many were deleted, and the last one. Raises QN016. Locks: the task, producers.
create or replace function queen.forget_producers (
  p_epoch   bigint,
  p_seconds double precision,
  p_after   text,
  p_limit   integer
)
  returns table (looked integer, removed integer, last text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_cut timestamptz := queen.now() - make_interval(secs => p_seconds);
begin
  perform queen.hold_duty('producers', p_epoch);
  return query
  with next as materialized (
    select p.ctid, p.producer_id, p.at
    from queen.producers p
    where p.producer_id > coalesce(p_after, '')
    order by p.producer_id
    -- Include all scopes of the last producer, because the next call continues after its id.
    fetch first p_limit rows with ties
  ),
  gone as (
    delete from queen.producers p
    using (
      select p.producer_id, p.scope, p.sequence
      from next n
      cross join lateral (
        select p.producer_id, p.scope, p.sequence
        from queen.producers p
        where p.ctid = n.ctid
          and p.at < v_cut
          and (p.scope <> '' or not starts_with(p.producer_id, '__buffer:') or p.sequence = 9223372036854775807)
        for update skip locked
      ) p
      where n.at < v_cut
    ) k
    where p.producer_id = k.producer_id and p.scope = k.scope and p.sequence = k.sequence
    returning 1
  )
  select (select count(*) from next)::integer, (select count(*) from gone)::integer, (select max(n.producer_id) from next n);
end
$$;

-- Delete events that were recorded p_seconds ago or earlier, at most p_limit. Returns how many. Raises QN016.
-- Locks: the task, traces.
create or replace function queen.forget_traces (p_epoch bigint, p_seconds double precision, p_limit integer)
  returns integer
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_cut   timestamptz := queen.now() - make_interval(secs => p_seconds);
  v_ids   bigint[];
begin
  perform queen.hold_duty('traces', p_epoch);
  v_ids := array(
    select t.id
    from (select t.id, t.created_at from queen.traces t order by t.id limit p_limit) t
    where t.created_at < v_cut
  );
  delete from queen.trace_names n
  using (
    select t.id, u.name from queen.traces t cross join lateral unnest(t.names) u (name) where t.id = any (v_ids)
  ) k
  where n.name = k.name and n.trace_id = k.id;
  delete from queen.traces t where t.id = any (v_ids);
  return cardinality(v_ids);
end
$$;

-- Delete records of removals made p_seconds ago or earlier, at most p_limit. Returns how many. Raises QN016.
-- Locks: the task, removals.
create or replace function queen.forget_removals (p_epoch bigint, p_seconds double precision, p_limit integer)
  returns integer
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_cut timestamptz := queen.now() - make_interval(secs => p_seconds);
  v_ids bigint[];
begin
  perform queen.hold_duty('retention', p_epoch);
  v_ids := array(
    select r.id
    from (select r.id, r.removed_at from queen.removals r order by r.id limit p_limit) r
    where r.removed_at < v_cut
  );
  insert into queen.forgotten_removals as f (queue_id, xid, partition_id, end_offset, by_xid)
  select
    r.queue_id, (r.last).xid, (r.last).partition_id, (r.last).end_offset, r.by_xid
  from (
    select
      r.queue_id, max(r.by_xid::text::bigint)::text::xid8 as by_xid,
      (array_agg(r order by r.xid desc, r.partition_id desc, r.end_offset desc))[1] as last
    from queen.removals r
    where r.id = any (v_ids) and r.xid is not null
    group by r.queue_id
  ) r
  order by r.queue_id
  on conflict (queue_id) do update
  set
    (xid, partition_id, end_offset) = (
      select w.xid, w.partition_id, w.end_offset
      from (
        values (f.xid, f.partition_id, f.end_offset), (excluded.xid, excluded.partition_id, excluded.end_offset)
      ) w (xid, partition_id, end_offset)
      order by w.xid desc, w.partition_id desc, w.end_offset desc
      limit 1
    ),
    by_xid = greatest(f.by_xid, excluded.by_xid);
  delete from queen.removals r where r.id = any (v_ids);
  return cardinality(v_ids);
end
$$;

-- Delete counters and samples, also of pipelines, from p_seconds ago or earlier, at most p_limit of each. Returns how many.
-- Raises QN016.
-- Deletes late minutes too, because only a rollup would delete them otherwise.
-- Locks: the task, counters, samples, samples of pipelines, late minutes.
create or replace function queen.forget_counters (p_epoch bigint, p_seconds double precision, p_limit integer)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_cut       timestamptz := queen.now() - make_interval(secs => p_seconds);
  v_counters  bigint;
  v_samples   bigint;
  v_pipelines bigint;
begin
  perform queen.hold_duty('counters', p_epoch);
  delete from queen.counters c
  where c.ctid = any (array(
    select o.ctid from queen.counters o where o.minute < v_cut order by o.minute limit p_limit
  ));
  get diagnostics v_counters = row_count;
  delete from queen.samples s
  where s.ctid = any (array(
    select o.ctid from queen.samples o where o.minute < v_cut order by o.minute limit p_limit
  ));
  get diagnostics v_samples = row_count;
  delete from queen.pipeline_samples s
  where s.ctid = any (array(
    select o.ctid from queen.pipeline_samples o where o.minute < v_cut order by o.minute limit p_limit
  ));
  get diagnostics v_pipelines = row_count;
  delete from queen.late_minutes l where l.minute < v_cut;
  return v_counters + v_samples + v_pipelines;
end
$$;
