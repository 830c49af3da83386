-- Like queen.ack, and store results. Each result belongs to request p_ordinals, at one of its offsets. Results of rejected
-- requests are ignored. Locks: those of queen.ack, then results.
create or replace function queen.ack_keeping (
  p_ids               bigint[],
  p_tokens            uuid[],
  p_offsets           int8multirange[],
  p_partition_ids     bigint[],
  p_ordinals          integer[],
  p_result_partitions bigint[],
  p_result_offsets    bigint[],
  p_transaction_ids   text[],
  p_results           bytea[],
  p_seconds           double precision[]
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
#variable_conflict use_variable
declare
  v_row     record;
  v_queues  bigint[] := array_fill(null::bigint, array[cardinality(p_ids)]);
  v_refused int8multirange[] := array_fill(null::int8multirange, array[cardinality(p_ids)]);
begin
  for v_row in select a.* from queen.ack(p_ids, p_tokens, p_offsets, p_partition_ids) a loop
    if v_row.code is null then
      v_queues[v_row.ordinal] := queen.queue_of(v_row.group_id);
      v_refused[v_row.ordinal] := v_row.refused;
    end if;
    return query
    select v_row.ordinal, v_row.group_id, v_row.settled, v_row.refused, v_row.is_over, v_row.has_more, v_row.code;
  end loop;
  perform queen.keep(
    array_agg(v_queues[k.ordinal]), array_agg(k.transaction_id), array_agg(k.partition_id), array_agg(k."offset"),
    array_agg(k.result), array_agg(k.seconds)
  )
  from unnest(p_ordinals, p_result_partitions, p_result_offsets, p_transaction_ids, p_results, p_seconds)
    k (ordinal, partition_id, "offset", transaction_id, result, seconds)
  where v_queues[k.ordinal] is not null and not coalesce(v_refused[k.ordinal] @> k."offset", false);
end
$$;
