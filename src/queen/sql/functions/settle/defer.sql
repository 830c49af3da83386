-- End leases whose messages could not be delivered to a consumer. They can be claimed again after p_seconds.
--
-- The engine calls this for messages that it cannot decode, so that the next search claims other messages. The attempt
-- is not counted. An ordered partition waits behind the delivery, as it does behind a failed attempt.
-- Returns one row per request, in request order: its group, or QN002 if (id, token) is no longer the current lease.
-- Locks: the slots, deliveries by id.
create or replace function queen.defer (p_ids bigint[], p_tokens uuid[], p_seconds double precision)
  returns table (ordinal integer, group_id bigint, code text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  return query select g.* from queen.give_back(p_ids, p_tokens, p_seconds) g;
end
$$;
