-- Take back the end of leases that were just granted, from offset p_ends on. No attempt is counted.
--
-- On an ordered queue the messages wait behind the rest of the lease. On an unordered queue they are available now.
-- If no message is left before the offset, for example because they were redacted, the lease ends.
-- Returns one row per request, in request order: its group, or QN002 if (id, token) is no longer the current lease.
-- Commits asynchronously, as the claim did. Locks: the slots, deliveries by id.
create or replace function queen.shorten (p_ids bigint[], p_tokens uuid[], p_ends bigint[])
  returns table (ordinal integer, group_id bigint, code text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_request  record;
  v_delivery queen.deliveries;
  v_stays    int8multirange;
begin
  perform queen.enter(p_ids);
  perform set_config('synchronous_commit', 'off', true);
  for v_request in
    select a.*
    from unnest(p_ids, p_tokens, p_ends) with ordinality a (id, token, "end", ordinal)
    order by a.id
  loop
    select d.* into v_delivery
    from queen.deliveries d
    where d.id = v_request.id and d.token = v_request.token and d.held
    for no key update;
    if not found then
      return query select v_request.ordinal::integer, null::bigint, 'QN002';
      continue;
    end if;
    v_stays := v_delivery.pending * int8multirange(int8range(null, v_request."end"));
    if isempty(v_stays) then
      -- An ack of this lease would settle messages behind the offset, which were not delivered.
      perform queen.give_back(array[v_delivery.id], array[v_delivery.token], 0);
      return query select v_request.ordinal::integer, null::bigint, 'QN002';
      continue;
    end if;
    if v_delivery.head is null and v_stays <> v_delivery.pending then
      if v_delivery.ordered then
        update queen.deliveries d
        set out_end = least(d.out_end, v_request."end")
        where d.id = v_delivery.id;
      else
        insert into queen.deliveries (id, group_id, partition_id, priority, pending, until, held, ordered)
        values (
          queen.delivery_id(v_delivery.partition_id), v_delivery.group_id, v_delivery.partition_id, v_delivery.priority,
          v_delivery.pending - v_stays, queen.now(), false, false
        );
        update queen.deliveries d set pending = v_stays where d.id = v_delivery.id;
      end if;
    end if;
    return query select v_request.ordinal::integer, v_delivery.group_id, null::text;
  end loop;
end
$$;
