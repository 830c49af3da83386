-- Delete a message that is not due yet, and its key, so that it can be pushed again. Returns false if there is none.
-- Locks: the slot, the message.
create or replace function queen.withdraw (p_scheduled_id bigint)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_key bytea;
begin
  perform queen.enter(array(select s.partition_id from queen.scheduled s where s.id = p_scheduled_id));
  delete from queen.scheduled s where s.id = p_scheduled_id returning s.key into v_key;
  if not found then
    return false;
  end if;
  perform queen.forget_keys(array[v_key]);
  return true;
end
$$;
