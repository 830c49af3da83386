-- Start a workflow: create the run, its steps, and the messages of its first steps, in one transaction.
--
-- p_steps: an array of objects with the columns of a step. The caller has checked that names are unique, targets exist and
-- there is no cycle. p_templates and p_items: the JSON values of the user, in the same order. They are separate, because they
-- may contain text that SQL can store but not parse.
-- Returns whether it is new. A repeated call with the same digest is not, and changes nothing. Raises QN021 if another
-- workflow has this id. Locks: the new run.
create or replace function queen.start_workflow (
  p_id             text,
  p_name           text,
  p_digest         bytea,
  p_metadata       json,
  p_correlation_id text,
  p_tags           text[],
  p_headers        json,
  p_trace_id       text,
  p_steps          json,
  p_templates      text[],
  p_items          text[]
)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := queen.now();
begin
  insert into queen.workflows (
    id, name, digest, metadata, correlation_id, tags, headers, trace_id, open_steps, created_at
  )
  select
    p_id, p_name, p_digest, p_metadata, p_correlation_id, coalesce(p_tags, '{}'), p_headers, p_trace_id,
    (select count(*) from json_array_elements(p_steps) e (step) where e.step ->> 'kind' <> 'undo'), v_now
  on conflict (id) do nothing;
  if not found then
    if not exists (select 1 from queen.workflows w where w.id = p_id and w.digest = p_digest) then
      raise exception 'another workflow has the id %', p_id using errcode = 'QN021';
    end if;
    return false;
  end if;
  insert into queen.workflow_steps (
    workflow_id, name, ordinal, kind, queue, partition, template, priority, delay_seconds, items, items_of, signal,
    timeout_seconds, undoes, on_success, on_failure, needs_all, sources, waits_for
  )
  select
    p_id, s.name, e.ordinal, s.kind, s.queue, coalesce(s.partition, 'Default'), p_templates[e.ordinal]::json, s.priority,
    s.delay_seconds, p_items[e.ordinal]::json, s.items_of, s.signal, s.timeout_seconds, s.undoes, coalesce(s.on_success, '{}'),
    coalesce(s.on_failure, '{}'), s.needs_all or s.sources = 0, s.sources, s.sources
  from json_array_elements(p_steps) with ordinality e (step, ordinal)
  cross join lateral json_to_record(e.step) s (
    name text, kind text, queue text, partition text, priority integer, delay_seconds double precision,
    items_of text, signal text, timeout_seconds double precision, undoes text, on_success text[], on_failure text[], needs_all boolean, sources integer
  );
  perform queen.settle_steps(p_id, array(
    select s.name from queen.workflow_steps s where s.workflow_id = p_id and s.sources = 0 and s.kind <> 'undo'
  ), '{}', '{}', '{}', '{}', v_now);
  return true;
end
$$;
