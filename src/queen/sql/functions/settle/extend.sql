-- Extend leases to p_seconds from now, or to the queue's lease time if null. Never shortens a lease.
--
-- Returns one row per request, in request order: the new expiry, or QN002 if (id, token) is no longer the current lease.
-- A lease that expired but was not redelivered yet can still be extended. Locks: the slots, deliveries by id.
create or replace function queen.extend (p_ids bigint[], p_tokens uuid[], p_seconds double precision[])
  returns table (ordinal integer, until timestamptz, code text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
begin
  perform queen.enter(p_ids);
  perform 1 from (select d.id from queen.deliveries d where d.id = any (p_ids) order by d.id for no key update) l;
  -- Read the clock after the lock wait, which must not shorten the lease.
  v_now := queen.now();
  return query
  with moved as (
    update queen.deliveries d
    set until = greatest(d.until, v_now + make_interval(secs => coalesce(a.seconds, (
      select q.lease_seconds
      from queen.groups g
      join queen.queues q on q.id = g.queue_id
      where g.id = d.group_id
    ))))
    from (
      select a.ordinal, a.seconds, d.ctid
      from unnest(p_ids, p_tokens, p_seconds) with ordinality a (id, token, seconds, ordinal)
      cross join lateral (
        select d.ctid from queen.deliveries d where d.id = a.id and d.token = a.token and d.held offset 0
      ) d
    ) a
    where d.ctid = a.ctid
    returning a.ordinal, d.until
  )
  select a.ordinal::integer, m.until, case when m.ordinal is null then 'QN002' end
  from unnest(p_ids) with ordinality a (id, ordinal)
  left join moved m on m.ordinal = a.ordinal
  order by a.ordinal;
end
$$;
