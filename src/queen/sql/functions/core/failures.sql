-- Helpers that end a failed attempt: retry later, or write a dead letter.

-- End the attempt at one message of a delivery that the caller has locked.
--
-- Returns when the message is due again. Returns null if its retries are exhausted: it was dead-lettered, or dropped if the
-- queue keeps no dead letters. The backoff counts from p_from.
-- On an ordered queue the delivery ends too. Open messages before the failed one are due first, immediately, and the
-- failed one is parked behind them (docs/decisions/0008). The caller has locked the pair of an ordered delivery.
create or replace function queen.fail (
  p_delivery queen.deliveries,
  p_queue    queen.queues,
  p_offset   bigint,
  p_kind     text,
  p_error    text,
  p_delay    double precision,
  p_from     timestamptz,
  p_now      timestamptz
)
  returns timestamptz
  language plpgsql
  volatile
as $$
declare
  v_failed   int8multirange := int8multirange(int8range(p_offset, p_offset + 1));
  v_left     int8multirange := p_delivery.pending - v_failed;
  v_before   int8multirange;
  v_attempts integer := case when p_offset = p_delivery.head then p_delivery.attempts else 0 end;
  v_due      timestamptz;
begin
  if p_kind in ('failed', 'expired') then
    v_attempts := v_attempts + 1;
  end if;

  if p_kind = 'dead' or (p_kind <> 'retry' and v_attempts > p_queue.retry_limit) then
    if p_kind = 'dead' or p_queue.dead_letter then
      perform queen.bury(
        p_delivery, p_offset, v_attempts + (p_kind = 'dead')::integer, p_kind, p_error, p_now
      );
    end if;
    if p_kind = 'dead' or isempty(v_left) or (p_kind = 'failed' and not p_delivery.ordered) then
      perform queen.shrink(p_delivery, v_failed);
    else
      -- The rest is due immediately, with its attempts reset.
      update queen.deliveries d
      set
        id = queen.delivery_id(d.partition_id), token = gen_random_uuid(), pending = v_left,
        head = null, attempts = 0, error = null, out_end = null, held = false, until = p_now
      where d.id = p_delivery.id;
    end if;
    return null;
  end if;

  v_due := case
    when p_delay is not null then p_now + make_interval(secs => p_delay)
    when p_kind = 'retry' then p_now
    else p_from + queen.backoff(p_queue, v_attempts)
  end;
  if p_delivery.ordered and lower(p_delivery.pending) < p_offset then
    v_before := p_delivery.pending * int8multirange(int8range(null, p_offset));
    insert into queen.deliveries (
      id, group_id, partition_id, priority, pending, head, until, parked_until, held, ordered, attempts, error
    ) values (
      queen.delivery_id(p_delivery.partition_id), p_delivery.group_id, p_delivery.partition_id, p_delivery.priority,
      p_delivery.pending - v_before, p_offset, 'infinity', v_due, false, true, v_attempts, p_error
    );
    update queen.consumers c
    set version = c.version + 1, parked = c.parked + 1
    where c.partition_id = p_delivery.partition_id and c.group_id = p_delivery.group_id;
    update queen.deliveries d
    set
      id = queen.delivery_id(d.partition_id), token = gen_random_uuid(), pending = v_before, out_end = null, held = false,
      until = p_now
    where d.id = p_delivery.id;
  elsif p_delivery.ordered or isempty(v_left) then
    update queen.deliveries d
    set
      id = queen.delivery_id(d.partition_id), token = gen_random_uuid(), head = p_offset,
      attempts = v_attempts, error = coalesce(p_error, d.error), out_end = null, held = false, until = v_due
    where d.id = p_delivery.id;
  else
    insert into queen.deliveries (
      id, group_id, partition_id, priority, pending, head, until, held, ordered, attempts, error
    ) values (
      queen.delivery_id(p_delivery.partition_id), p_delivery.group_id, p_delivery.partition_id, p_delivery.priority,
      v_failed, p_offset, v_due, false, false, v_attempts, p_error
    );
    if p_kind = 'expired' then
      update queen.deliveries d
      set id = queen.delivery_id(d.partition_id), token = gen_random_uuid(), pending = v_left, held = false, until = p_now
      where d.id = p_delivery.id;
    else
      update queen.deliveries d set pending = v_left where d.id = p_delivery.id;
    end if;
  end if;
  return v_due;
end
$$;

-- Write a message to the dead letters, with its own copy of payload and extras.
create or replace function queen.bury (
  p_delivery queen.deliveries,
  p_offset   bigint,
  p_attempts integer,
  p_kind     text,
  p_error    text,
  p_now      timestamptz
)
  returns void
  language plpgsql
  volatile
as $$
begin
  insert into queen.dead_letters (
    queue_id, group_id, partition_id, "offset", queue, "group", partition, level, payload, extras,
    created_at, attempts, reason, error, failed_at
  )
  select
    q.id, g.id, p.id, p_offset, q.name, g.name, p.name, p.level, m.payload, m.extras,
    m.created_at, p_attempts, p_kind, coalesce(p_error, p_delivery.error), p_now
  from queen.partitions p
  join queen.queues q on q.id = p.queue_id
  join queen.groups g on g.id = p_delivery.group_id
  cross join lateral queen.message_at(p_delivery, p_offset) m
  where p.id = p_delivery.partition_id
  on conflict on constraint dead_letters_are_one_per_message_and_group do nothing;
end
$$;

-- One message of a delivery: its own copy if it has one, otherwise read from its segment.
create or replace function queen.message_at (p_delivery queen.deliveries, p_offset bigint)
  returns table (payload bytea, extras bytea, created_at timestamptz)
  language plpgsql
  stable
as $$
#variable_conflict use_column
begin
  return query
  select p_delivery.payload, p_delivery.extras, p_delivery.created_at
  where p_delivery.payload is not null
  union all
  (
    select
      queen.payload_at(s.body, s.ends, (p_offset - s.base_offset)::integer),
      queen.extra_at(s.extras, s.message_count, (p_offset - s.base_offset)::integer),
      s.created_at
    from queen.segments s
    where p_delivery.payload is null
      and s.partition_id = p_delivery.partition_id
      and s.base_offset <= p_offset
      and s.body is not null
    order by s.base_offset desc
    limit 1
  );
end
$$;
