-- Give messages back, or settle them one by one: one request a message.
--
-- p_kinds: `failed` counts an attempt and waits for its backoff, `retry` does neither, `dead` gives up at once;
-- `completed` settles, for callers who say both at once.
-- p_delays: seconds in place of the backoff, or null.
-- Of an ordered delivery only the lowest failure of a call counts: there the delivery ends, and what it leaves
-- open goes back uncounted.
-- What is `completed` of a delivery is settled in one go, whatever its number.
-- Answers one row a request, in the order asked: when, and in how many seconds, the message is due again (null when it
-- became a dead letter or was dropped) and whether the delivery is over, or the refusal QN002 (the pair is not
-- current, or belongs to another partition than the message; p_partition_ids null: unchecked) or QN010 (this message is
-- settled already, or was not handed out). Completing what is settled already is no refusal.
-- Locks: consumers of ordered deliveries, then deliveries by id.
create or replace function queen.nack (
  p_ids           bigint[],
  p_tokens        uuid[],
  p_partition_ids bigint[],
  p_offsets       bigint[],
  p_kinds         text[],
  p_errors        text[],
  p_delays        double precision[]
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
#variable_conflict use_column
declare
  v_request  record;
  v_delivery queen.deliveries;
  v_queue    queen.queues;
  v_now      timestamptz;
  v_due      timestamptz;
  v_ended    queen.deliveries;
begin
  perform queen.lock_consumers(p_ids, p_tokens);
  perform 1 from (select d.id from queen.deliveries d where d.id = any (p_ids) order by d.id for no key update) l;
  v_now := queen.now();

  -- What is done leaves while the delivery is still there to leave from.
  if 'completed' = any (p_kinds) then
    return query
    select c.*
    from queen.complete(p_ids, p_tokens, p_partition_ids, p_offsets, p_kinds) c;
  end if;
  for v_request in
    select a.*
    from unnest(p_ids, p_tokens, p_partition_ids, p_offsets, p_kinds, p_errors, p_delays)
      with ordinality a (id, token, partition_id, "offset", kind, error, delay, ordinal)
    where a.kind <> 'completed'
    -- And so does what is dead.
    order by a.id, a.kind <> 'dead', a."offset"
  loop
    if v_request.id = v_ended.id and v_request.token = v_ended.token
      and v_ended.partition_id = coalesce(v_request.partition_id, v_ended.partition_id)
      and queen.handed_out(v_ended) @> v_request."offset"
    then
      -- The delivery ended at a lower message of this call; this one goes back uncounted.
      return query select
        v_request.ordinal::integer, v_ended.group_id, v_now, 0::double precision, false, true, null::text;
      continue;
    end if;
    select d.* into v_delivery
    from queen.deliveries d
    where d.id = v_request.id and d.token = v_request.token and d.held
      and d.partition_id = coalesce(v_request.partition_id, d.partition_id);
    if not found then
      return query select
        v_request.ordinal::integer, null::bigint, null::timestamptz, null::double precision, null::boolean,
        null::boolean, case when v_request.id = v_ended.id and v_request.token = v_ended.token then 'QN010' else 'QN002' end;
      continue;
    end if;
    if not queen.handed_out(v_delivery) @> v_request."offset" then
      return query
      select
        v_request.ordinal::integer, v_delivery.group_id, null::timestamptz, null::double precision, null::boolean,
        false, 'QN010';
      continue;
    end if;
    select q.* into v_queue
    from queen.groups g join queen.queues q on q.id = g.queue_id
    where g.id = v_delivery.group_id;
    v_due := queen.fail(
      v_delivery, v_queue, v_request."offset", v_request.kind, v_request.error, v_request.delay, v_now, v_now
    );
    if v_delivery.ordered and v_request.kind <> 'dead' then
      v_ended := v_delivery;
    end if;
    return query
    select
      v_request.ordinal::integer, v_delivery.group_id, v_due, extract(epoch from v_due - v_now)::double precision,
      v_due is null and (v_request.kind = 'dead' or v_queue.dead_letter), queen.is_over(v_request.id, v_request.token), null::text;
  end loop;
end
$$;

-- The completed ones of a nack: one shrink a delivery. The caller has locked consumers and deliveries.
create or replace function queen.complete (
  p_ids           bigint[],
  p_tokens        uuid[],
  p_partition_ids bigint[],
  p_offsets       bigint[],
  p_kinds         text[]
)
  returns table (
    ordinal integer, group_id bigint, due_at timestamptz, due_seconds double precision, is_dead boolean,
    is_over boolean, code text
  )
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_request  record;
  v_settled  record;
begin
  for v_request in
    select
      a.id, a.token, a.partition_id,
      array_agg(a.ordinal::integer) as ordinals,
      array_agg(a."offset") as offsets,
      range_agg(int8range(a."offset", a."offset" + 1)) as named
    from unnest(p_ids, p_tokens, p_partition_ids, p_offsets, p_kinds)
      with ordinality a (id, token, partition_id, "offset", kind, ordinal)
    where a.kind = 'completed'
    group by a.id, a.token, a.partition_id
    order by a.id
  loop
    select s.* into v_settled
    from queen.settle(v_request.id, v_request.token, v_request.named, v_request.partition_id) s;
    return query
    select
      o.ordinal, v_settled.group_id, null::timestamptz, null::double precision, false, v_settled.is_over,
      case when v_settled.refused @> o."offset" then 'QN010' else v_settled.code end
    from unnest(v_request.ordinals, v_request.offsets) o (ordinal, "offset");
  end loop;
end
$$;

-- Whether a lease has ended.
create or replace function queen.is_over (p_id bigint, p_token uuid)
  returns boolean
  language plpgsql
  stable
as $$
begin
  return (
    select not exists (select 1 from queen.deliveries d where d.id = p_id and d.token = p_token and d.held)
  );
end
$$;

-- End the attempt at one message of a delivery that the caller has locked.
--
-- Answers when the message is due again, or null when it gave up: a dead letter, or dropped where the queue
-- keeps none. p_from is the instant that the backoff counts from. Ordered: the delivery ends with it; what is open before
-- the message comes first, at once, and the message waits parked behind that (docs/decisions/0008). The caller
-- has locked the pair of an ordered delivery.
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
      -- The rest is due at once, and free of the blame.
      update queen.deliveries d
      set
        id = nextval('queen.delivery_ids'), token = gen_random_uuid(), pending = v_left,
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
      group_id, partition_id, priority, pending, head, until, parked_until, held, ordered, attempts, error
    ) values (
      p_delivery.group_id, p_delivery.partition_id, p_delivery.priority, p_delivery.pending - v_before, p_offset,
      'infinity', v_due, false, true, v_attempts, p_error
    );
    update queen.consumers c
    set version = c.version + 1, parked = c.parked + 1
    where c.partition_id = p_delivery.partition_id and c.group_id = p_delivery.group_id;
    update queen.deliveries d
    set
      id = nextval('queen.delivery_ids'), token = gen_random_uuid(), pending = v_before, out_end = null, held = false,
      until = p_now
    where d.id = p_delivery.id;
  elsif p_delivery.ordered or isempty(v_left) then
    update queen.deliveries d
    set
      id = nextval('queen.delivery_ids'), token = gen_random_uuid(), head = p_offset,
      attempts = v_attempts, error = coalesce(p_error, d.error), out_end = null, held = false, until = v_due
    where d.id = p_delivery.id;
  else
    insert into queen.deliveries (
      group_id, partition_id, priority, pending, head, until, held, ordered, attempts, error
    ) values (
      p_delivery.group_id, p_delivery.partition_id, p_delivery.priority, v_failed, p_offset, v_due, false,
      false, v_attempts, p_error
    );
    if p_kind = 'expired' then
      update queen.deliveries d
      set id = nextval('queen.delivery_ids'), token = gen_random_uuid(), pending = v_left, held = false, until = p_now
      where d.id = p_delivery.id;
    else
      update queen.deliveries d set pending = v_left where d.id = p_delivery.id;
    end if;
  end if;
  return v_due;
end
$$;

-- Keep a message that gave up, with its own copy of all that it was.
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

-- One message of a delivery: its own copy if it has one, else out of its segment.
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
