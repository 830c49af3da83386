-- Send a signal to a workflow. Waiting steps are settled, steps that have not begun store it.
--
-- Each step takes the first signal with its name, so a repeated signal changes nothing. Returns how many steps wait for such a
-- signal, how many took it, and whether the run has ended. Raises QN020 if there is no such workflow. Locks: the run.
create or replace function queen.signal_workflow (
  p_id text, p_signal text, p_outcome text, p_data json, out steps integer, out taken integer, out has_ended boolean
)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now     timestamptz;
  v_state   text;
  v_waiting text[];
begin
  v_state := (select w.state from queen.workflows w where w.id = p_id for no key update);
  if v_state is null then
    raise exception 'workflow % does not exist', p_id using errcode = 'QN020';
  end if;
  v_now := queen.now();
  taken := 0;
  steps := (
    select count(*) from queen.workflow_steps s where s.workflow_id = p_id and s.kind = 'signal' and s.signal = p_signal
  );
  if v_state = 'running' then
    v_waiting := array(
      select s.name
      from queen.workflow_steps s
      where s.workflow_id = p_id and s.kind = 'signal' and s.signal = p_signal and s.state = 'waiting'
      order by s.ordinal
    );
    update queen.workflow_steps s
    set signal_outcome = p_outcome, signal_data = coalesce(p_data, 'null')
    where s.workflow_id = p_id and s.kind = 'signal' and s.signal = p_signal and s.signal_outcome is null
      and s.state in ('pending', 'waiting');
    get diagnostics taken = row_count;
    if cardinality(v_waiting) > 0 then
      perform queen.settle_steps(
        p_id, '{}', v_waiting,
        array_fill(case when p_outcome = 'success' then 'completed' else 'failed' end, array[cardinality(v_waiting)]),
        array_fill(
          case when p_outcome = 'success' then coalesce(p_data, 'null') end, array[cardinality(v_waiting)]
        ),
        array_fill(
          case when p_outcome <> 'success' then queen.refusal_of(p_signal, p_data) end, array[cardinality(v_waiting)]
        ),
        v_now
      );
    end if;
  end if;
  has_ended := (select w.ended_at is not null from queen.workflows w where w.id = p_id);
end
$$;
