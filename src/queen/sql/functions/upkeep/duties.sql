-- Take the background tasks that are due and have no leader, for p_seconds and under a new epoch. A task that is due at each
-- call and has nothing to do is recorded as a success here, so an idle database gets one statement for all tasks.
-- Locks: their rows; skips locked rows.
create or replace function queen.take_duties (p_holder bigint, p_names text[], p_seconds double precision)
  returns table (name text, epoch bigint, cursor jsonb)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := queen.now();
  v_idle text[] := '{}';
begin
  if not exists (select 1 from queen.scheduled) then
    v_idle := v_idle || 'scheduled'::text;
  end if;
  if not exists (select 1 from queen.workflow_steps s where s.look_at <= v_now) then
    v_idle := v_idle || 'workflows'::text;
  end if;
  if exists (
    select 1 from unnest(p_names) n (name) where not exists (select 1 from queen.duties d where d.name = n.name)
  ) then
    insert into queen.duties (name)
    select n.name from unnest(p_names) n (name) order by n.name
    on conflict do nothing;
  end if;
  update queen.duties d
  set last_run_at = v_now, last_success_at = v_now, seconds = 0, rows = 0, lag_seconds = 0, error = null, cursor = null
  from (
    select d.name
    from queen.duties d
    where d.name = any (v_idle) and d.name = any (p_names) and d.due_at <= v_now
      and (d.until <= v_now or d.holder = p_holder)
      -- Other processes need not record the same again.
      and (d.last_run_at is null or d.last_run_at <= v_now - interval '5 seconds' or d.error is not null)
    order by d.name
    for no key update skip locked
  ) k
  where d.name = k.name;
  return query
  update queen.duties d
  set holder = p_holder, until = v_now + make_interval(secs => p_seconds), epoch = d.epoch + 1
  from (
    select d.name
    from queen.duties d
    where d.name = any (p_names) and d.name <> all (v_idle) and d.due_at <= v_now
      and (d.until <= v_now or d.holder = p_holder)
    order by d.name
    for no key update skip locked
  ) k
  where d.name = k.name
  returning d.name, d.epoch, d.cursor;
end
$$;

-- Record the result of a run and give the task back. It is due again after p_wait seconds. Raises QN016.
create or replace function queen.report_duty (
  p_name    text,
  p_epoch   bigint,
  p_seconds double precision,
  p_rows    bigint,
  p_lag     double precision,
  p_error   text,
  p_cursor  jsonb,
  p_wait    double precision
)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz;
begin
  perform queen.hold_duty(p_name, p_epoch);
  v_now := queen.now();
  update queen.duties d
  set
    until = v_now,
    due_at = v_now + make_interval(secs => p_wait),
    last_run_at = v_now,
    last_success_at = case when p_error is null then v_now else d.last_success_at end,
    seconds = p_seconds,
    rows = p_rows,
    lag_seconds = case when p_error is null then p_lag else d.lag_seconds end,
    error = p_error,
    cursor = case when p_error is null then p_cursor else d.cursor end
  where d.name = p_name;
end
$$;
