-- Remember what messages came to, each for so many seconds; what was cancelled stays so.
--
-- Raises QN017 when a queue is encrypted and a result is not sealed. Locks: results by queue and transactionId.
create or replace function queen.keep (
  p_queue_ids       bigint[],
  p_transaction_ids text[],
  p_partition_ids   bigint[],
  p_offsets         bigint[],
  p_results         bytea[],
  p_seconds         double precision[]
)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_now timestamptz := queen.now();
begin
  if exists (
    select 1
    from unnest(p_queue_ids, p_results) k (queue_id, result)
    join queen.queues q on q.id = k.queue_id
    where q.encrypted and get_byte(k.result, 0) <> 1
  ) then
    raise exception 'the queue is encrypted, and a result is not sealed' using errcode = 'QN017';
  end if;
  insert into queen.results as r (
    queue_id, transaction_id, partition_id, "offset", result, settled_at, expires_at
  )
  select distinct on (k.queue_id, k.transaction_id)
    k.queue_id, k.transaction_id, k.partition_id, k."offset", k.result, v_now, v_now + make_interval(secs => k.seconds)
  from unnest(p_queue_ids, p_transaction_ids, p_partition_ids, p_offsets, p_results, p_seconds)
    k (queue_id, transaction_id, partition_id, "offset", result, seconds)
  order by k.queue_id, k.transaction_id
  on conflict (queue_id, transaction_id) do update
  set
    partition_id = excluded.partition_id, "offset" = excluded."offset", result = excluded.result,
    progress = case when (r.partition_id, r."offset") = (excluded.partition_id, excluded."offset") then r.progress end,
    settled_at = excluded.settled_at, is_cancelled = false, expires_at = excluded.expires_at
  where not r.is_cancelled
    or (r.partition_id, r."offset") is distinct from (excluded.partition_id, excluded."offset");
end
$$;

-- As queen.ack, and remember results of what was accepted: each of the request p_ordinals names, at one of its offsets.
-- Locks: those of queen.ack, then results.
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
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
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

-- As queen.nack, and remember results of what was completed: each of the request that p_ordinals names.
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
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
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

-- As queen.transact, and remember results of what it acked: each of the nack that p_result_ordinals names.
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
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
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
      -- The group stands in place of the offset.
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

-- The queue of a group.
create or replace function queen.queue_of (p_group_id bigint)
  returns bigint
  language plpgsql
  stable
as $$
begin
  return (select g.queue_id from queen.groups g where g.id = p_group_id);
end
$$;

-- Remember how far a message has come. False when its lease is not the current one, or it is in it no more.
--
-- Raises QN017 as queen.keep does. Locks: results.
create or replace function queen.report_progress (
  p_id             bigint,
  p_token          uuid,
  p_transaction_id text,
  p_partition_id   bigint,
  p_offset         bigint,
  p_progress       bytea,
  p_seconds        double precision
)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now     timestamptz := queen.now();
  v_queue   record;
begin
  select q.id, q.encrypted into v_queue
  from queen.deliveries d
  join queen.groups g on g.id = d.group_id
  join queen.queues q on q.id = g.queue_id
  where d.id = p_id and d.token = p_token and d.held
    and d.partition_id = p_partition_id and queen.handed_out(d) @> p_offset;
  if not found then
    return false;
  end if;
  if v_queue.encrypted and get_byte(p_progress, 0) <> 1 then
    raise exception 'the queue is encrypted, and this is not sealed' using errcode = 'QN017';
  end if;
  insert into queen.results as r (queue_id, transaction_id, partition_id, "offset", progress, expires_at)
  values (
    v_queue.id, p_transaction_id, p_partition_id, p_offset, p_progress, v_now + make_interval(secs => p_seconds)
  )
  on conflict (queue_id, transaction_id) do update
  set
    partition_id = excluded.partition_id, "offset" = excluded."offset", progress = excluded.progress,
    -- What is left of an earlier message of that transactionId.
    result = null, settled_at = null, is_cancelled = false,
    expires_at = excluded.expires_at;
  return true;
end
$$;

-- Forget results whose time is over, at most p_limit; answers how many. Raises QN016.
-- Locks: the duty, results; skips what is locked.
create or replace function queen.forget_results (p_epoch bigint, p_limit integer)
  returns integer
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
declare
  v_now     timestamptz := queen.now();
  v_removed integer;
begin
  perform queen.hold_duty('results', p_epoch);
  with old as materialized (
    select r.ctid
    from queen.results r
    where r.expires_at <= v_now
    order by r.expires_at
    limit p_limit
    for update skip locked
  )
  delete from queen.results r using old o where r.ctid = o.ctid;
  get diagnostics v_removed = row_count;
  return v_removed;
end
$$;
