-- Settle messages and the steps of workflows that they were, in one transaction: all of it, or nothing and the reasons.
--
-- p_workflows … p_errors: an advance each: the step (and the part of it, of a map), the token that its message brought, `success` or `failure`, and
-- what came of it. The others are the arguments of transact_keeping (null for no results). Answers the rows of transact, and, when that applied all, a row an
-- advance: `advanced`, `ended` when the run is over with it, or `stale` when the step was settled before, was begun anew since, or is gone: then its message
-- is settled all the same, and nothing else follows. So a repeat changes nothing, whoever sends it.
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
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
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

-- Settle one step, or one part of it, with success, failure or, its message was taken away, as cancelled; the caller has locked
-- the run. Answers `advanced`, `ended` or `stale`.
create or replace function queen.advance_step (
  p_id       text,
  p_name     text,
  p_part     integer,
  p_token    uuid,
  p_outcome  text,
  p_result   json,
  p_error    text,
  p_attempts integer,
  p_now      timestamptz
)
  returns text
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_step   queen.workflow_steps;
  v_state  text := case p_outcome when 'success' then 'completed' when 'failure' then 'failed' else 'cancelled' end;
  v_result json := case when p_outcome = 'success' then coalesce(p_result, 'null') end;
  v_error  text := case when p_outcome = 'failure' then coalesce(p_error, 'no reason given') end;
begin
  select s.* into v_step
  from queen.workflow_steps s
  where s.workflow_id = p_id and s.name = p_name and s.state = 'active' and s.token = p_token;
  if not found or (v_step.kind = 'map') <> (p_part is not null) then
    return 'stale';
  end if;
  if v_step.kind = 'map' then
    update queen.workflow_parts p
    set state = v_state, result = v_result, error = v_error, attempts = p_attempts, outbox_id = null, ended_at = p_now
    where p.workflow_id = p_id and p.step = p_name and p.part = p_part and p.state = 'active';
    if not found then
      return 'stale';
    end if;
    update queen.workflow_steps s
    set open_parts = s.open_parts - 1, failed_parts = s.failed_parts + (v_state = 'failed')::integer
    where s.workflow_id = p_id and s.name = p_name
    returning s.* into v_step;
    if v_step.open_parts > 0 then
      return 'advanced';
    end if;
    select r.state, r.result, r.error into v_state, v_result, v_error
    from queen.reduce_parts(p_id, p_name, v_step.failed_parts) r;
  else
    update queen.workflow_steps s set attempts = p_attempts where s.workflow_id = p_id and s.name = p_name;
  end if;
  perform queen.settle_steps(p_id, '{}', array[p_name], array[v_state], array[v_result], array[v_error], p_now);
  return case
    when exists (select 1 from queen.workflows w where w.id = p_id and w.ended_at is not null) then 'ended'
    else 'advanced'
  end;
end
$$;
