-- Messages per second of a queue, over the full minutes that cover the last p_seconds plus the current minute. Null if the
-- queue has no counters.
create or replace function queen.queue_rates (p_queue_id bigint, p_seconds double precision)
  returns table (pushed_per_second double precision, popped_per_second double precision)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
  v_now   timestamptz := queen.now();
  v_since timestamptz := date_trunc('minute', v_now - make_interval(secs => p_seconds), 'UTC');
begin
  if exists (select 1 from queen.counters c where c.queue_id = p_queue_id) then
    select coalesce(sum(c.pushed), 0) / s.seconds, coalesce(sum(c.popped), 0) / s.seconds
    into pushed_per_second, popped_per_second
    from (select extract(epoch from v_now - v_since)::double precision as seconds) s
    left join queen.counters c on c.queue_id = p_queue_id and c.minute >= v_since
    group by s.seconds;
  end if;
  return next;
end
$$;

-- When a group last received messages, from its newest counters. Null if they contain no pop.
create or replace function queen.last_pop_at (p_group_id bigint)
  returns timestamptz
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
as $$
begin
  return max(c.popped_at)
  from (
    select c.popped_at
    from queen.counters c
    where c.group_id = p_group_id and c.group_id <> 0
    order by c.minute desc
    -- One row per process, which is a small number.
    limit 100
  ) c;
end
$$;
