-- Acknowledge messages of deliveries: the given offsets, or the whole leased part if p_offsets is null.
--
-- Returns one row per request, in request order: the number of messages settled; the given offsets that are open but were
-- not leased (null: none); whether the delivery ended; whether its group may have messages because of that, so that the
-- caller wakes waiting pops. Returns QN002 if (id, token) is no longer the current lease, or belongs to another partition
-- than p_partition_ids (null: not checked). A lease that expired but was not redelivered yet can still be acknowledged.
-- A rejection is a row and not an exception, because many requests share this transaction. A delivery may occur once.
-- p_result_ordinals … p_seconds: results to store, or null. Each belongs to a request that names its partition, at one of its
-- offsets. Results of rejected requests are ignored.
-- Locks: the slots, consumers of ordered deliveries, then deliveries, then results.
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
  v_is_plain   boolean;
  v_locked     bigint[];
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
  perform queen.enter(p_ids);
  -- Lock the pairs of ordered deliveries, and the partitions of those that may become idle. A pair becomes idle only under the
  -- partition's lock, which a push keeps until its commit. If that lock is taken, the pair becomes ready.
  select
    count(*) = cardinality(p_ids) and bool_and(d.is_whole and c.parked = 0 and coalesce(q.is_plain, false)),
    array_agg((
      select p.id
      from queen.partitions p
      where p.id = d.partition_id and c.claimed >= n.next_offset
      for no key update skip locked
    ))
  into v_is_plain, v_locked
  from (
    select d.partition_id, d.group_id, d.is_whole
    from unnest(p_ids, p_tokens, p_offsets, p_partition_ids) a (id, token, offsets, partition_id)
    cross join lateral (
      select
        d.partition_id, d.group_id,
        d.held and d.head is null and d.out_end is null and (a.offsets is null or a.offsets = d.pending)
          and d.partition_id = coalesce(a.partition_id, d.partition_id) as is_whole
      from queen.deliveries d
      where d.id = a.id and d.token = a.token and d.ordered
      offset 0
    ) d
    order by d.partition_id, d.group_id
  ) d
  cross join lateral (
    select c.claimed, c.parked
    from queen.consumers c
    where c.partition_id = d.partition_id and c.group_id = d.group_id
    order by c.version desc
    limit 1
    for no key update
  ) c
  left join lateral (select g.queue_id from queen.groups g where g.id = d.group_id offset 0) g on true
  left join lateral (
    select
      q.rate_per is null and q.delay_seconds = 0 and q.window_seconds = 0 and q.concurrency_limit = 0
        and q.in_order = q.ordered as is_plain
    from queen.queues q
    where q.id = g.queue_id
    offset 0
  ) q on true
  left join lateral (
    select s.base_offset + s.message_count as next_offset
    from queen.segments s
    where s.partition_id = d.partition_id
    order by s.base_offset desc
    limit 1
  ) n on true;

  -- The common case: all of ordered deliveries of plain queues. Another statement, which sees the pushes before these locks.
  if v_is_plain then
    for ordinal, group_id, settled, has_more in
      with gone as (
        delete from queen.deliveries d
        using (
          select u.ordinal::integer as ordinal, u.id, u.token, u.offsets
          from unnest(p_ids, p_tokens, p_offsets) with ordinality u (id, token, offsets, ordinal)
          order by u.id
        ) a
        where d.id = a.id and d.token = a.token and d.held and d.head is null and d.out_end is null
          and (a.offsets is null or a.offsets = d.pending)
        returning
          a.ordinal, d.partition_id, d.group_id,
          case
            when int8multirange(range_merge(d.pending)) = d.pending then upper(d.pending) - lower(d.pending)
            else queen.count_of(d.pending)
          end as settled
      )
      update queen.consumers c
      set
        version = c.version + 1,
        held = false,
        idle_at = case when f.is_idle then greatest(queen.now(), f.created_at) end,
        ready_at = case when not f.is_idle then queen.now() end
      from (
        select
          g.ordinal, g.group_id, g.settled, c.ctid, n.created_at,
          coalesce(c.claimed >= n.next_offset and g.partition_id = any (v_locked), false) as is_idle
        from gone g
        cross join lateral (
          select c.ctid, c.claimed
          from queen.consumers c
          where c.partition_id = g.partition_id and c.group_id = g.group_id
          order by c.version desc
          limit 1
        ) c
        cross join lateral (
          select s.base_offset + s.message_count as next_offset, s.created_at
          from queen.segments s
          where s.partition_id = g.partition_id
          order by s.base_offset desc
          limit 1
        ) n
        offset 0
      ) f
      where c.ctid = f.ctid
      returning f.ordinal, f.group_id, f.settled, not f.is_idle
    loop
      is_over := true;
      v_whole := array_append(v_whole, ordinal);
      return next;
    end loop;
  else
    -- Others: all of deliveries that were leased as a whole. This query locks the rest too.
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
