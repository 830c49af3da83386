-- Delete expired results, at most p_limit. Returns how many. Raises QN016.
-- Locks: the task, results; skips locked rows.
create or replace function queen.forget_results (p_epoch bigint, p_limit integer)
  returns integer
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now     timestamptz := queen.now();
  v_removed integer;
begin
  perform queen.hold_duty('results', p_epoch);
  with old as materialized (
    select r.ctid
    from queen.results r
    where r.expires_at <= v_now
    order by r.expires_at
    limit p_limit
    for update skip locked
  )
  delete from queen.results r using old o where r.ctid = o.ctid;
  get diagnostics v_removed = row_count;
  return v_removed;
end
$$;
