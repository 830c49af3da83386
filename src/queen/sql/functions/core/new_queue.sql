-- A new row of queues with every default, not stored yet. Values in p_defaults override the defaults.
--
-- Where there are several databases, the queue needs a home. Raises QN018 if the first database has not decided it yet.
create or replace function queen.new_queue (p_name text, p_namespace text, p_defaults jsonb)
  returns queen.queues
  language plpgsql
  volatile
as $$
declare
  v_options jsonb := queen.default_options() || coalesce(p_defaults, '{}');
  v_queue   queen.queues := jsonb_populate_record(null::queen.queues, v_options);
begin
  if exists (select 1 from queen.databases d where d.is_here and d.number = 0) then
    perform queen.claim_homes(array[p_name], array[p_namespace]);
  elsif exists (select 1 from queen.databases)
    and not exists (select 1 from queen.homes h where h.name = p_name)
  then
    raise exception 'queue % has no home', p_name using errcode = 'QN018';
  end if;
  v_queue.id := nextval('queen.queues_id_seq');
  v_queue.name := p_name;
  v_queue.namespace := coalesce(p_namespace, '');
  v_queue.slot := queen.home_slot(v_queue.name, v_queue.namespace);
  v_queue.task := '';
  v_queue.version := 1;
  v_queue.created_at := queen.now();
  v_queue.levels := array[0];
  v_queue.in_order := v_queue.ordered;
  return v_queue;
end
$$;
