-- Acks, nacks and pushes in one transaction: all are applied, or none.
--
-- The arguments are those of ack, nack and push. p_lease_ids, p_lease_tokens: leases that must be current.
-- Returns the rows of push, then one row per nack. If anything is rejected, applies nothing and returns the rejections of
-- push, or rows of kind `ack`, `nack` or `lease` with the ordinal of the request and QN002 or QN010.
-- Locks: partitions by id, then consumers, then deliveries by id.
create or replace function queen.transact (
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
  p_max_delay               double precision
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
  perform queen.lock_consumers(p_ack_ids || p_nack_ids, p_ack_tokens || p_nack_tokens);
  perform 1
  from (
    select d.id
    from queen.deliveries d
    where d.id = any (p_ack_ids || p_nack_ids || p_lease_ids)
    order by d.id
    for no key update
  ) l;

  -- Check everything first, to avoid an undo.
  return query
  select r.kind, r.ordinal::integer, null::bigint, null::timestamptz, null::bigint, r.code
  from (
    select 'ack' as kind, a.ordinal, case
      when d.id is null then 'QN002'
      when not queen.handed_out(d) @> coalesce(a.offsets, queen.handed_out(d)) then 'QN010'
    end as code
    from unnest(p_ack_ids, p_ack_tokens, p_ack_offsets) with ordinality a (id, token, offsets, ordinal)
    left join lateral (
      select d.* from queen.deliveries d where d.id = a.id and d.token = a.token and d.held offset 0
    ) d on true
    union all
    select 'nack', a.ordinal, case
      when d.id is null then 'QN002'
      when not queen.handed_out(d) @> a."offset" then 'QN010'
    end
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
  perform queen.ack(p_ack_ids, p_ack_tokens, p_ack_offsets);
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
    p_nack_ids, p_nack_tokens, p_nack_partition_ids, p_nack_offsets, p_nack_kinds, p_nack_errors, p_nack_delays
  ) n;
end
$$;
