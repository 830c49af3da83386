-- Claim deliveries whose lease expired or whose next attempt is due.
--
-- An expired lease counts as a failed attempt of its first unsettled message. The other messages keep their attempts.
-- The arguments are those of claim_new. Locks: deliveries, then consumers, then partitions; skips locked rows.
create or replace function queen.claim_due (
  p_group_id        bigint,
  p_queue           queen.queues,
  p_level           integer,
  p_partition_ids   bigint[],
  p_since           timestamptz,
  p_left            integer[],
  p_partitions_left integer[],
  p_leases          double precision[],
  p_auto            boolean,
  p_budget          bigint,
  p_free            bigint,
  p_now             timestamptz
)
  returns queen.claim
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_claim    queen.claim;
  v_delivery queen.deliveries;
  v_consumer queen.consumers;
  v_request  integer := 1;
  v_out      int8multirange;
  v_dead     int8multirange;
  v_run      int8range;
  v_count    bigint;
  v_most     bigint;
  v_budget   bigint := p_budget;
  v_due      timestamptz;
  v_recent   bigint[];
begin
  v_claim.taken := 0;
  v_claim.messages := 0;
  v_claim.expired := 0;
  v_claim.lapsed := 0;
  v_claim.buried := 0;
  v_claim.dropped := 0;
  v_claim.has_more := false;
  v_claim.left_messages := p_left;
  v_claim.left_partitions := p_partitions_left;
  for v_delivery in
    select d.*
    from queen.due_deliveries(
      p_group_id, p_queue.slot is null, p_level, p_partition_ids, p_since, p_now,
      -- A few more than requested, because some may have ended. No more than that, because every row found is locked.
      case when p_budget is null and p_free is null then (
        select least(1000, 10 + sum(o.partitions))::integer
        from unnest(p_left, p_partitions_left) o (messages, partitions)
        where o.messages > 0
      ) else 1 end
    ) d
  loop
    while v_request <= cardinality(p_left)
      and (v_claim.left_messages[v_request] <= 0 or v_claim.left_partitions[v_request] <= 0)
    loop
      v_request := v_request + 1;
    end loop;
    exit when v_request > cardinality(p_left) or v_budget <= 0;
    v_claim.first_at := least(v_claim.first_at, v_delivery.until);

    -- Ending an ordered delivery updates its pair. Lock the pair first, or skip the delivery.
    if v_delivery.ordered or p_queue.rate_per = 'partition' then
      select c.* into v_consumer
      from queen.consumers c
      where c.partition_id = v_delivery.partition_id and c.group_id = p_group_id
      order by c.version desc
      limit 1
      for no key update skip locked;
      continue when not found;
    end if;

    if v_delivery.held then
      v_due := queen.fail(
        v_delivery, p_queue, lower(queen.handed_out(v_delivery)), 'expired', 'the lease expired', null,
        v_delivery.until, p_now
      );
      v_claim.lapsed := v_claim.lapsed + 1;
      if v_due is null and p_queue.dead_letter then
        v_claim.buried := v_claim.buried + 1;
      elsif v_due is null then
        v_claim.dropped := v_claim.dropped + 1;
      end if;
      -- The next call finds the part that is due now.
      v_claim.has_more := true;
      continue;
    end if;

    v_dead := queen.expired_of(v_delivery, p_now);
    if not isempty(v_dead) then
      v_claim.expired := v_claim.expired + queen.count_of(v_dead);
      v_claim.has_more := true;
      perform queen.drop_expired(v_delivery, v_dead);
      continue;
    end if;

    v_most := least(v_claim.left_messages[v_request], v_budget);
    if p_queue.rate_per = 'partition' then
      v_recent := queen.recent_of(v_consumer.recent, v_delivery.partition_id, p_group_id, p_queue);
      continue when v_recent is null;
      v_count := queen.allowance(v_recent, p_queue.rate_max, p_queue.rate_ms, p_now);
      if v_count <= 0 then
        update queen.deliveries d
        set until = queen.rate_opens_at(v_recent, p_queue.rate_max, p_queue.rate_ms, p_now)
        where d.id = v_delivery.id;
        continue;
      end if;
      -- A push finds idle rows by their position, so an idle row may move only under the partition's lock.
      if v_consumer.idle_at is not null then
        perform 1
        from queen.partitions p
        where p.id = v_delivery.partition_id
        for no key update skip locked;
        continue when not found;
      end if;
      v_most := least(v_most, v_count);
    end if;
    v_out := queen.first_of(queen.handed_out(v_delivery), v_most);
    v_count := queen.count_of(v_out);
    if p_queue.rate_per = 'partition' then
      update queen.consumers c
      set version = c.version + 1, recent = queen.spend(c.recent, p_queue.rate_ms, p_now, v_count)
      where c.partition_id = v_consumer.partition_id and c.group_id = p_group_id and c.version = v_consumer.version;
    end if;
    if not v_delivery.ordered and v_out <> v_delivery.pending then
      -- The rest of an unordered range does not have to wait for this part.
      insert into queen.deliveries (id, group_id, partition_id, priority, pending, until, held, ordered)
      values (
        queen.delivery_id(v_delivery.partition_id), p_group_id, v_delivery.partition_id, v_delivery.priority,
        v_delivery.pending - v_out, p_now, false, false
      );
      v_delivery.pending := v_out;
      v_claim.has_more := true;
    end if;
    update queen.deliveries d
    set
      id = queen.delivery_id(d.partition_id),
      token = gen_random_uuid(),
      pending = v_delivery.pending,
      out_end = case when v_delivery.head is null and v_out <> v_delivery.pending then upper(v_out) end,
      held = true,
      until = p_now + make_interval(secs => coalesce(p_leases[v_request], p_queue.lease_seconds))
    where d.id = v_delivery.id
    returning d.* into v_delivery;
    if p_auto then
      perform queen.shrink(v_delivery, v_out);
      v_delivery.id := null;
      v_delivery.token := null;
      v_delivery.until := null;
    end if;

    v_claim.taken := v_claim.taken + 1;
    v_claim.messages := v_claim.messages + v_count;
    v_budget := v_budget - v_count;
    v_claim.left_messages[v_request] := v_claim.left_messages[v_request] - v_count;
    v_claim.left_partitions[v_request] := v_claim.left_partitions[v_request] - 1;
    for v_run in select r from unnest(v_out) r order by lower(r) loop
      v_claim.requests := v_claim.requests || v_request;
      v_claim.delivery_ids := v_claim.delivery_ids || v_delivery.id;
      v_claim.tokens := v_claim.tokens || v_delivery.token;
      v_claim.partition_ids := v_claim.partition_ids || v_delivery.partition_id;
      v_claim.attempts := v_claim.attempts || v_delivery.attempts;
      v_claim.untils := v_claim.untils || v_delivery.until;
      v_claim.firsts := v_claim.firsts || lower(v_run);
      v_claim.ends := v_claim.ends || upper(v_run);
      v_claim.payloads := v_claim.payloads || v_delivery.payload;
      v_claim.extras := v_claim.extras || v_delivery.extras;
      v_claim.created_ats := v_claim.created_ats || v_delivery.created_at;
    end loop;
  end loop;
  v_claim.has_more := v_claim.has_more or (v_claim.taken > 0 and num_nonnulls(p_budget, p_free) > 0);
  return v_claim;
end
$$;

-- Lock deliveries of a group that are due. Skips locked rows and, in a spread queue, partitions that this database does not own.
create or replace function queen.due_deliveries (
  p_group_id      bigint,
  p_is_spread     boolean,
  p_level         integer,
  p_partition_ids bigint[],
  p_since         timestamptz,
  p_now           timestamptz,
  p_limit         integer
)
  returns setof queen.deliveries
  language plpgsql
  volatile
as $$
begin
  if p_partition_ids is null then
    return query
    select d.*
    from queen.deliveries d
    where d.group_id = p_group_id and d.priority = p_level and d.until >= p_since and d.until <= p_now
      and (not p_is_spread or queen.is_owned(d.partition_id))
    order by d.until
    limit p_limit
    for no key update skip locked;
  else
    return query
    select d.*
    from unnest(p_partition_ids) p (id)
    cross join lateral (
      select d.*
      from queen.deliveries d
      where d.partition_id = p.id and d.group_id = p_group_id and d.until >= p_since and d.until <= p_now
      order by d.until
      limit p_limit
      for no key update skip locked
    ) d
    where d.priority = p_level
    limit p_limit;
  end if;
end
$$;

-- Remove expired messages from a waiting delivery that the caller has locked.
create or replace function queen.drop_expired (p_delivery queen.deliveries, p_dead int8multirange)
  returns void
  language plpgsql
  volatile
as $$
begin
  if p_dead @> p_delivery.pending then
    perform queen.shrink(p_delivery, p_dead);
    return;
  end if;
  update queen.deliveries d
  set
    pending = d.pending - p_dead,
    head = case when p_dead @> d.head then null else d.head end,
    attempts = case when p_dead @> d.head then 0 else d.attempts end
  where d.id = p_delivery.id;
end
$$;

-- The pending offsets of a waiting delivery that have expired.
create or replace function queen.expired_of (p_delivery queen.deliveries, p_now timestamptz)
  returns int8multirange
  language plpgsql
  stable
as $$
begin
  return (
    select p_delivery.pending * coalesce(
      range_agg(int8range(s.base_offset, s.base_offset + s.message_count)), '{}'::int8multirange
    )
    from queen.segments s
    where p_delivery.payload is null
      and s.partition_id = p_delivery.partition_id
      and s.base_offset >= (
        select h.base_offset
        from queen.segments h
        where h.partition_id = p_delivery.partition_id and h.base_offset <= lower(p_delivery.pending)
        order by h.base_offset desc
        limit 1
      )
      and s.base_offset < upper(p_delivery.pending)
      and s.expires_at <= p_now
  );
end
$$;
