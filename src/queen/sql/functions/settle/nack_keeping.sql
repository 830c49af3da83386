-- Like queen.nack, and store the results of completed messages. Each result belongs to request p_ordinals.
-- Locks: those of queen.nack, then results.
create or replace function queen.nack_keeping (
  p_ids             bigint[],
  p_tokens          uuid[],
  p_partition_ids   bigint[],
  p_offsets         bigint[],
  p_kinds           text[],
  p_errors          text[],
  p_delays          double precision[],
  p_ordinals        integer[],
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
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
  v_row    record;
  v_queues bigint[] := array_fill(null::bigint, array[cardinality(p_ids)]);
begin
  for v_row in
    select n.* from queen.nack(p_ids, p_tokens, p_partition_ids, p_offsets, p_kinds, p_errors, p_delays) n
  loop
    if v_row.code is null and p_kinds[v_row.ordinal] = 'completed' then
      v_queues[v_row.ordinal] := queen.queue_of(v_row.group_id);
    end if;
    return query
    select
      v_row.ordinal, v_row.group_id, v_row.due_at, v_row.due_seconds, v_row.is_dead, v_row.is_over, v_row.code;
  end loop;
  perform queen.keep(
    array_agg(v_queues[k.ordinal]), array_agg(k.transaction_id), array_agg(p_partition_ids[k.ordinal]),
    array_agg(p_offsets[k.ordinal]), array_agg(k.result), array_agg(k.seconds)
  )
  from unnest(p_ordinals, p_transaction_ids, p_results, p_seconds) k (ordinal, transaction_id, result, seconds)
  where v_queues[k.ordinal] is not null;
end
$$;
