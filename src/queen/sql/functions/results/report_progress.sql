-- Store the progress of a message. Returns false if its lease is not the current one, or no longer contains the message.
--
-- Raises QN017 as queen.keep does. Locks: the slot, results.
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
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_now     timestamptz;
  v_queue   record;
begin
  perform queen.enter(array[p_partition_id]);
  v_now := queen.now();
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
    raise exception 'the queue is encrypted, but the progress is not' using errcode = 'QN017';
  end if;
  insert into queen.results as r (queue_id, transaction_id, partition_id, "offset", progress, expires_at)
  values (
    v_queue.id, p_transaction_id, p_partition_id, p_offset, p_progress, v_now + make_interval(secs => p_seconds)
  )
  on conflict (queue_id, transaction_id) do update
  set
    partition_id = excluded.partition_id, "offset" = excluded."offset", progress = excluded.progress,
    -- The row of an earlier message with the same transactionId.
    result = null, settled_at = null, is_cancelled = false,
    expires_at = excluded.expires_at;
  return true;
end
$$;
