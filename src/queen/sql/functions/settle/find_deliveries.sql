-- Find the current deliveries of messages for groups. Used by acks that do not name a complete lease.
--
-- A message is named by its transactionId, or by the partition and offset that its id encodes.
-- A transactionId is searched in the group's deliveries, limited to p_partition_ids or to delivery p_delivery_ids (with its
-- token) if given. The offset is tried only if that finds nothing, because a client may use the id of one message as the
-- transactionId of another. A transactionId without a partition is then searched among the deduplication keys of the
-- group's newest partitions: 1,000 for one message, 20,000 per call.
-- Returns one row per match, with the ordinal of the message. The caller rejects several matches. A row without an id: the
-- message is not leased, and is_settled is whether the group has settled it. No row: the message is unknown.
create or replace function queen.find_deliveries (
  p_groups          text[],
  p_delivery_ids    bigint[],
  p_tokens          uuid[],
  p_partition_ids   bigint[],
  p_transaction_ids text[],
  p_place_ids       bigint[],
  p_place_offsets   bigint[]
)
  returns table (ordinal integer, id bigint, token uuid, partition_id bigint, "offset" bigint, is_settled boolean)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_count integer := cardinality(p_groups);
  v_left  integer := v_count;
  v_found boolean[] := array_fill(false, array[v_count]);
  v_row   record;
begin
  -- The usual request: the lease, and the key of a message leased under it.
  for v_row in
    select n.ordinal::integer as ordinal, d.id, d.token, d.partition_id, k."offset"
    from unnest(p_delivery_ids, p_tokens, p_partition_ids, p_transaction_ids)
      with ordinality n (delivery_id, token, partition_id, transaction_id, ordinal)
    cross join lateral (
      select d.id, d.token, d.partition_id, queen.handed_out(d) as handed_out
      from queen.deliveries d
      where d.id = n.delivery_id
        and d.token = n.token
        and d.held
        and d.partition_id = coalesce(n.partition_id, d.partition_id)
      offset 0
    ) d
    cross join lateral (
      select k."offset"
      from queen.dedup k
      where k.key = queen.dedup_key(d.partition_id, n.transaction_id)
      offset 0
    ) k
    where d.handed_out @> k."offset"
  loop
    v_left := v_left - (not v_found[v_row.ordinal])::integer;
    v_found[v_row.ordinal] := true;
    return query select v_row.ordinal, v_row.id, v_row.token, v_row.partition_id, v_row."offset", false;
  end loop;
  if v_left = 0 then
    return;
  end if;

  -- Its key may be in a block. For many messages, reading the leases once costs less.
  if v_count <= 10 then
    for v_row in
      select n.ordinal::integer as ordinal, d.id, d.token, d.partition_id, k."offset"
      from unnest(p_delivery_ids, p_tokens, p_partition_ids, p_transaction_ids)
        with ordinality n (delivery_id, token, partition_id, transaction_id, ordinal)
      cross join lateral (
        select d.id, d.token, d.partition_id, d.pending, queen.handed_out(d) as handed_out
        from queen.deliveries d
        where d.id = n.delivery_id
          and d.token = n.token
          and d.held
          and d.partition_id = coalesce(n.partition_id, d.partition_id)
        offset 0
      ) d
      cross join lateral queen.key_in_range(d.partition_id, n.transaction_id, lower(d.pending), upper(d.pending)) k
      where d.handed_out @> k."offset" and not v_found[n.ordinal]
    loop
      v_left := v_left - (not v_found[v_row.ordinal])::integer;
      v_found[v_row.ordinal] := true;
      return query select v_row.ordinal, v_row.id, v_row.token, v_row.partition_id, v_row."offset", false;
    end loop;
    if v_left = 0 then
      return;
    end if;
  end if;

  -- It has no key. Search the transactionIds stored next to the messages.
  for v_row in
    select m.ordinal, m.id, m.token, m.partition_id, m."offset"
    from queen.find_named(p_delivery_ids, p_tokens, p_partition_ids, p_transaction_ids) m
    where not v_found[m.ordinal]
  loop
    v_left := v_left - (not v_found[v_row.ordinal])::integer;
    v_found[v_row.ordinal] := true;
    return query select v_row.ordinal, v_row.id, v_row.token, v_row.partition_id, v_row."offset", false;
  end loop;
  if v_left = 0 then
    return;
  end if;

  for v_row in
    select n.*, d.id as placed_id
    from unnest(p_groups, p_delivery_ids, p_tokens, p_partition_ids, p_transaction_ids, p_place_ids, p_place_offsets)
      with ordinality n ("group", delivery_id, token, partition_id, transaction_id, place_id, place_offset, ordinal)
    left join lateral (
      -- Found under its lease, and no other message has its id as transactionId.
      select d.id
      from queen.deliveries d
      where d.id = n.delivery_id
        and d.token = n.token
        and d.held
        and d.partition_id = n.place_id
        and d.partition_id = coalesce(n.partition_id, d.partition_id)
        and queen.handed_out(d) @> n.place_offset
        and not exists (
          select 1 from queen.offsets_of_key(d.partition_id, n.transaction_id)
        )
      offset 0
    ) d on true
    where not v_found[n.ordinal]
    order by n.ordinal
  loop
    if v_row.placed_id is not null then
      return query
      select v_row.ordinal::integer, v_row.placed_id, v_row.token, v_row.place_id, v_row.place_offset, false;
    else
      return query
      select v_row.ordinal::integer, f.*
      from queen.find_delivery(
        v_row."group", v_row.delivery_id, v_row.token, v_row.partition_id, v_row.transaction_id, v_row.place_id,
        v_row.place_offset, least(1000, 20000 / v_count)
      ) f;
    end if;
  end loop;
end
$$;

-- Messages leased under these leases that have these transactionIds in their extras. Reads each lease once.
create or replace function queen.find_named (
  p_delivery_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_transaction_ids text[]
)
  returns table (ordinal integer, id bigint, token uuid, partition_id bigint, "offset" bigint)
  language plpgsql
  stable
  set enable_hashjoin = on
as $$
#variable_conflict use_column
begin
  return query
  select n.ordinal::integer as ordinal, d.id, d.token, d.partition_id, d."offset"
  from (
    select d.id, d.token, d.partition_id, m."offset", m.transaction_id
    from (select distinct l.id, l.token from unnest(p_delivery_ids, p_tokens) l (id, token) where l.id is not null) l
    cross join lateral (
      select d.* from queen.deliveries d where d.id = l.id and d.token = l.token and d.held offset 0
    ) d
    cross join lateral queen.named_messages(d.partition_id, d.pending, d.payload, d.extras) m
    where queen.handed_out(d) @> m."offset"
    offset 0
  ) d
  join unnest(p_delivery_ids, p_tokens, p_partition_ids, p_transaction_ids)
    with ordinality n (delivery_id, token, partition_id, transaction_id, ordinal)
    on n.delivery_id = d.id and n.token = d.token and n.transaction_id = d.transaction_id
  where d.partition_id = coalesce(n.partition_id, d.partition_id);
end
$$;

-- The transactionIds in the extras of a delivery's messages, with their offsets.
create or replace function queen.named_messages (
  p_partition_id bigint, p_pending int8multirange, p_payload bytea, p_extras bytea
)
  returns table ("offset" bigint, transaction_id text)
  language plpgsql
  stable
as $$
#variable_conflict use_column
begin
  return query
  select m."offset", convert_from(m.extra, 'UTF8')::json ->> 'transactionId'
  from (
    select s.base_offset + i as "offset", queen.extra_at(s.extras, s.message_count, i) as extra
    from (
      -- Read and decompress it once, not for every message.
      select s.base_offset, s.message_count, s.extras || ''::bytea as extras
      from queen.segments s
      where p_payload is null
        and s.partition_id = p_partition_id
        and s.base_offset >= (
          select h.base_offset
          from queen.segments h
          where h.partition_id = p_partition_id and h.base_offset <= lower(p_pending)
          order by h.base_offset desc
          limit 1
        )
        and s.base_offset < upper(p_pending)
        and s.extras is not null
      offset 0
    ) s
    cross join lateral generate_series(0, s.message_count - 1) i
    union all
    select lower(p_pending), p_extras where p_payload is not null
  ) m;
end
$$;

-- Find one message for find_deliveries. p_most: how many partitions to search for a transactionId without a partition.
create or replace function queen.find_delivery (
  p_group          text,
  p_delivery_id    bigint,
  p_token          uuid,
  p_partition_id   bigint,
  p_transaction_id text,
  p_place_id       bigint,
  p_place_offset   bigint,
  p_most           integer
)
  returns table (id bigint, token uuid, partition_id bigint, "offset" bigint, is_settled boolean)
  language plpgsql
  stable
as $$
#variable_conflict use_column
declare
  v_ids bigint[];
begin
  -- The deliveries to search. Each way of naming them is a separate search with its own index.
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
    select k."offset" from queen.dedup k where k.key = queen.dedup_key(d.partition_id, p_transaction_id)
    union all
    select k."offset" from queen.key_in_range(d.partition_id, p_transaction_id, lower(d.pending), upper(d.pending)) k
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
    -- Its key was never stored or has expired. Search the transactionIds stored next to the messages.
    return query
    select d.id, d.token, d.partition_id, m."offset", false
    from queen.deliveries d
    cross join lateral queen.named_messages(d.partition_id, d.pending, d.payload, d.extras) m
    where d.id = any (v_ids)
      and d.partition_id = coalesce(p_partition_id, d.partition_id)
      and queen.handed_out(d) @> m."offset"
      and m.transaction_id = p_transaction_id
    limit 2;
    if found then
      return;
    end if;
  end if;

  if p_delivery_id is not null then
    -- The lease is current, and this message of it is settled.
    return query
    select null::bigint, null::uuid, d.partition_id, k."offset", true
    from queen.deliveries d
    cross join lateral queen.offsets_of_key(d.partition_id, p_transaction_id) k
    where d.id = p_delivery_id and d.token = p_token and d.held
    limit 1;
    if found then
      return;
    end if;
  end if;

  if p_delivery_id is null and p_partition_id is not null then
    -- Its key is known and it is not leased: the group has settled it if it was ever claimed.
    return query
    select null::bigint, null::uuid, p_partition_id, k."offset", true
    from queen.partitions p
    join queen.groups g on g.queue_id = p.queue_id and g.name = p_group and g.deleted_at is null
    cross join lateral queen.offsets_of_key(p_partition_id, p_transaction_id) k
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
    if found then
      return;
    end if;
  end if;

  if p_delivery_id is null and p_partition_id is null then
    -- Only its key may remain. The partition is part of the key, so try the newest partitions.
    return query
    select null::bigint, null::uuid, p.id, k."offset", true
    from (
      select g.id as group_id, p.id
      from (
        select g.id, g.queue_id from queen.groups g where g.name = p_group and g.deleted_at is null order by g.id desc
      ) g
      cross join lateral (
        select p.id from queen.partitions p where p.queue_id = g.queue_id order by p.id desc limit p_most
      ) p
      limit p_most
    ) p
    cross join lateral queen.offsets_of_key(p.id, p_transaction_id) k
    cross join lateral (
      select c.claimed
      from queen.consumers c
      where c.partition_id = p.id and c.group_id = p.group_id
      order by c.version desc
      limit 1
    ) c
    where c.claimed > k."offset"
      and not exists (
        select 1 from queen.deliveries o
        where o.group_id = p.group_id and o.partition_id = p.id and o.pending @> k."offset"
      )
    limit 2;
  end if;
end
$$;
