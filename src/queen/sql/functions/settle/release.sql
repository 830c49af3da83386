-- Give back at once, uncounted, what is left of deliveries.
--
-- Answers one row a request, in the order asked: its group, or the refusal QN002. Locks: deliveries by id.
create or replace function queen.release (p_ids bigint[], p_tokens uuid[])
  returns table (ordinal integer, group_id bigint, code text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
begin
  perform 1 from (select d.id from queen.deliveries d where d.id = any (p_ids) order by d.id for no key update) l;
  v_now := queen.now();
  return query
  with released as (
    update queen.deliveries d
    set id = nextval('queen.delivery_ids'), token = gen_random_uuid(), held = false, out_end = null, until = v_now
    from (
      select a.ordinal, d.ctid
      from unnest(p_ids, p_tokens) with ordinality a (id, token, ordinal)
      cross join lateral (
        select d.ctid from queen.deliveries d where d.id = a.id and d.token = a.token and d.held offset 0
      ) d
    ) a
    where d.ctid = a.ctid
    returning a.ordinal, d.group_id
  )
  select a.ordinal::integer, r.group_id, case when r.ordinal is null then 'QN002' end
  from unnest(p_ids) with ordinality a (id, ordinal)
  left join released r on r.ordinal = a.ordinal
  order by a.ordinal;
end
$$;
