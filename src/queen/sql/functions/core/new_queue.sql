-- A queues row as JSON with every default. Values in p_defaults override them.
create or replace function queen.new_queue (p_defaults jsonb)
  returns jsonb
  language sql
  volatile
as $$
  select queen.default_options() || coalesce(p_defaults, '{}') || jsonb_build_object(
    'id', nextval('queen.queues_id_seq'), 'namespace', '', 'task', '', 'version', 1, 'created_at', queen.now(), 'levels', array[0], 'in_order',
    coalesce(p_defaults -> 'ordered', queen.default_options() -> 'ordered')
  )
$$;
