-- Store the results of messages, each for p_seconds. A cancelled message stays cancelled.
--
-- Raises QN017 if a queue is encrypted and a result is not. Locks: results by queue and transactionId.
create or replace function queen.keep (
  p_partition_ids   bigint[],
  p_offsets         bigint[],
  p_transaction_ids text[],
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
    from unnest(p_partition_ids, p_results) k (partition_id, result)
    cross join lateral (select p.queue_id from queen.partitions p where p.id = k.partition_id offset 0) p
    join queen.queues q on q.id = p.queue_id
    where q.encrypted and get_byte(k.result, 0) <> 1
  ) then
    raise exception 'the queue is encrypted, but a result is not' using errcode = 'QN017';
  end if;
  insert into queen.results as r (
    queue_id, transaction_id, partition_id, "offset", result, settled_at, expires_at
  )
  select distinct on (p.queue_id, k.transaction_id)
    p.queue_id, k.transaction_id, k.partition_id, k."offset", k.result, v_now, v_now + make_interval(secs => k.seconds)
  from unnest(p_partition_ids, p_offsets, p_transaction_ids, p_results, p_seconds)
    k (partition_id, "offset", transaction_id, result, seconds)
  cross join lateral (select p.queue_id from queen.partitions p where p.id = k.partition_id offset 0) p
  order by p.queue_id, k.transaction_id
  on conflict (queue_id, transaction_id) do update
  set
    partition_id = excluded.partition_id, "offset" = excluded."offset", result = excluded.result,
    progress = case when (r.partition_id, r."offset") = (excluded.partition_id, excluded."offset") then r.progress end,
    settled_at = excluded.settled_at, is_cancelled = false, expires_at = excluded.expires_at
  where not r.is_cancelled
    or (r.partition_id, r."offset") is distinct from (excluded.partition_id, excluded."offset");
end
$$;
