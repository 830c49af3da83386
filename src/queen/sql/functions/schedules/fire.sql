-- Push the messages of due ticks and advance their schedules in one transaction, so that each tick is pushed exactly once.
--
-- p_names: the schedules. p_ticks: the tick that each waits for. p_lasts: the last tick that is pushed now, or null. p_nexts:
-- the tick after that, or null at the end. The others are the arguments of push. Returns the rows of push, or `schedule` if a
-- schedule waits for another tick. In that case, and if push stored nothing, no schedule changes.
-- Locks: the slots of the schedules' queues, schedules by name, then those of push.
create or replace function queen.fire (
  p_names                   text[],
  p_ticks                   timestamptz[],
  p_lasts                   timestamptz[],
  p_nexts                   timestamptz[],
  p_partition_ids           bigint[],
  p_counts                  integer[],
  p_bodies                  bytea[],
  p_ends                    bytea[],
  p_extras                  bytea[],
  p_ttls                    double precision[],
  p_keys                    bytea,
  p_key_entries             integer[],
  p_key_places              integer[],
  p_key_counts              integer[],
  p_producers               text[],
  p_sequences               bigint[],
  p_scheduled_partition_ids bigint[],
  p_scheduled_delays        double precision[],
  p_scheduled_dues          timestamptz[],
  p_scheduled_payloads      bytea[],
  p_scheduled_extras        bytea[],
  p_scheduled_ttls          double precision[],
  p_max_delay               double precision
)
  returns table (kind text, ordinal integer, "offset" bigint, created_at timestamptz, xid bigint, code text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_row       record;
  v_is_stored boolean := true;
begin
  perform queen.enter_named(array(select s.queue from queen.schedules s where s.name = any (p_names)));
  perform 1
  from (
    select s.name from queen.schedules s where s.name = any (p_names) order by s.name for no key update
  ) l;
  if exists (
    select 1
    from unnest(p_names, p_ticks) t (name, tick)
    where not exists (select 1 from queen.schedules s where s.name = t.name and s.next_at = t.tick)
  ) then
    return query select 'schedule', 1, null::bigint, null::timestamptz, null::bigint, null::text;
    return;
  end if;
  for v_row in
    select p.*
    from queen.push(
      p_partition_ids, p_counts, p_bodies, p_ends, p_extras, p_ttls, p_keys, p_key_entries, p_key_places,
      p_key_counts, p_producers, p_sequences, p_scheduled_partition_ids, p_scheduled_delays, p_scheduled_dues,
      p_scheduled_payloads, p_scheduled_extras, p_scheduled_ttls, p_max_delay
    ) p
  loop
    return query select v_row.kind, v_row.ordinal, v_row."offset", v_row.created_at, v_row.xid, v_row.code;
    v_is_stored := v_is_stored and v_row.kind = 'stored';
  end loop;
  if v_is_stored then
    update queen.schedules s
    set next_at = t.next, look_at = t.next, last_at = coalesce(t.last, s.last_at), error = null
    from unnest(p_names, p_lasts, p_nexts) t (name, last, next)
    where s.name = t.name;
  end if;
end
$$;

-- Find due schedules, except those of queues that have moved. Only the leader gets them. Without a leader, the caller leads for
-- p_seconds.
--
-- A row without a name contains the seconds to wait: until the next tick, or until the leader's lease ends. No row: there are
-- no schedules to wait for. Locks: scheduler, only if a schedule is due.
create or replace function queen.due_schedules (p_holder bigint, p_seconds double precision, p_limit integer)
  returns table (
    name text, queue text, partition text, cron text, time_zone text, missed text, message bytea, next_at timestamptz,
    now timestamptz, wait_seconds double precision
  )
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now   timestamptz := queen.now();
  v_next  timestamptz;
  v_until timestamptz;
begin
  v_next := (
    select s.look_at
    from queen.schedules s
    where s.look_at is not null and not exists (select 1 from queen.moved_queues(array[s.queue]))
    order by s.look_at
    limit 1
  );
  if v_next is null then
    return;
  end if;
  v_until := (select a.until from queen.scheduler a where a.holder <> p_holder and a.until > v_now);
  if v_until is null and v_next <= v_now then
    insert into queen.scheduler as a (holder, until)
    values (p_holder, v_now + make_interval(secs => p_seconds))
    on conflict (is_only) do update
    set holder = excluded.holder, until = excluded.until
    where a.holder = excluded.holder or a.until <= v_now;
    if found then
      return query
      select s.name, s.queue, s.partition, s.cron, s.time_zone, s.missed, s.message, s.next_at, v_now, 0::double precision
      from queen.schedules s
      where s.look_at <= v_now and not exists (select 1 from queen.moved_queues(array[s.queue]))
      order by s.look_at, s.name
      limit p_limit;
      return;
    end if;
    v_until := v_now + make_interval(secs => p_seconds);
  end if;
  return query
  select
    null::text, null::text, null::text, null::text, null::text, null::text, null::bytea, null::timestamptz, v_now,
    extract(epoch from greatest(v_until, v_next) - v_now)::double precision;
end
$$;
