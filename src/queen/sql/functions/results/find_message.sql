-- Find the message with a transactionId: an offset, or the id of a row in queen.scheduled. No row if it is unknown.
--
-- Searches the deduplication keys first, then the extras of the newest p_most messages of the partition.
create or replace function queen.find_message (p_partition_id bigint, p_transaction_id text, p_most integer)
  returns table ("offset" bigint, scheduled_id bigint)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
  select k."offset", null::bigint
  from queen.offsets_of_key(p_partition_id, p_transaction_id) k
  where k."offset" is not null
  order by k.at desc
  limit 1;
  if found then
    return;
  end if;
  return query
  select null::bigint, s.id
  from (
    select s.id, s.extras from queen.scheduled s where s.partition_id = p_partition_id order by s.due_at, s.id limit p_most
  ) s
  where convert_from(s.extras, 'UTF8')::json ->> 'transactionId' = p_transaction_id
  limit 1;
  if found then
    return;
  end if;
  return query
  select m."offset", null::bigint
  from (
    select s.base_offset + i.n as "offset", queen.extra_at(s.extras, s.message_count, i.n) as extra
    from (
      -- Read and decompress it once, not for every message.
      select s.base_offset, s.message_count, s.extras || ''::bytea as extras
      from queen.segments s
      where s.partition_id = p_partition_id
      order by s.base_offset desc
      limit p_most
    ) s
    cross join lateral (
      select s.message_count - 1 - g as n
      from generate_series(0, case when s.extras is null then -1 else s.message_count - 1 end) g
    ) i
    limit p_most
  ) m
  where convert_from(m.extra, 'UTF8')::json ->> 'transactionId' = p_transaction_id
  limit 1;
end
$$;
