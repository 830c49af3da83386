-- Claim new messages that are ready at one priority level of a group.
--
-- p_partition_ids: only these partitions, or null. p_left, p_partitions_left: how many messages and partitions each
-- request still wants. p_budget, p_free: the rest of the queue's limits, null for no limit. With a limit, one delivery
-- is claimed per call. Locks: consumers, then partitions; skips locked rows.
create or replace function queen.claim_new (
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
  v_places          integer[] := '{}';
  v_ids             bigint[];
  v_ctids           tid[];
  v_claimeds        bigint[];
  v_available       bigint[];
  v_allowed         bigint[];
  v_first_at        timestamptz;
  v_passed          integer[];
  v_found           integer;
  v_locked          bigint[];
  v_late            bigint[];
  v_hold            boolean := p_queue.in_order and not p_auto;
  v_wait            double precision := greatest(p_queue.delay_seconds, p_queue.window_seconds);
  v_stale           timestamptz := queen.stale_before(p_queue, p_now);
  v_passing         record;
  v_left            integer[] := p_left;
  v_partitions_left integer[] := p_partitions_left;
  v_most            integer := case when p_budget is null and p_free is null then 1000 else 1 end;
  v_request         integer;
  v_take            bigint;
  v_messages        bigint := 0;
  v_requests        integer[] := '{}';
  v_taken           bigint[] := '{}';
  v_taken_rows      tid[] := '{}';
  v_firsts          bigint[] := '{}';
  v_ends            bigint[] := '{}';
  v_delivered       bigint[];
  v_tokens          uuid[];
  v_untils          timestamptz[];
  v_claim           queen.claim;
begin
  v_claim.taken := 0;
  v_claim.expired := 0;
  -- One place for each partition that a request may still take, in request order.
  if 1 >= all (p_partitions_left) then
    for v_request in 1 .. cardinality(p_left) loop
      exit when cardinality(v_places) >= v_most;
      if p_left[v_request] > 0 and p_partitions_left[v_request] > 0 then
        v_places := array_append(v_places, v_request);
      end if;
    end loop;
  else
    v_places := array(
      select u.request::integer
      from unnest(p_left, p_partitions_left) with ordinality u (messages, partitions, request)
      cross join lateral generate_series(1, u.partitions) as k
      where u.messages > 0
      order by k, u.request
      limit v_most
    );
  end if;

  if p_partition_ids is null then
    select array_agg(c.partition_id), array_agg(c.ctid), array_agg(c.claimed), min(c.ready_at)
    into v_ids, v_ctids, v_claimeds, v_first_at
    from (
      select c.ctid, c.partition_id, c.claimed, c.ready_at
      from queen.consumers c
      where c.group_id = p_group_id
        and c.priority = p_level
        and c.ready_at >= p_since
        and c.ready_at <= p_now
        and (p_queue.slot is not null or queen.is_owned(c.partition_id))
      order by c.ready_at
      limit cardinality(v_places)
      for no key update skip locked
    ) c;
  else
    select array_agg(c.partition_id), array_agg(c.ctid), array_agg(c.claimed)
    into v_ids, v_ctids, v_claimeds
    from (
      select c.ctid, c.partition_id, c.claimed
      from unnest(p_partition_ids) p (id)
      cross join lateral (
        select c.ctid, c.partition_id, c.claimed, c.ready_at, c.priority
        from queen.consumers c
        where c.partition_id = p.id and c.group_id = p_group_id
        order by c.version desc
        limit 1
        for no key update skip locked
      ) c
      where c.ready_at <= p_now and c.priority = p_level
      limit cardinality(v_places)
    ) c;
  end if;
  v_found := coalesce(cardinality(v_ids), 0);
  v_claim.has_more := v_found > 0 and v_found = cardinality(v_places);
  if v_found = 0 then
    return v_claim;
  end if;

  if p_queue.in_order and p_queue.order_changed_at is not null then
    v_late := queen.postpone(p_group_id, v_ids, v_ctids, p_now);
    if cardinality(v_late) > 0 then
      select array_agg(k.id), array_agg(k.ctid), array_agg(k.claimed)
      into v_ids, v_ctids, v_claimeds
      from unnest(v_ids, v_ctids, v_claimeds) k (id, ctid, claimed)
      where k.id <> all (v_late);
    end if;
  end if;
  -- How many messages of each partition are due and not expired, up to the number requested.
  v_available := array(
    select e.available
    from unnest(v_ids, v_claimeds) with ordinality c (partition_id, claimed, place)
    cross join lateral (
      select case
        when min(s.base_offset) <= c.claimed
          and coalesce(min(s.base_offset) filter (where s.expires_at <= p_now) > c.claimed, true)
          -- The first segment is the oldest.
          and min(s.created_at) > v_stale
        then greatest(0, least(
          max(s.base_offset + s.message_count),
          min(s.base_offset) filter (where s.expires_at <= p_now)
        ) - c.claimed)
        else 0
      end as available
      from queen.segments s
      where s.partition_id = c.partition_id
        and s.base_offset >= coalesce(
          (
            select h.base_offset
            from queen.segments h
            where h.partition_id = c.partition_id and h.base_offset <= c.claimed
            order by h.base_offset desc
            limit 1
          ),
          c.claimed
        )
        and s.base_offset < c.claimed + p_left[v_places[c.place]]
        and s.created_at <= p_now - make_interval(secs => p_queue.delay_seconds)
        and s.body is not null
    ) e
    order by c.place
  );
  if p_queue.rate_per = 'partition' then
    v_allowed := array(
      select case
        when r.recent is null then 0
        else queen.allowance(r.recent, p_queue.rate_max, p_queue.rate_ms, p_now)
      end
      from unnest(v_ctids) with ordinality c (ctid, place)
      cross join lateral (
        select case
          -- Most partitions have one priority only. Checking that here is cheaper than a call for each.
          when b.id is null then coalesce(r.recent, '{}')
          else queen.recent_of(r.recent, r.partition_id, p_group_id, p_queue)
        end as recent
        from queen.consumers r
        left join lateral (
          select o.id
          from queen.partitions p
          join queen.partitions o on o.queue_id = p.queue_id and o.name = p.name and o.id <> p.id
          where p.id = r.partition_id
          limit 1
        ) b on true
        where r.ctid = c.ctid
        offset 0
      ) r
      order by c.place
    );
  end if;

  for v_place in 1 .. coalesce(cardinality(v_ids), 0) loop
    if v_available[v_place] = 0 or v_allowed[v_place] <= 0 then
      v_passed := array_append(v_passed, v_place);
      continue;
    end if;
    v_request := v_places[v_place];
    v_take := least(v_available[v_place], v_left[v_request], v_allowed[v_place], p_budget);
    continue when v_take <= 0;
    v_left[v_request] := v_left[v_request] - v_take;
    v_partitions_left[v_request] := v_partitions_left[v_request] - 1;
    v_messages := v_messages + v_take;
    v_requests := array_append(v_requests, v_request);
    v_taken := array_append(v_taken, v_ids[v_place]);
    v_taken_rows := array_append(v_taken_rows, v_ctids[v_place]);
    v_firsts := array_append(v_firsts, v_claimeds[v_place]);
    v_ends := array_append(v_ends, v_claimeds[v_place] + v_take);
    if not p_auto then
      v_delivered := array_append(v_delivered, queen.delivery_id(v_ids[v_place]));
      v_tokens := array_append(v_tokens, gen_random_uuid());
      v_untils := array_append(
        v_untils, p_now + make_interval(secs => coalesce(p_leases[v_request], p_queue.lease_seconds))
      );
    end if;
  end loop;
  if v_passed is not null then
    select p.* into v_passing
    from queen.pass(
      array(select v_ctids[p] from unnest(v_passed) p), array(select v_ids[p] from unnest(v_passed) p), p_group_id, p_queue
    ) p;
    v_claim.expired := v_passing.expired;
    v_claim.evicted := v_passing.evicted;
    v_claim.unkept := v_passing.unkept;
  end if;
  v_claim.first_at := v_first_at;
  if cardinality(v_taken) = 0 then
    return v_claim;
  end if;

  if v_hold then
    -- The next messages are handled when this delivery is settled.
    update queen.consumers c
    set
      version = c.version + 1, claimed = t.end_offset, held = true, ready_at = null,
      recent = case
        when p_queue.rate_per = 'partition' then queen.spend(c.recent, p_queue.rate_ms, p_now, t.end_offset - c.claimed)
      end
    from unnest(v_taken_rows, v_ends) t (ctid, end_offset)
    where c.ctid = t.ctid;
  else
    -- A pair becomes idle only under the partition's lock. If that lock is taken, the pair stays ready.
    v_locked := array(
      select p.id
      from queen.partitions p
      where p.id = any (v_taken)
      for no key update skip locked
    );
    update queen.consumers c
    set
      version = c.version + 1,
      claimed = t.end_offset,
      held = false,
      idle_at = case when t.is_idle then greatest(p_now, t.newest_at) end,
      ready_at = case
        when t.is_idle then null
        when p_queue.rate_per = 'partition' then greatest(t.ready_at, queen.rate_opens_at(
          queen.spend(c.recent, p_queue.rate_ms, p_now, t.end_offset - c.claimed),
          p_queue.rate_max, p_queue.rate_ms, p_now
        ))
        else t.ready_at
      end,
      recent = case
        when p_queue.rate_per = 'partition' then queen.spend(c.recent, p_queue.rate_ms, p_now, t.end_offset - c.claimed)
      end
    from (
      select
        t.ctid,
        t.end_offset,
        n.created_at as newest_at,
        t.end_offset >= n.next_offset and t.partition_id = any (v_locked) as is_idle,
        case
          when t.end_offset >= n.next_offset or v_wait = 0 then queen.now()
          else queen.head_ready(t.partition_id, t.end_offset, v_wait, queen.now())
        end as ready_at
      from unnest(v_taken, v_taken_rows, v_ends) t (partition_id, ctid, end_offset)
      cross join lateral (
        select s.base_offset + s.message_count as next_offset, s.created_at
        from queen.segments s
        where s.partition_id = t.partition_id
        order by s.base_offset desc
        limit 1
      ) n
      offset 0
    ) t
    where c.ctid = t.ctid;
  end if;
  if not p_auto then
    insert into queen.deliveries (id, token, group_id, partition_id, priority, pending, until, held, ordered)
    select
      t.id, t.token, p_group_id, t.partition_id, p_level,
      int8multirange(int8range(t.first_offset, t.end_offset)), t.until, true, p_queue.in_order
    from unnest(v_delivered, v_tokens, v_taken, v_firsts, v_ends, v_untils)
      t (id, token, partition_id, first_offset, end_offset, until);
  end if;

  v_claim.taken := cardinality(v_taken);
  v_claim.messages := v_messages;
  v_claim.requests := v_requests;
  v_claim.delivery_ids := v_delivered;
  v_claim.tokens := v_tokens;
  v_claim.partition_ids := v_taken;
  v_claim.untils := v_untils;
  v_claim.firsts := v_firsts;
  v_claim.ends := v_ends;
  v_claim.left_messages := v_left;
  v_claim.left_partitions := v_partitions_left;
  return v_claim;
end
$$;
