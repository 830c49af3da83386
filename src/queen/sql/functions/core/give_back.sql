-- End leases without counting an attempt. The messages can be claimed again after p_seconds.
--
-- Returns one row per request, in request order: its group, or QN002 if (id, token) is no longer the current lease.
-- Locks: the slots, deliveries by id.
create or replace function queen.give_back (p_ids bigint[], p_tokens uuid[], p_seconds double precision)
  returns table (ordinal integer, group_id bigint, code text)
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_due timestamptz;
begin
  perform queen.enter(p_ids);
  perform 1 from (select d.id from queen.deliveries d where d.id = any (p_ids) order by d.id for no key update) l;
  v_due := queen.now() + make_interval(secs => p_seconds);
  return query
  with ended as (
    update queen.deliveries d
    set id = queen.delivery_id(d.partition_id), token = gen_random_uuid(), held = false, out_end = null, until = v_due
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
  select a.ordinal::integer, e.group_id, case when e.ordinal is null then 'QN002' end
  from unnest(p_ids) with ordinality a (id, ordinal)
  left join ended e on e.ordinal = a.ordinal
  order by a.ordinal;
end
$$;
