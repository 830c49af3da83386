-- Whether groups have acknowledged messages: claimed, and in no delivery. One row per message, in request order.
--
-- A message is named by its partition and its offset, or by its transactionId if the offset is null. An unknown message
-- is not settled.
create or replace function queen.are_settled (
  p_groups          text[],
  p_partition_ids   bigint[],
  p_offsets         bigint[],
  p_transaction_ids text[]
)
  returns table (ordinal integer, is_settled boolean)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
  select
    n.ordinal::integer,
    coalesce(c.claimed > o."offset", false) and not exists (
      select 1
      from queen.deliveries d
      where d.partition_id = n.partition_id and d.group_id = g.id and d.pending @> o."offset"
      offset 0
    )
  from unnest(p_groups, p_partition_ids, p_offsets, p_transaction_ids)
    with ordinality n ("group", partition_id, "offset", transaction_id, ordinal)
  left join lateral (
    select p.queue_id from queen.partitions p where p.id = n.partition_id offset 0
  ) p on true
  left join lateral (
    select g.id
    from queen.groups g
    where g.queue_id = p.queue_id and g.name = n."group" and g.deleted_at is null
    offset 0
  ) g on true
  left join lateral (
    select coalesce(n."offset", (
      select k."offset" from queen.offsets_of_key(n.partition_id, n.transaction_id) k limit 1
    )) as "offset"
  ) o on true
  left join lateral (
    select c.claimed
    from queen.consumers c
    where c.partition_id = n.partition_id and c.group_id = g.id
    order by c.version desc
    limit 1
  ) c on true
  order by n.ordinal;
end
$$;
