-- Return messages to their group, or acknowledge them one by one. Each request names one message.
--
-- p_kinds: `failed` counts an attempt and applies the backoff, `retry` does neither, `dead` dead-letters now,
-- `completed` settles the message. p_delays: seconds instead of the backoff, or null.
-- In an ordered delivery only the lowest failure of a call counts: the delivery ends there, and its other open messages
-- return without an attempt counted. All `completed` messages of a delivery are settled in one step.
-- Returns one row per request, in request order: when and in how many seconds the message is due again (null if it was
-- dead-lettered or dropped), and whether the delivery ended. Returns QN002 if the lease is not current or belongs to
-- another partition (p_partition_ids null: not checked), or QN010 if the message is settled or was not leased.
-- Completing a message that is settled already succeeds.
-- p_transaction_ids, p_results, p_seconds: the results to store of completed messages, or null. Each such request names its
-- partition. Results of rejected requests are ignored.
-- Locks: the slots, consumers of ordered deliveries, then deliveries by id, then results.
create or replace function queen.nack (
  p_ids             bigint[],
  p_tokens          uuid[],
  p_partition_ids   bigint[],
  p_offsets         bigint[],
  p_kinds           text[],
  p_errors          text[],
  p_delays          double precision[],
  p_transaction_ids text[] default null,
  p_results         bytea[] default null,
  p_seconds         double precision[] default null
)
  returns table (
    ordinal integer, group_id bigint, due_at timestamptz, due_seconds double precision, is_dead boolean,
    is_over boolean, code text
  )
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
  v_queue    queen.queues;
  v_now      timestamptz;
  v_due      timestamptz;
  v_ended    queen.deliveries;
begin
  perform queen.enter(p_ids);
  perform queen.lock_consumers(p_ids, p_tokens);
  perform 1 from (select d.id from queen.deliveries d where d.id = any (p_ids) order by d.id for no key update) l;
  v_now := queen.now();

  -- Settle completed messages while the delivery still exists.
  if 'completed' = any (p_kinds) then
    return query
    select c.*
    from queen.complete(
      p_ids, p_tokens, p_partition_ids, p_offsets, p_kinds, p_transaction_ids, p_results, p_seconds
    ) c;
  end if;
  for v_request in
    select a.*
    from unnest(p_ids, p_tokens, p_partition_ids, p_offsets, p_kinds, p_errors, p_delays)
      with ordinality a (id, token, partition_id, "offset", kind, error, delay, ordinal)
    where a.kind <> 'completed'
    -- Likewise dead-letter messages before a failure ends the delivery.
    order by a.id, a.kind <> 'dead', a."offset"
  loop
    if v_request.id = v_ended.id and v_request.token = v_ended.token
      and v_ended.partition_id = coalesce(v_request.partition_id, v_ended.partition_id)
      and queen.handed_out(v_ended) @> v_request."offset"
    then
      -- The delivery ended at a lower message of this call. This message returns without an attempt counted.
      return query select
        v_request.ordinal::integer, v_ended.group_id, v_now, 0::double precision, false, true, null::text;
      continue;
    end if;
    select d.* into v_delivery
    from queen.deliveries d
    where d.id = v_request.id and d.token = v_request.token and d.held
      and d.partition_id = coalesce(v_request.partition_id, d.partition_id);
    if not found then
      return query select
        v_request.ordinal::integer, null::bigint, null::timestamptz, null::double precision, null::boolean,
        null::boolean, case when v_request.id = v_ended.id and v_request.token = v_ended.token then 'QN010' else 'QN002' end;
      continue;
    end if;
    if not queen.handed_out(v_delivery) @> v_request."offset" then
      return query
      select
        v_request.ordinal::integer, v_delivery.group_id, null::timestamptz, null::double precision, null::boolean,
        false, 'QN010';
      continue;
    end if;
    select q.* into v_queue
    from queen.groups g join queen.queues q on q.id = g.queue_id
    where g.id = v_delivery.group_id;
    v_due := queen.fail(
      v_delivery, v_queue, v_request."offset", v_request.kind, v_request.error, v_request.delay, v_now, v_now
    );
    if v_delivery.ordered and v_request.kind <> 'dead' then
      v_ended := v_delivery;
    end if;
    return query
    select
      v_request.ordinal::integer, v_delivery.group_id, v_due, extract(epoch from v_due - v_now)::double precision,
      v_due is null and (v_request.kind = 'dead' or v_queue.dead_letter), queen.is_over(v_request.id, v_request.token), null::text;
  end loop;
end
$$;

-- The `completed` requests of a nack, with one update per delivery. The caller has locked consumers and deliveries.
create or replace function queen.complete (
  p_ids             bigint[],
  p_tokens          uuid[],
  p_partition_ids   bigint[],
  p_offsets         bigint[],
  p_kinds           text[],
  p_transaction_ids text[],
  p_results         bytea[],
  p_seconds         double precision[]
)
  returns table (
    ordinal integer, group_id bigint, due_at timestamptz, due_seconds double precision, is_dead boolean,
    is_over boolean, code text
  )
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_request  record;
  v_settled  record;
  v_accepted integer[];
begin
  for v_request in
    select
      a.id, a.token, a.partition_id,
      array_agg(a.ordinal::integer) as ordinals,
      array_agg(a."offset") as offsets,
      range_agg(int8range(a."offset", a."offset" + 1)) as named
    from unnest(p_ids, p_tokens, p_partition_ids, p_offsets, p_kinds)
      with ordinality a (id, token, partition_id, "offset", kind, ordinal)
    where a.kind = 'completed'
    group by a.id, a.token, a.partition_id
    order by a.id
  loop
    select s.* into v_settled
    from queen.settle(v_request.id, v_request.token, v_request.named, v_request.partition_id) s;
    return query
    select
      o.ordinal, v_settled.group_id, null::timestamptz, null::double precision, false, v_settled.is_over,
      case when v_settled.refused @> o."offset" then 'QN010' else v_settled.code end
    from unnest(v_request.ordinals, v_request.offsets) o (ordinal, "offset");
    if p_results is not null and v_settled.code is null then
      v_accepted := v_accepted || array(
        select o.ordinal
        from unnest(v_request.ordinals, v_request.offsets) o (ordinal, "offset")
        where p_results[o.ordinal] is not null and not coalesce(v_settled.refused @> o."offset", false)
      );
    end if;
  end loop;
  if v_accepted is not null then
    perform queen.keep(
      array_agg(p_partition_ids[o.ordinal]), array_agg(p_offsets[o.ordinal]), array_agg(p_transaction_ids[o.ordinal]),
      array_agg(p_results[o.ordinal]), array_agg(p_seconds[o.ordinal])
    )
    from unnest(v_accepted) o (ordinal);
  end if;
end
$$;
