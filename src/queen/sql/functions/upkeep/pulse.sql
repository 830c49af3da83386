-- Record that a process is running. Return the active maintenance modes and the newest redaction.
-- Writes at most every four seconds. Deletes processes that did not report for a day.
-- p_address: the URL at which clients reach it. p_preferred: the databases that it prefers. Null: unknown, all.
create or replace function queen.pulse_v2 (
  p_id        text,
  p_host      text,
  p_pid       integer,
  p_version   text,
  p_waiters   integer,
  p_address   text,
  p_preferred text[]
)
  returns table (is_push_off boolean, is_pop_off boolean, redaction bigint, has_orphans boolean)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := queen.now();
begin
  if not exists (
    select 1 from queen.instances i where i.id = p_id and i.seen_at > v_now - interval '4 seconds' and i.seen_at <= v_now
  ) then
    insert into queen.instances (id, host, pid, version, started_at, seen_at, waiters, address, preferred)
    values (p_id, p_host, p_pid, p_version, v_now, v_now, p_waiters, p_address, p_preferred)
    on conflict (id) do update set seen_at = excluded.seen_at, waiters = excluded.waiters;
    delete from queen.instances i where i.seen_at < v_now - interval '1 day';
    update queen.operations o set seen_at = v_now where o.owner = p_id and o.state = 'running';
  end if;
  return query
  select
    exists (select 1 from queen.maintenance m where m.mode = 'push' and m.enabled),
    exists (select 1 from queen.maintenance m where m.mode = 'pop' and m.enabled),
    coalesce((select r.id from queen.redactions r order by r.id desc limit 1), 0),
    exists (
      select 1 from queen.operations o where o.state = 'running' and o.seen_at < v_now - interval '15 seconds'
    );
end
$$;

-- The same for servers of the last release.
create or replace function queen.pulse (p_id text, p_host text, p_pid integer, p_version text, p_waiters integer)
  returns table (is_push_off boolean, is_pop_off boolean, redaction bigint, has_orphans boolean)
  language sql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
  select p.is_push_off, p.is_pop_off, p.redaction, p.has_orphans
  from queen.pulse_v2(p_id, p_host, p_pid, p_version, p_waiters, null, null) p
$$;
