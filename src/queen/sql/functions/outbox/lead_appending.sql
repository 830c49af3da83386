-- Become or stay the leader that moves the outbox, for p_seconds, awake or about to sleep. Returns false if another process
-- is the leader.
create or replace function queen.lead_appending (p_holder bigint, p_seconds double precision, p_is_awake boolean)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := queen.now();
begin
  if exists (select 1 from queen.appender a where a.holder <> p_holder and a.until > v_now) then
    return false;
  end if;
  insert into queen.appender as a (holder, until, is_awake)
  values (p_holder, v_now + make_interval(secs => p_seconds), p_is_awake)
  on conflict (is_only) do update
  set holder = excluded.holder, until = excluded.until, is_awake = excluded.is_awake
  where a.holder = excluded.holder or a.until <= v_now;
  return found;
end
$$;
