-- End leases without counting an attempt. The messages can be claimed again immediately.
--
-- Returns one row per request, in request order: its group, or QN002 if (id, token) is no longer the current lease.
-- Locks: the slots, deliveries by id.
create or replace function queen.release (p_ids bigint[], p_tokens uuid[])
  returns table (ordinal integer, group_id bigint, code text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  return query select g.* from queen.give_back(p_ids, p_tokens, 0) g;
end
$$;
