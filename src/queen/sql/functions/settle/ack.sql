-- Acknowledge messages of deliveries: the given offsets, or the whole leased part if p_offsets is null.
--
-- Returns one row per request, in request order: the number of messages settled; the given offsets that are open but were
-- not leased (null: none); whether the delivery ended; whether its group may have messages because of that, so that the
-- caller wakes waiting pops. Returns QN002 if (id, token) is no longer the current lease, or belongs to another partition
-- than p_partition_ids (null: not checked). A lease that expired but was not redelivered yet can still be acknowledged.
-- A rejection is a row and not an exception, because many requests share this transaction. A delivery may occur once.
-- p_result_ordinals … p_seconds: results to store, or null. Each belongs to a request that names its partition, at one of its
-- offsets. Results of rejected requests are ignored.
-- Locks: consumers of ordered deliveries, then deliveries, then results.
create or replace function queen.ack (
  p_ids             bigint[],
  p_tokens          uuid[],
  p_offsets         int8multirange[],
  p_partition_ids   bigint[] default null,
  p_result_ordinals integer[] default null,
  p_result_offsets  bigint[] default null,
  p_transaction_ids text[] default null,
  p_results         bytea[] default null,
  p_seconds         double precision[] default null
)
  returns table (
    ordinal integer, group_id bigint, settled bigint, refused int8multirange, is_over boolean, has_more boolean, code text
  )
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_whole      integer[];
  v_ctids      tid[];
  v_groups     bigint[];
  v_counts     bigint[];
  v_partitions bigint[];
  v_pairs      bigint[];
  v_unordered  bigint[];
  v_has_more   boolean := false;
  v_request    record;
  v_settled    record;
  v_refused    int8multirange[];
begin
  perform queen.lock_consumers(p_ids, p_tokens);

  -- The common case: all of a delivery that was leased as a whole. This query locks the other deliveries too.
  select
    array_agg(l.ordinal) filter (where l.is_whole),
    array_agg(l.ctid) filter (where l.is_whole),
    array_agg(l.group_id) filter (where l.is_whole),
    array_agg(l.settled) filter (where l.is_whole),
    array_agg(l.partition_id) filter (where l.is_whole and l.ordered),
    array_agg(l.group_id) filter (where l.is_whole and l.ordered),
    array_agg(l.group_id) filter (where l.is_whole and not l.ordered)
  into v_whole, v_ctids, v_groups, v_counts, v_partitions, v_pairs, v_unordered
  from (
    select
      a.ordinal::integer as ordinal, d.ctid, d.group_id, d.partition_id, d.ordered,
      (a.offsets is null or a.offsets = d.pending) and d.head is null and d.out_end is null as is_whole,
      case
        when int8multirange(range_merge(d.pending)) = d.pending then upper(d.pending) - lower(d.pending)
        else queen.count_of(d.pending)
      end as settled
    from (
      select u.*
      from unnest(p_ids, p_tokens, p_offsets, p_partition_ids)
        with ordinality u (id, token, offsets, partition_id, ordinal)
      order by u.id
    ) a
    cross join lateral (
      select d.ctid, d.group_id, d.partition_id, d.ordered, d.head, d.out_end, d.pending
      from queen.deliveries d
      where d.id = a.id and d.token = a.token and d.held
        and d.partition_id = coalesce(a.partition_id, d.partition_id)
      for no key update
    ) d
  ) l;
  if v_whole is not null then
    delete from queen.deliveries d using unnest(v_ctids) u (ctid) where d.ctid = u.ctid;
    if v_partitions is not null then
      v_has_more := queen.free(v_partitions, v_pairs);
    end if;
    if v_unordered is not null then
      v_has_more := v_has_more or queen.waits_for_room(v_unordered);
    end if;
    return query
    select w.ordinal, w.group_id, w.settled, null::int8multirange, true, v_has_more, null::text
    from unnest(v_whole, v_groups, v_counts) w (ordinal, group_id, settled);
  end if;

  if v_whole is null or cardinality(v_whole) < cardinality(p_ids) then
    for v_request in
      select a.id, a.token, a.offsets, a.partition_id, a.ordinal::integer as ordinal
      from unnest(p_ids, p_tokens, p_offsets, p_partition_ids)
        with ordinality a (id, token, offsets, partition_id, ordinal)
      where v_whole is null or a.ordinal <> all (v_whole)
      order by a.id
    loop
      select s.* into v_settled
      from queen.settle(v_request.id, v_request.token, v_request.offsets, v_request.partition_id) s;
      v_refused[v_request.ordinal] := case when v_settled.code is null then v_settled.refused else '{(,)}' end;
      return query
      select
        v_request.ordinal, v_settled.group_id, v_settled.settled, v_settled.refused, v_settled.is_over,
        v_settled.is_over, v_settled.code;
    end loop;
  end if;
  if p_results is not null then
    perform queen.keep(
      array_agg(p_partition_ids[k.ordinal]), array_agg(k."offset"), array_agg(k.transaction_id), array_agg(k.result),
      array_agg(k.seconds)
    )
    from unnest(p_result_ordinals, p_result_offsets, p_transaction_ids, p_results, p_seconds)
      k (ordinal, "offset", transaction_id, result, seconds)
    where not coalesce(v_refused[k.ordinal] @> k."offset", false);
  end if;
end
$$;
