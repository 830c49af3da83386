-- Settle messages and their workflow steps in one transaction: all of it, or nothing and the reasons.
--
-- p_workflows … p_attempts: one advance each: the step (and for a map its part), the token from the message, `success` or
-- `failure`, and the result or error. The others are the arguments of transact_keeping (null for no results).
-- Returns the rows of transact and, if that applied everything, one row per advance: `advanced`; `ended` if the run ended; or
-- `stale` if the step was settled before, was started again since, or does not exist. The message of a stale step is settled,
-- and nothing else follows. So a repeated call changes nothing.
-- Locks: workflows by id, then those of transact.
create or replace function queen.advance (
  p_workflows               text[],
  p_steps                   text[],
  p_parts                   integer[],
  p_tokens                  uuid[],
  p_outcomes                text[],
  p_results                 text[],
  p_errors                  text[],
  p_attempts                integer[],
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
  p_result_bodies           bytea[],
  p_seconds                 double precision[]
)
  returns table (kind text, ordinal integer, "offset" bigint, created_at timestamptz, xid bigint, code text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_row        record;
  v_is_applied boolean := true;
begin
  perform 1
  from (
    select w.id from queen.workflows w where w.id = any (p_workflows) order by w.id for no key update
  ) l;
  for v_row in
    select t.*
    from queen.transact_keeping(
      p_ack_ids, p_ack_tokens, p_ack_offsets, p_nack_ids, p_nack_tokens, p_nack_partition_ids, p_nack_offsets,
      p_nack_kinds, p_nack_errors, p_nack_delays, p_lease_ids, p_lease_tokens, p_partition_ids, p_counts, p_bodies,
      p_ends, p_extras, p_ttls, p_keys, p_key_entries, p_key_places, p_key_counts, p_producers, p_sequences,
      p_scheduled_partition_ids, p_scheduled_delays, p_scheduled_dues, p_scheduled_payloads, p_scheduled_extras,
      p_scheduled_ttls, p_max_delay, p_result_ordinals, p_transaction_ids, p_result_bodies, p_seconds
    ) t
  loop
    return query select v_row.kind, v_row.ordinal, v_row."offset", v_row.created_at, v_row.xid, v_row.code;
    v_is_applied := v_is_applied and v_row.kind in ('stored', 'acked', 'nacked', 'buried', 'dropped');
  end loop;
  if v_is_applied then
    for v_row in
      select a.*
      from unnest(p_workflows, p_steps, p_parts, p_tokens, p_outcomes, p_results, p_errors, p_attempts)
        with ordinality a (workflow, step, part, token, outcome, result, error, attempts, ordinal)
      order by a.ordinal
    loop
      return query
      select
        queen.advance_step(
          v_row.workflow, v_row.step, v_row.part, v_row.token, v_row.outcome, v_row.result::json, v_row.error, v_row.attempts,
          queen.now()
        ), v_row.ordinal::integer, null::bigint, null::timestamptz, null::bigint, null::text;
    end loop;
  end if;
end
$$;
