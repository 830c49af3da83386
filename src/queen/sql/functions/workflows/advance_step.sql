-- Finish one step, or one part of it, as success, failure, or cancelled if its message was removed. The caller has locked the
-- run. Returns `advanced`, `ended` or `stale`.
create or replace function queen.advance_step (
  p_id       text,
  p_name     text,
  p_part     integer,
  p_token    uuid,
  p_outcome  text,
  p_result   json,
  p_error    text,
  p_attempts integer,
  p_now      timestamptz
)
  returns text
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_step   queen.workflow_steps;
  v_state  text := case p_outcome when 'success' then 'completed' when 'failure' then 'failed' else 'cancelled' end;
  v_result json := case when p_outcome = 'success' then coalesce(p_result, 'null') end;
  v_error  text := case when p_outcome = 'failure' then coalesce(p_error, 'no reason given') end;
begin
  select s.* into v_step
  from queen.workflow_steps s
  where s.workflow_id = p_id and s.name = p_name and s.state = 'active' and s.token = p_token;
  if not found or (v_step.kind = 'map') <> (p_part is not null) then
    return 'stale';
  end if;
  if v_step.kind = 'map' then
    update queen.workflow_parts p
    set state = v_state, result = v_result, error = v_error, attempts = p_attempts, outbox_id = null, ended_at = p_now
    where p.workflow_id = p_id and p.step = p_name and p.part = p_part and p.state = 'active';
    if not found then
      return 'stale';
    end if;
    update queen.workflow_steps s
    set open_parts = s.open_parts - 1, failed_parts = s.failed_parts + (v_state = 'failed')::integer
    where s.workflow_id = p_id and s.name = p_name
    returning s.* into v_step;
    if v_step.open_parts > 0 then
      return 'advanced';
    end if;
    select r.state, r.result, r.error into v_state, v_result, v_error
    from queen.reduce_parts(p_id, p_name, v_step.failed_parts) r;
  else
    update queen.workflow_steps s set attempts = p_attempts where s.workflow_id = p_id and s.name = p_name;
  end if;
  perform queen.settle_steps(p_id, '{}', array[p_name], array[v_state], array[v_result], array[v_error], p_now);
  return case
    when exists (select 1 from queen.workflows w where w.id = p_id and w.ended_at is not null) then 'ended'
    else 'advanced'
  end;
end
$$;
