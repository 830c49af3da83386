-- Delete dead letters. Returns how many existed. Locks: slots; dead letters, in the same order as a redrive locks them.
create or replace function queen.purge_dead_letters (p_ids bigint[])
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_count bigint;
begin
  perform queen.enter(array(select l.partition_id from queen.dead_letters l where l.id = any (p_ids)));
  perform 1
  from (
    select l.id
    from queen.dead_letters l
    where l.id = any (p_ids)
    order by l.partition_id, l.group_id, l."offset"
    for update
  ) l;
  delete from queen.dead_letters l where l.id = any (p_ids);
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
