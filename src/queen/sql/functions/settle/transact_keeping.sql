-- Like queen.transact, and store the results of messages that it completed. Each result belongs to nack p_result_ordinals.
-- Locks: those of queen.transact, then results.
create or replace function queen.transact_keeping (
  p_ack_ids                 bigint[],
  p_ack_tokens              uuid[],
  p_ack_offsets             int8multirange[],
  p_nack_ids                bigint[],
  p_nack_tokens             uuid[],
  p_nack_partition_ids      bigint[],
  p_nack_offsets            bigint[],
  p_nack_kinds              text[],
  p_nack_errors             text[],
  p_nack_delays             double precision[],
  p_lease_ids               bigint[],
  p_lease_tokens            uuid[],
  p_partition_ids           bigint[],
  p_counts                  integer[],
  p_bodies                  bytea[],
  p_ends                    bytea[],
  p_extras                  bytea[],
  p_ttls                    double precision[],
  p_keys                    bytea,
  p_key_entries             integer[],
  p_key_places              integer[],
  p_key_counts              integer[],
  p_producers               text[],
  p_sequences               bigint[],
  p_scheduled_partition_ids bigint[],
  p_scheduled_delays        double precision[],
  p_scheduled_dues          timestamptz[],
  p_scheduled_payloads      bytea[],
  p_scheduled_extras        bytea[],
  p_scheduled_ttls          double precision[],
  p_max_delay               double precision,
  p_result_ordinals         integer[],
  p_transaction_ids         text[],
  p_results                 bytea[],
  p_seconds                 double precision[]
)
  returns table (kind text, ordinal integer, "offset" bigint, created_at timestamptz, xid bigint, code text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
  v_row    record;
  v_queues bigint[] := array_fill(null::bigint, array[cardinality(p_nack_ids)]);
begin
  for v_row in
    select t.*
    from queen.transact(
      p_ack_ids, p_ack_tokens, p_ack_offsets, p_nack_ids, p_nack_tokens, p_nack_partition_ids, p_nack_offsets,
      p_nack_kinds, p_nack_errors, p_nack_delays, p_lease_ids, p_lease_tokens, p_partition_ids, p_counts, p_bodies,
      p_ends, p_extras, p_ttls, p_keys, p_key_entries, p_key_places, p_key_counts, p_producers, p_sequences,
      p_scheduled_partition_ids, p_scheduled_delays, p_scheduled_dues, p_scheduled_payloads, p_scheduled_extras,
      p_scheduled_ttls, p_max_delay
    ) t
  loop
    if v_row.kind = 'acked' then
      -- The column "offset" holds the group id.
      v_queues[v_row.ordinal] := queen.queue_of(v_row."offset");
    end if;
    return query select v_row.kind, v_row.ordinal, v_row."offset", v_row.created_at, v_row.xid, v_row.code;
  end loop;
  perform queen.keep(
    array_agg(v_queues[k.ordinal]), array_agg(k.transaction_id), array_agg(p_nack_partition_ids[k.ordinal]),
    array_agg(p_nack_offsets[k.ordinal]), array_agg(k.result), array_agg(k.seconds)
  )
  from unnest(p_result_ordinals, p_transaction_ids, p_results, p_seconds) k (ordinal, transaction_id, result, seconds)
  where v_queues[k.ordinal] is not null;
end
$$;
