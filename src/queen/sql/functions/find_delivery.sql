-- The current delivery of a message for a group, for an ack that does not say all of it.
--
-- A message is named by its transactionId, or by the partition and offset that its id encodes.
-- A transactionId is looked for among what the group holds, in p_partition_id or in delivery p_delivery_id where
-- (with its token) given; the place only if that finds nothing: a client may use the id of one message as the transactionId of another.
-- Answers a row for each match; more than one is for the caller to refuse. A row without id: the message at that
-- place is not out, and is_settled says whether the group is done with it. No row: not known.
create or replace function queen.find_delivery (
  p_group          text,
  p_delivery_id    bigint,
  p_token          uuid,
  p_partition_id   bigint,
  p_transaction_id text,
  p_place_id       bigint,
  p_place_offset   bigint
)
  returns table (id bigint, token uuid, partition_id bigint, "offset" bigint, is_settled boolean)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_ids bigint[];
begin
  -- Which deliveries it may be in: each way of naming them is a search of its own, by its own index.
  if p_delivery_id is not null then
    v_ids := array(
      select d.id from queen.deliveries d where d.id = p_delivery_id and d.token = p_token and d.held
    );
  elsif p_partition_id is not null then
    v_ids := array(
      select d.id
      from queen.deliveries d
      where d.partition_id = p_partition_id
        and d.held
        and exists (
          select 1 from queen.groups g where g.id = d.group_id and g.name = p_group and g.deleted_at is null offset 0
        )
    );
  else
    v_ids := array(
      select d.id
      from queen.groups g
      cross join lateral (select d.id from queen.deliveries d where d.group_id = g.id and d.held offset 0) d
      where g.name = p_group and g.deleted_at is null
    );
  end if;

  return query
  select d.id, d.token, d.partition_id, k."offset", false
  from queen.deliveries d
  cross join lateral (
    select k."offset"
    from queen.dedup k
    where k.key = queen.dedup_key(d.partition_id, p_transaction_id)
    offset 0
  ) k
  where d.id = any (v_ids)
    and d.partition_id = coalesce(p_partition_id, d.partition_id)
    and queen.handed_out(d) @> k."offset"
  limit 2;
  if found then
    return;
  end if;

  if p_delivery_id is not null or p_partition_id is not null then
    -- Not remembered as a key any more, or never: it stands beside the message.
    return query
    select d.id, d.token, d.partition_id, m."offset", false
    from queen.deliveries d
    cross join lateral (
      select s.base_offset + i as "offset", queen.extra_at(s.extras, s.message_count, i) as extra
      from queen.segments s
      cross join lateral generate_series(0, s.message_count - 1) i
      where d.payload is null
        and s.partition_id = d.partition_id
        and s.base_offset >= (
          select h.base_offset
          from queen.segments h
          where h.partition_id = d.partition_id and h.base_offset <= lower(d.pending)
          order by h.base_offset desc
          limit 1
        )
        and s.base_offset < upper(d.pending)
        and s.extras is not null
      union all
      select lower(d.pending), d.extras where d.payload is not null
    ) m
    where d.id = any (v_ids)
      and d.partition_id = coalesce(p_partition_id, d.partition_id)
      and queen.handed_out(d) @> m."offset"
      and convert_from(m.extra, 'UTF8')::json ->> 'transactionId' = p_transaction_id
    limit 2;
    if found then
      return;
    end if;
  end if;

  if p_delivery_id is not null then
    -- The lease is current, and the message was one of it that is settled.
    return query
    select null::bigint, null::uuid, d.partition_id, k."offset", true
    from queen.deliveries d
    cross join lateral (
      select k."offset"
      from queen.dedup k
      where k.key = queen.dedup_key(d.partition_id, p_transaction_id)
      offset 0
    ) k
    where d.id = p_delivery_id and d.token = p_token and d.held
    limit 1;
    if found then
      return;
    end if;
  end if;

  if p_delivery_id is null and p_partition_id is not null then
    -- Known by its key, not out: the group is done with it if it was handed out.
    return query
    select null::bigint, null::uuid, p_partition_id, k."offset", true
    from queen.partitions p
    join queen.groups g on g.queue_id = p.queue_id and g.name = p_group and g.deleted_at is null
    cross join lateral (
      select k."offset"
      from queen.dedup k
      where k.key = queen.dedup_key(p_partition_id, p_transaction_id)
      offset 0
    ) k
    cross join lateral (
      select c.claimed
      from queen.consumers c
      where c.partition_id = p.id and c.group_id = g.id
      order by c.version desc
      limit 1
    ) c
    where p.id = p_partition_id
      and c.claimed > k."offset"
      and not exists (
        select 1 from queen.deliveries o
        where o.group_id = g.id and o.partition_id = p_partition_id and o.pending @> k."offset"
      )
    limit 1;
    if found then
      return;
    end if;
  end if;

  if p_place_id is not null then
    return query
    select
      d.id, d.token, d.partition_id, p_place_offset,
      d.id is null
        and c.claimed > p_place_offset
        and not exists (
          select 1 from queen.deliveries o
          where o.group_id = g.id and o.partition_id = p_place_id and o.pending @> p_place_offset
        )
        and (p_delivery_id is null or not queen.is_over(p_delivery_id, p_token))
    from queen.partitions p
    join queen.groups g on g.queue_id = p.queue_id and g.name = p_group and g.deleted_at is null
    cross join lateral (
      select c.claimed
      from queen.consumers c
      where c.partition_id = p.id and c.group_id = g.id
      order by c.version desc
      limit 1
    ) c
    left join lateral (
      select d.id, d.token, d.partition_id
      from queen.deliveries d
      where d.partition_id = p_place_id and d.group_id = g.id and d.held and queen.handed_out(d) @> p_place_offset
      offset 0
    ) d on true
    where p.id = p_place_id;
  end if;
end
$$;
