-- Homes: the slot of each queue, decided once per name in the first database.

-- Decide the slots of queues that have none. Returns the slot of each, or null if the queue is spread.
--
-- p_are_spread: whether to spread each queue that has none, null for no.
-- A queue joins the others of its namespace that are in this database, because they may be older than the hashed slots.
-- Locks: the slots, shared, so that a slot with a new home is not given away as an empty one.
create or replace function queen.claim_homes (p_names text[], p_namespaces text[], p_are_spread boolean[] default null)
  returns table (name text, slot smallint)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  c_class constant integer := hashtext('queen.slot');
  v_slots smallint[];
  v_names text[];
begin
  select array_agg(n.name order by n.name), array_agg(n.slot order by n.name) into v_names, v_slots
  from (
    select distinct on (n.name) n.name, case when n.is_spread is not true then coalesce(
      (
        select q.slot
        from queen.queues q
        where n.namespace <> '' and q.namespace = n.namespace and q.deleted_at is null and q.slot is not null
        limit 1
      ),
      queen.home_slot(n.name, n.namespace)
    ) end as slot
    from unnest(p_names, p_namespaces, p_are_spread) n (name, namespace, is_spread)
    where not exists (select 1 from queen.homes h where h.name = n.name)
    order by n.name
  ) n;
  perform pg_advisory_xact_lock_shared(c_class, s.slot)
  from (select distinct s as slot from unnest(v_slots) s order by s) s;
  insert into queen.homes (name, slot)
  select n.name, n.slot
  from unnest(v_names, v_slots) n (name, slot)
  on conflict do nothing;
  return query select h.name, h.slot from queen.homes h where h.name = any (p_names);
end
$$;

-- Store the slots that the first database decided, so that queues can be created here.
create or replace function queen.copy_homes (p_names text[], p_slots smallint[])
  returns void
  language sql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
  insert into queen.homes (name, slot)
  select n.name, n.slot
  from unnest(p_names, p_slots) n (name, slot)
  order by n.name
  on conflict do nothing
$$;
