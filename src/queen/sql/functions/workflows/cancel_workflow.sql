-- Cancel a workflow: no step begins any more, and messages that are still in the outbox are deleted.
--
-- Waits for leased messages, as after a failed step. Then completed steps are undone, unless p_is_undone is false, and
-- the run ends as cancelled. Returns whether it was running, whether it has ended, and how many steps are still active. A run
-- that is being undone, or has ended, does not change.
-- Raises QN020 if there is no such workflow. Locks: the run, then its messages in the outbox by id.
create or replace function queen.cancel_workflow (
  p_id text, p_reason text, p_is_undone boolean, out was_running boolean, out has_ended boolean, out open_steps integer
)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_run   queen.workflows;
  v_now   timestamptz;
  v_taken bigint[];
  v_names text[];
begin
  select w.* into v_run from queen.workflows w where w.id = p_id for no key update;
  if not found then
    raise exception 'workflow % does not exist', p_id using errcode = 'QN020';
  end if;
  v_now := queen.now();
  was_running := v_run.state in ('running', 'stopping');
  if was_running then
    update queen.workflows w
    set state = 'stopping', is_cancelled = true, is_undone = p_is_undone, error = coalesce(p_reason, w.error, 'cancelled')
    where w.id = p_id;
    with taken as (
      delete from queen.outbox o
      where o.id in (
        select o.id
        from queen.outbox o
        where o.id in (
          select s.outbox_id from queen.workflow_steps s where s.workflow_id = p_id and s.state = 'active'
          union all
          select p.outbox_id from queen.workflow_parts p where p.workflow_id = p_id and p.state = 'active'
        )
        order by o.id
        for update skip locked
      )
      returning o.id
    )
    select array_agg(t.id) into v_taken from taken t;
    update queen.workflow_parts p
    set state = 'cancelled', outbox_id = null, ended_at = v_now
    where p.workflow_id = p_id and p.state = 'active' and p.outbox_id = any (v_taken);
    update queen.workflow_steps s
    set open_parts = (
      select count(*)
      from queen.workflow_parts p
      where p.workflow_id = p_id and p.step = s.name and p.state = 'active'
    )
    where s.workflow_id = p_id and s.kind = 'map' and s.state = 'active';
    v_names := array(
      select s.name
      from queen.workflow_steps s
      where s.workflow_id = p_id and s.kind <> 'undo'
        and (s.state in ('pending', 'waiting') or s.outbox_id = any (v_taken) or s.state = 'active' and s.open_parts = 0)
      order by s.ordinal
    );
    perform queen.settle_steps(
      p_id, '{}', v_names, array_fill('cancelled'::text, array[cardinality(v_names)]),
      array(
        select case when s.parts > 0 then (select r.result from queen.reduce_parts(p_id, s.name, 0) r) end
        from queen.workflow_steps s
        where s.workflow_id = p_id and s.name = any (v_names)
        order by s.ordinal
      ),
      '{}', v_now
    );
  end if;
  select w.ended_at is not null, w.open_steps into has_ended, open_steps from queen.workflows w where w.id = p_id;
end
$$;

-- Finish steps of a stopping run, or parts of them, whose messages were removed. Returns whether the run has ended.
-- Raises QN020 if there is no such workflow. Locks: the run.
create or replace function queen.drop_steps (p_id text, p_steps text[], p_parts integer[], p_tokens uuid[])
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz;
begin
  perform 1 from queen.workflows w where w.id = p_id for no key update;
  if not found then
    raise exception 'workflow % does not exist', p_id using errcode = 'QN020';
  end if;
  v_now := queen.now();
  perform queen.advance_step(p_id, d.step, d.part, d.token, 'cancelled', null, null, null, v_now)
  from unnest(p_steps, p_parts, p_tokens) d (step, part, token);
  return (select w.ended_at is not null from queen.workflows w where w.id = p_id);
end
$$;
