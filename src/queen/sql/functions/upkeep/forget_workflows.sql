-- Delete workflows that ended more than p_seconds ago: at most p_limit runs, and as many parts of maps. Returns the number
-- of rows. Raises QN016. Locks: the task, workflows (skips locked rows).
create or replace function queen.forget_workflows (p_epoch bigint, p_seconds double precision, p_limit integer)
  returns integer
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_ids   text[];
  v_parts integer;
  v_runs  integer := 0;
begin
  perform queen.hold_duty('ended_workflows', p_epoch);
  v_ids := array(
    select w.id
    from queen.workflows w
    where w.ended_at < queen.now() - make_interval(secs => p_seconds)
    order by w.ended_at
    limit p_limit
    for update skip locked
  );
  delete from queen.workflow_parts p
  where p.ctid = any (array(
    select p.ctid from queen.workflow_parts p where p.workflow_id = any (v_ids) limit p_limit
  ));
  get diagnostics v_parts = row_count;
  if v_parts < p_limit then
    v_runs := queen.remove_workflows(v_ids);
  end if;
  return v_parts + v_runs;
end
$$;

-- Delete one workflow that has ended. Raises QN020 if it does not exist, QN023 if it is running. Locks: the run.
create or replace function queen.delete_workflow (p_id text)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state text;
begin
  v_state := (select w.state from queen.workflows w where w.id = p_id for update);
  if v_state is null then
    raise exception 'workflow % does not exist', p_id using errcode = 'QN020';
  elsif v_state not in ('completed', 'failed', 'cancelled') then
    raise exception 'workflow % is %: cancel it first', p_id, v_state using errcode = 'QN023';
  end if;
  delete from queen.workflow_parts p where p.workflow_id = p_id;
  perform queen.remove_workflows(array[p_id]);
end
$$;

-- Delete runs without parts that the caller has locked. Returns how many.
create or replace function queen.remove_workflows (p_ids text[])
  returns integer
  language plpgsql
  volatile
as $$
declare
  v_count integer;
begin
  delete from queen.workflow_steps s where s.workflow_id = any (p_ids);
  delete from queen.workflows w where w.id = any (p_ids);
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
