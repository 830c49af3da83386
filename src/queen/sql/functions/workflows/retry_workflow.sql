-- Run a workflow that failed or was cancelled again from where it stopped. Completed steps stay completed.
--
-- Steps that begin again: failed steps that led nowhere, cancelled steps, steps that the stop prevented, p_from if given, and
-- all steps that may follow from these. A branch that was not taken stays skipped, and completed steps behind it stay
-- completed. A failed map keeps its completed parts, unless a step before it runs again. If a step could not be undone, the
-- undo is tried again instead.
-- Returns whether the run has ended because no step was left to run. Raises QN020 if there is no such workflow or step, QN022
-- if there is nothing to retry: it has not ended, it completed, or it was undone.
-- Locks: the run.
create or replace function queen.retry_workflow (p_id text, p_from text, out has_ended boolean)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_run   queen.workflows;
  v_now   timestamptz;
  v_undo  queen.workflow_steps;
  v_reset text[];
begin
  select w.* into v_run from queen.workflows w where w.id = p_id for no key update;
  if not found then
    raise exception 'workflow % does not exist', p_id using errcode = 'QN020';
  end if;
  v_now := queen.now();
  if p_from is not null and not exists (
    select 1 from queen.workflow_steps s where s.workflow_id = p_id and s.name = p_from and s.kind <> 'undo'
  ) then
    raise exception 'workflow % has no step %', p_id, p_from using errcode = 'QN020';
  end if;
  if v_run.state not in ('failed', 'cancelled') then
    raise exception 'workflow % is %; only a failed or cancelled one can be retried', p_id, v_run.state
      using errcode = 'QN022';
  end if;

  select s.* into v_undo
  from queen.workflow_steps s
  where s.workflow_id = p_id and s.kind = 'undo' and s.state in ('completed', 'failed')
  order by s.state desc
  limit 1;
  if v_undo.state = 'failed' and p_from is null then
    update queen.workflow_steps s
    set state = 'pending', error = null, ended_at = null
    where s.workflow_id = p_id and s.kind = 'undo' and s.state in ('failed', 'skipped');
    update queen.workflows w set state = 'compensating', ended_at = null where w.id = p_id;
    v_run.state := 'compensating';
    perform queen.end_workflow(v_run, v_now);
  elsif v_undo.state is not null then
    raise exception 'workflow % was undone: start a new one', p_id using errcode = 'QN022';
  else
    v_reset := array(
      with recursive again (name) as (
        select s.name
        from queen.workflow_steps s
        where s.workflow_id = p_id and s.kind <> 'undo'
          and (
            s.name = p_from or s.state = 'cancelled'
            or s.state = 'failed' and s.on_failure = '{}'
            or s.state = 'skipped' and (
              select case when s.needs_all then count(*) = s.sources else count(*) > 0 end
              from queen.leaders_of(p_id, s) l
            )
          )
        union
        select t.name
        from again a
        join queen.workflow_steps s on s.workflow_id = p_id and s.name = a.name
        cross join lateral unnest(s.on_success || s.on_failure) t (name)
      )
      select a.name from again a
    );
    perform queen.reset_steps(p_id, v_reset);
    update queen.workflows w
    set
      state = 'running', is_cancelled = false, is_undone = true, ended_at = null, error = null, result = null,
      open_steps = cardinality(v_reset)
    where w.id = p_id;
    perform queen.settle_steps(p_id, v_reset, '{}', '{}', '{}', '{}', v_now);
  end if;
  has_ended := (select w.ended_at is not null from queen.workflows w where w.id = p_id);
end
$$;

-- Reset steps as if they had never begun. The counters of settled steps that lead to them are computed again.
create or replace function queen.reset_steps (p_id text, p_names text[])
  returns void
  language plpgsql
  volatile
as $$
#variable_conflict use_column
begin
  delete from queen.workflow_parts p
  using queen.workflow_steps s
  where s.workflow_id = p_id and s.name = any (p_names) and s.kind = 'map'
    and p.workflow_id = p_id and p.step = s.name
    and (
      p.state <> 'completed' or s.state = 'completed'
      or exists (
        select 1
        from queen.workflow_steps b
        where b.workflow_id = p_id and b.name = any (p_names) and s.name = any (b.on_success || b.on_failure)
      )
    );
  update queen.workflow_steps s
  set
    state = 'pending', result = null, error = null, place = null, ended_at = null, attempts = null,
    parts = null, open_parts = null, failed_parts = null,
    -- A signal that no attempt has taken is still available.
    signal_outcome = case when s.started_at is null then s.signal_outcome end,
    signal_data = case when s.started_at is null then s.signal_data end,
    started_at = null,
    waits_for = b.open, led_by = b.led
  from (
    select
      t.name,
      count(*) filter (where b.name = any (p_names)) as open,
      count(*) filter (
        where b.name <> all (p_names)
          and (
            b.state = 'completed' and t.name = any (b.on_success)
            or b.state = 'failed' and t.name = any (b.on_failure)
          )
      ) as led
    from unnest(p_names) t (name)
    left join queen.workflow_steps b on b.workflow_id = p_id and t.name = any (b.on_success || b.on_failure)
    group by t.name
  ) b
  where s.workflow_id = p_id and s.name = b.name;
  update queen.workflow_steps s
  set state = 'pending', ended_at = null
  where s.workflow_id = p_id and s.kind = 'undo' and s.state = 'skipped';
end
$$;
