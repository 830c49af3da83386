-- Store an event that a consumer recorded for a message. Returns its id. Locks: the slot.
create or replace function queen.add_trace (
  p_partition_id   bigint,
  p_transaction_id text,
  p_group          text,
  p_event_type     text,
  p_names          text[],
  p_data           bytea
)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_id bigint;
begin
  perform queen.enter(array[p_partition_id]);
  insert into queen.traces (partition_id, transaction_id, "group", event_type, names, data, created_at)
  values (p_partition_id, p_transaction_id, p_group, p_event_type, p_names, p_data, queen.now())
  returning id into v_id;
  insert into queen.trace_names (name, trace_id)
  select distinct n.name, v_id from unnest(p_names) n (name);
  return v_id;
end
$$;
