-- Nacks, pushes and workflow steps in one transaction: all are applied, or none.
--
-- The arguments are those of nack and push. p_lease_ids, p_lease_tokens: leases that must be current.
-- p_workflows … p_step_attempts: one advance each, or null: the step (and for a map its part), the token from the message,
-- `success` or `failure`, and the result or error.
-- Returns the rows of push, then one row per nack, then one row per advance: `advanced`; `ended` if the run ended; or
-- `stale` if the step was settled before, was started again since, or does not exist. The message of a stale step is settled,
-- and nothing else follows. So a repeated call changes nothing. If anything is rejected, applies nothing and returns the
-- rejections of push, or rows of kind `nack` or `lease` with the ordinal of the request and QN002 or QN010.
-- Locks: the slots, workflows by id, then partitions by id, then consumers, then deliveries by id, then results.
create or replace function queen.transact (
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
  p_transaction_ids         text[],
  p_results                 bytea[],
  p_seconds                 double precision[],
  p_workflows               text[],
  p_steps                   text[],
  p_parts                   integer[],
  p_step_tokens             uuid[],
  p_outcomes                text[],
  p_step_results            text[],
  p_step_errors             text[],
  p_step_attempts           integer[]
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
  v_row record;
begin
  perform queen.enter(p_nack_ids || p_lease_ids || p_partition_ids || p_scheduled_partition_ids);
  if p_workflows is not null then
    perform 1
    from (
      select w.id from queen.workflows w where w.id = any (p_workflows) order by w.id for no key update
    ) l;
  end if;
  perform 1
  from (
    select p.id
    from queen.partitions p
    where p.id = any (p_partition_ids || p_scheduled_partition_ids)
    order by p.id
    for no key update
  ) l;
  if p_producers is not null then
    -- Before the acks are checked: a repeated request finds its leases settled, and must get its first result.
    return query select p.* from queen.check_producers(p_producers, p_sequences, queen.now()) p;
    if found then
      return;
    end if;
  end if;
  perform queen.lock_consumers(p_nack_ids, p_nack_tokens);
  perform 1
  from (
    select d.id
    from queen.deliveries d
    where d.id = any (p_nack_ids || p_lease_ids)
    order by d.id
    for no key update
  ) l;

  -- Check everything first, to avoid an undo.
  return query
  select r.kind, r.ordinal::integer, null::bigint, null::timestamptz, null::bigint, r.code
  from (
    select 'nack' as kind, a.ordinal, case
      when d.id is null then 'QN002'
      when not queen.handed_out(d) @> a."offset" then 'QN010'
    end as code
    from unnest(p_nack_ids, p_nack_tokens, p_nack_partition_ids, p_nack_offsets)
      with ordinality a (id, token, partition_id, "offset", ordinal)
    left join lateral (
      select d.*
      from queen.deliveries d
      where d.id = a.id and d.token = a.token and d.held and d.partition_id = coalesce(a.partition_id, d.partition_id)
      offset 0
    ) d on true
    union all
    select 'lease', a.ordinal, case when d.id is null then 'QN002' end
    from unnest(p_lease_ids, p_lease_tokens) with ordinality a (id, token, ordinal)
    left join lateral (
      select d.* from queen.deliveries d where d.id = a.id and d.token = a.token and d.held offset 0
    ) d on true
  ) r
  where r.code is not null;
  if found then
    return;
  end if;

  for v_row in
    select p.*
    from queen.push(
      p_partition_ids, p_counts, p_bodies, p_ends, p_extras, p_ttls, p_keys, p_key_entries, p_key_places, p_key_counts, null, null,
      p_scheduled_partition_ids, p_scheduled_delays, p_scheduled_dues, p_scheduled_payloads, p_scheduled_extras,
      p_scheduled_ttls, p_max_delay
    ) p
  loop
    return query select v_row.kind, v_row.ordinal, v_row."offset", v_row.created_at, v_row.xid, v_row.code;
  end loop;
  if v_row.kind <> 'stored' then
    return;
  end if;
  if p_producers is not null then
    perform queen.record_producers(p_producers, p_sequences, queen.now());
  end if;
  -- The outcome of each nack, for metrics. The column "offset" holds the group id.
  return query
  select
    case
      when p_nack_kinds[n.ordinal] = 'completed' then 'acked'
      when n.is_dead then 'buried'
      when n.due_at is null then 'dropped'
      else 'nacked'
    end, n.ordinal, n.group_id, null::timestamptz, null::bigint, null::text
  from queen.nack(
    p_nack_ids, p_nack_tokens, p_nack_partition_ids, p_nack_offsets, p_nack_kinds, p_nack_errors, p_nack_delays,
    p_transaction_ids, p_results, p_seconds
  ) n;
  return query
  select
    queen.advance_step(a.workflow, a.step, a.part, a.token, a.outcome, a.result::json, a.error, a.attempts, queen.now()),
    a.ordinal::integer, null::bigint, null::timestamptz, null::bigint, null::text
  from unnest(
    p_workflows, p_steps, p_parts, p_step_tokens, p_outcomes, p_step_results, p_step_errors, p_step_attempts
  ) with ordinality a (workflow, step, part, token, outcome, result, error, attempts, ordinal);
end
$$;

-- Whether these kinds of rows are those of a transaction that was applied. Otherwise it was rejected.
create or replace function queen.is_applied (p_kinds text[])
  returns boolean
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select p_kinds <@ array['stored', 'gap', 'acked', 'nacked', 'buried', 'dropped', 'advanced', 'ended', 'stale']
$$;
