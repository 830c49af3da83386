-- The status of messages for a group, and their stored results. One row per message, in request order.
--
-- A message is named by its transactionId and, if known, its partition and offset. The result contains them if the request
-- did not. status: `pending`, `processing`, `failed` (waits for a retry), `completed`, `dead_letter`, `cancelled`. Null if the
-- offset does not exist, or if the request has none and no result is stored.
create or replace function queen.find_results (
  p_queue_ids       bigint[],
  p_transaction_ids text[],
  p_partition_ids   bigint[],
  p_offsets         bigint[],
  p_group           text
)
  returns table (
    ordinal integer, partition_id bigint, "offset" bigint, status text, attempts integer, until timestamptz,
    error text, dead_letter_id bigint, settled_at timestamptz, result bytea, progress bytea
  )
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
    n.ordinal::integer, coalesce(n.partition_id, r.partition_id), coalesce(n."offset", r."offset"),
    case
      when r.is_cancelled then 'cancelled'
      -- The ack stored it.
      when r.result is not null then 'completed'
      else s.status
    end,
    s.attempts, s.until, s.error, s.dead_letter_id, coalesce(r.settled_at, s.failed_at), r.result, r.progress
  from unnest(p_queue_ids, p_transaction_ids, p_partition_ids, p_offsets)
    with ordinality n (queue_id, transaction_id, partition_id, "offset", ordinal)
  left join lateral (
    select r.partition_id, r."offset", r.is_cancelled, r.result, r.progress, r.settled_at
    from queen.results r
    where r.queue_id = n.queue_id and r.transaction_id = n.transaction_id
      -- Ignore an earlier message with the same transactionId.
      and (n."offset" is null or (r.partition_id, r."offset") = (n.partition_id, n."offset"))
    offset 0
  ) r on true
  left join lateral queen.state_of(n.queue_id, n.partition_id, n."offset", p_group) s on true
  order by n.ordinal;
end
$$;

-- The status of the message at an offset for a group. No row if there is no such message.
create or replace function queen.state_of (p_queue_id bigint, p_partition_id bigint, p_offset bigint, p_group text)
  returns table (
    status text, attempts integer, until timestamptz, error text, dead_letter_id bigint, failed_at timestamptz
  )
  language plpgsql
  stable
as $$
#variable_conflict use_column
declare
  v_group_id bigint;
  v_claimed  bigint;
  v_delivery queen.deliveries;
  v_charged  integer;
begin
  if not exists (
    select 1 from queen.partitions p where p.id = p_partition_id and p.queue_id = p_queue_id
  ) or p_offset >= coalesce((
    select s.base_offset + s.message_count
    from queen.segments s
    where s.partition_id = p_partition_id
    order by s.base_offset desc
    limit 1
  ), 0) then
    return;
  end if;
  select g.id into v_group_id
  from queen.groups g
  where g.queue_id = p_queue_id and g.name = p_group and g.deleted_at is null;
  select c.claimed into v_claimed
  from queen.consumers c
  where c.partition_id = p_partition_id and c.group_id = v_group_id
  order by c.version desc
  limit 1;
  select d.* into v_delivery
  from queen.deliveries d
  where d.partition_id = p_partition_id and d.group_id = v_group_id and d.pending @> p_offset
  order by d.id desc
  limit 1;
  if v_delivery.id is not null then
    v_charged := case when v_delivery.head = p_offset then v_delivery.attempts else 0 end;
    if v_delivery.held and queen.handed_out(v_delivery) @> p_offset then
      -- An expired lease is a failed attempt, even before a pop has recorded it.
      return query
      select
        case when v_delivery.until > queen.now() then 'processing' else 'failed' end, v_charged + 1, v_delivery.until,
        v_delivery.error, null::bigint, null::timestamptz;
    elsif v_delivery.head = p_offset and not v_delivery.held then
      return query
      select
        'failed', v_charged, nullif(v_delivery.until, 'infinity'), v_delivery.error, null::bigint, null::timestamptz;
    else
      return query
      select 'pending', v_charged, null::timestamptz, v_delivery.error, null::bigint, null::timestamptz;
    end if;
    return;
  end if;
  -- A seek may have returned a dead letter to the group: then it is pending again.
  if v_claimed is null or p_offset >= v_claimed then
    return query
    select 'pending', 0, null::timestamptz, null::text, null::bigint, null::timestamptz;
    return;
  end if;
  return query
  select 'dead_letter', l.attempts, null::timestamptz, l.error, l.id, l.failed_at
  from queen.dead_letters l
  where l.partition_id = p_partition_id and l."offset" = p_offset and l.group_id = v_group_id;
  if not found then
    return query
    select 'completed', null::integer, null::timestamptz, null::text, null::bigint, null::timestamptz;
  end if;
end
$$;

-- Find the message with a transactionId in any priority of a partition: an offset, or the id of a row in queen.scheduled.
-- No row if it is unknown. Searches the keys first, then the extras of the newest p_most messages of each priority.
create or replace function queen.find_place (
  p_queue_id       bigint,
  p_partition      text,
  p_transaction_id text,
  p_most           integer
)
  returns table (partition_id bigint, "offset" bigint, scheduled_id bigint)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
  select p.id, k."offset", s.id
  from queen.partitions p
  cross join lateral queen.offsets_of_key(p.id, p_transaction_id) k
  left join lateral (
    select s.id
    from queen.scheduled s
    where k."offset" is null and s.key = queen.dedup_key(p.id, p_transaction_id)
    limit 1
  ) s on true
  where p.queue_id = p_queue_id and p.name = p_partition and (k."offset" is not null or s.id is not null)
  order by k.at desc
  limit 1;
  if found then
    return;
  end if;
  return query
  select p.id, f."offset", f.scheduled_id
  from queen.partitions p
  cross join lateral queen.find_message(p.id, p_transaction_id, p_most) f
  where p.queue_id = p_queue_id and p.name = p_partition
  limit 1;
end
$$;
