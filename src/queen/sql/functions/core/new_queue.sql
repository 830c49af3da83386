-- A new row of queues with every default, not stored yet. Values in p_defaults override the defaults.
--
-- Where there are several databases, the queue needs a home. The first database decides it, and creates all spread queues.
-- Raises QN018 if another database does not know the home, or the spread queue. Raises QN006 if the queue can't be spread.
create or replace function queen.new_queue (p_name text, p_namespace text, p_defaults jsonb)
  returns queen.queues
  language plpgsql
  volatile
as $$
declare
  v_options jsonb := queen.default_options() || coalesce(p_defaults, '{}');
  v_queue   queen.queues := jsonb_populate_record(null::queen.queues, v_options);
  v_home    queen.homes;
begin
  if exists (select 1 from queen.databases d where d.is_here and d.number = 0) then
    perform queen.claim_homes(array[p_name], array[p_namespace], array[v_queue.placement = 'spread']);
  end if;
  select h.* into v_home from queen.homes h where h.name = p_name;
  if found and v_home.slot is null then
    v_queue.placement := 'spread';
  elsif found and v_queue.placement = 'spread' then
    raise exception 'the name % was used with placement home, and a name keeps its placement', p_name using errcode = 'QN006';
  end if;
  if v_home.slot is null and not queen.is_first() then
    raise exception 'queue % has no home', p_name using errcode = 'QN018';
  end if;
  if v_queue.placement = 'spread' and exists (select 1 from queen.slots s where s.slot = 1 and not s.is_open) then
    raise exception 'placement spread needs all slots, and this database opens them when another one joins it'
      using errcode = 'QN006';
  end if;
  v_queue.id := nextval('queen.queues_id_seq');
  v_queue.name := p_name;
  v_queue.namespace := coalesce(p_namespace, '');
  v_queue.slot := case when v_queue.placement <> 'spread' then queen.home_slot(v_queue.name, v_queue.namespace) end;
  v_queue.task := '';
  v_queue.version := 1;
  v_queue.created_at := queen.now();
  v_queue.levels := array[0];
  v_queue.in_order := v_queue.ordered;
  return v_queue;
end
$$;
