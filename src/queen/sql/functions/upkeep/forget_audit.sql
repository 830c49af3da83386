-- Delete records of the audit log that are p_seconds old or older, at most p_limit, the oldest first. Returns how many.
-- Raises QN016, and data_corrupted if the chain is broken: records that prove a forgery are never deleted.
--
-- It runs with the rights of its owner, because the app itself must not delete records. For the same reason it never deletes
-- records younger than 30 days.
-- Locks: the task, audit_start, audit.
create or replace function queen.forget_audit (p_epoch bigint, p_seconds double precision, p_limit integer)
  returns integer
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_start   record;
  v_row     record;
  v_cut     timestamptz;
  v_removed integer := 0;
begin
  perform queen.hold_duty('audit', p_epoch);
  select s.id, s.hash into v_start from queen.audit_start s for no key update;
  v_cut := queen.now() - greatest(make_interval(secs => p_seconds), interval '30 days');
  for v_row in select a.id, a.at, a.record, a.hash from queen.audit a order by a.id limit p_limit loop
    exit when v_row.at > v_cut;
    if v_row.id <> v_start.id + 1 or v_row.hash <> queen.audit_hash(v_start.hash, v_row.id, v_row.at, v_row.record) then
      raise exception 'the audit log is broken at record %; see `queen audit verify`', v_start.id + 1
        using errcode = 'data_corrupted';
    end if;
    v_start.id := v_row.id;
    v_start.hash := v_row.hash;
    v_removed := v_removed + 1;
  end loop;
  if v_removed > 0 then
    delete from queen.audit a where a.id <= v_start.id;
    update queen.audit_start s set id = v_start.id, hash = v_start.hash;
  end if;
  return v_removed;
end
$$;
