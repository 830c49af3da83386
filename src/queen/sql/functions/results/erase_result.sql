-- Delete the result of a message. Locks: the slot, results.
create or replace function queen.erase_result (p_partition_id bigint, p_transaction_id text)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  perform queen.enter(array[p_partition_id]);
  delete from queen.results r
  where r.queue_id = (select p.queue_id from queen.partitions p where p.id = p_partition_id)
    and r.transaction_id = p_transaction_id;
end
$$;
