-- Claim messages for several requests, from groups ordered by queue priority, then by the longest wait.
--
-- p_group_ids: the groups to search, each with the low-water marks that the caller remembers (null: search from the start).
-- p_partition: only this partition. p_batches, p_partitions, p_leases: per request, how many messages, from how many
-- partitions, and for how many seconds (null: the queue's lease time). p_auto: acknowledge now, without a lease.
-- p_due: search due deliveries `first`, before new messages; `last`, if there are too few new ones; or `never`, because
-- the caller searched them a moment ago. With `never`, the wait time ignores them too.
-- p_turn: a call counter. Every fourth call on an unordered queue begins at another priority, so that all get a turn.
--
-- Returns one row per run of messages inside one segment. Returns one more row per group, without a request: the seconds
-- until it has more messages (null: wait for a wake-up), the new marks, and QN003 if the group was deleted.
-- Commits asynchronously unless p_auto is set or a message was promoted: a claim that is lost in a crash is redelivered,
-- as after an expired lease.
-- Locks: the slots, then consumers and deliveries, then partitions; skips locked rows. A pop waits only while a slot moves.
create or replace function queen.pop (
  p_group_ids   bigint[],
  p_ready_since timestamptz[],
  p_due_since   timestamptz[],
  p_partition   text,
  p_batches     integer[],
  p_partitions  integer[],
  p_leases      double precision[],
  p_auto        boolean,
  p_due         text,
  p_turn        integer
)
  returns setof queen.popped
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  c_margin          constant interval := interval '5 seconds';
  c_rounds          constant integer := 12;
  v_now             timestamptz;
  v_order           integer[];
  v_index           integer;
  v_queue           queen.queues;
  v_levels          integer[];
  v_level           integer;
  v_partition_ids   bigint[];
  v_phase           text;
  v_round           integer;
  v_left            integer[] := p_batches;
  v_partitions_left integer[] := p_partitions;
  v_claim           queen.claim;
  v_limit           record;
  v_budget          bigint;
  v_free            bigint;
  v_spent           bigint;
  v_opens_at        timestamptz;
  v_is_fresh        boolean;
  v_seeks_due       boolean;
  v_has_looked      boolean;
  v_has_news        boolean;
  v_had_news        boolean;
  v_mark            timestamptz;
  v_is_done         boolean := false;
  v_found           integer;
  v_row             queen.popped;
  v_note            queen.popped;
  v_promotion       record;
begin
  if not p_auto then
    perform set_config('synchronous_commit', 'off', true);
  end if;

  v_order := case
    when cardinality(p_group_ids) = 1 then array[1]
    else queen.by_readiness(p_group_ids, p_ready_since)
  end;
  if cardinality(p_group_ids) > 1 then
    perform queen.enter(array(
      select distinct q.slot::bigint << 53
      from unnest(p_group_ids) u (id)
      cross join lateral (select g.queue_id from queen.groups g where g.id = u.id offset 0) g
      cross join lateral (select q.slot from queen.queues q where q.id = g.queue_id offset 0) q
    ));
  end if;
  foreach v_index in array v_order loop
    v_note := null;
    v_note.group_id := p_group_ids[v_index];
    v_note.ready_since := p_ready_since[v_index];
    v_note.due_since := p_due_since[v_index];
    v_note.expired := 0;
    v_note.lapsed := 0;
    v_note.buried := 0;
    v_note.dropped := 0;
    v_note.evicted := 0;
    v_note.unkept := 0;
    select q.* into v_queue
    from queen.groups g
    join queen.queues q on q.id = g.queue_id
    where g.id = v_note.group_id and g.deleted_at is null and q.deleted_at is null;
    if not found then
      v_note.code := 'QN003';
      return next v_note;
      continue;
    end if;
    -- Also for a paused queue: its consumers must continue where it is now.
    if v_queue.slot is not null then
      perform queen.enter(array[v_queue.slot::bigint << 53]);
    elsif p_partition is not null then
      perform queen.enter(array[queen.partition_slot(v_queue.id, p_partition)::bigint << 53]);
    else
      perform queen.enter_spread(v_queue);
    end if;
    if v_queue.paused then
      return next v_note;
      continue;
    end if;
    v_now := queen.now();

    v_is_fresh := v_queue.in_order = v_queue.ordered;
    if not v_is_fresh and queen.change_order(v_queue.id) then
      v_is_fresh := true;
      v_queue.in_order := v_queue.ordered;
      v_queue.order_changed_at := v_now;
    end if;
    if v_queue.order_changed_at is not null or v_queue.shortened_at is not null then
      perform queen.settle_change(v_queue, v_now);
    end if;
    v_opens_at := null;
    if v_queue.rate_per = 'queue' or v_queue.concurrency_limit > 0 then
      select l.* into v_limit from queen.lock_limit(v_note.group_id, v_queue, v_now) l;
      -- Again, because another database may use what this one used before the lock.
      v_now := queen.now();
      if v_queue.rate_per = 'queue' then
        v_queue.rate_max := v_limit.rate_max;
      end if;
      v_budget := v_limit.budget;
      v_free := v_limit.free;
      v_opens_at := v_limit.opens_at;
    else
      v_budget := null;
      v_free := null;
    end if;
    v_spent := 0;
    v_levels := v_queue.levels;
    if not v_queue.in_order and p_turn % 4 = 3 and cardinality(v_levels) > 1 then
      v_levels := queen.levels_by_turn(v_levels, p_turn);
    end if;
    if p_partition is not null then
      v_partition_ids := array(
        select p.id from queen.partitions p where p.queue_id = v_queue.id and p.name = p_partition
      );
    end if;

    v_phase := case when p_due = 'first' then 'due' else 'new' end;
    v_round := 0;
    v_had_news := false;
    -- The common case: new messages of an ordered queue without other options, at most one partition per request. One
    -- statement, whose last row is without a request. Everything else, also pairs in which it finds no message that can be
    -- claimed, is left to the search below.
    if not p_auto and p_due <> 'first' and p_partition is null and cardinality(p_group_ids) = 1 and 1 = all (p_partitions)
      and v_queue.in_order and v_queue.ordered and v_queue.order_changed_at is null and v_queue.shortened_at is null
      and v_queue.rate_per is null and v_queue.concurrency_limit = 0 and v_queue.delay_seconds = 0
      and v_queue.window_seconds = 0 and v_queue.max_wait_seconds = 0 and cardinality(v_levels) = 1
    then
      v_found := 0;
      for v_row in
        with locked as materialized (
          select l.*, row_number() over ()::integer as request
          from (
            select c.ctid, c.partition_id, c.claimed, c.ready_at
            from queen.consumers c
            where c.group_id = v_note.group_id
              and c.priority = v_levels[1]
              and c.ready_at >= coalesce(v_note.ready_since, '-infinity')
              and c.ready_at <= v_now
              and (v_queue.slot is not null or queen.is_owned(c.partition_id))
            order by c.ready_at
            limit least(cardinality(p_batches), 1000)
            for no key update skip locked
          ) l
        ),
        -- Only pairs whose locked row version this statement can see. Others changed after it began, and stay ready.
        moved as (
          update queen.consumers c
          set version = c.version + 1, claimed = f.end_offset, held = true, ready_at = null, recent = null
          from (
            select
              l.*, s.base_offset, s.message_count, s.created_at, s.xid, s.next_offset,
              queen.delivery_id(l.partition_id) as delivery_id, gen_random_uuid() as token,
              v_now + make_interval(secs => coalesce(p_leases[l.request], v_queue.lease_seconds)) as until,
              least(l.claimed + p_batches[l.request], case
                when s.next_offset >= l.claimed + p_batches[l.request] then s.next_offset
                else coalesce((
                  select least(
                    max(a.base_offset + a.message_count), min(a.base_offset) filter (where a.expires_at <= v_now)
                  )
                  from queen.segments a
                  where a.partition_id = l.partition_id
                    and a.base_offset > s.base_offset
                    and a.base_offset < l.claimed + p_batches[l.request]
                    and a.created_at <= v_now
                    and a.body is not null
                ), s.next_offset)
              end) as end_offset
            from locked l
            cross join lateral (
              select
                s.base_offset, s.message_count, s.created_at, s.xid, s.base_offset + s.message_count as next_offset,
                s.created_at <= v_now and s.body is not null and coalesce(s.expires_at > v_now, true) as is_claimable
              from queen.segments s
              where s.partition_id = l.partition_id and s.base_offset <= l.claimed
              order by s.base_offset desc
              limit 1
            ) s
            where s.is_claimable and s.next_offset > l.claimed
            offset 0
          ) f
          where c.ctid = f.ctid
          returning f.*
        ),
        leased as (
          insert into queen.deliveries (id, token, group_id, partition_id, priority, pending, until, held, ordered)
          select
            m.delivery_id, m.token, v_note.group_id, m.partition_id, v_levels[1],
            int8multirange(int8range(m.claimed, m.end_offset)), m.until, true, true
          from moved m
        )
        select
          m.request, v_note.group_id, m.delivery_id, m.token, m.partition_id, p.name, p.priority, 0, m.until,
          greatest(m.claimed, s.base_offset), least(m.end_offset, s.base_offset + s.message_count),
          s.base_offset, s.message_count, s.created_at, s.xid::text::bigint, null::bytea, null::bytea,
          null::double precision, null::timestamptz, null::timestamptz, null::bigint, null::text, null::bigint,
          null::bigint, null::bigint, null::bigint, null::bigint
        from moved m
        cross join lateral (
          select p.name, (case when p.level > 0 then p.level else p.priority end)::smallint as priority
          from queen.partitions p
          where p.id = m.partition_id
          offset 0
        ) p
        cross join lateral (
          select m.base_offset, m.message_count, m.created_at, m.xid
          union all
          select a.base_offset, a.message_count, a.created_at, a.xid
          from queen.segments a
          where m.end_offset > m.next_offset
            and a.partition_id = m.partition_id
            and a.base_offset > m.base_offset
            and a.base_offset < m.end_offset
        ) s
        union all
        select
          null, null, null, null, null, null, null, null, null, null, null, null, count(*)::integer, min(l.ready_at),
          null, null, null, null, null, null, null, null, null, null, null, null, null
        from locked l
      loop
        if v_row.request is not null then
          return next v_row;
          v_found := v_found + (v_left[v_row.request] > 0)::integer;
          v_left[v_row.request] := 0;
        elsif v_row.message_count = v_found then
          -- All that was found was claimed: new messages were searched.
          v_note.ready_since := least(v_now, v_row.created_at) - c_margin;
          v_is_done := p_due = 'never' or v_found = cardinality(p_batches);
          v_phase := 'due';
          v_round := 1;
        end if;
      end loop;
    end if;

    -- Search new and due messages once. Search again while messages are promoted, freed or skipped: the messages behind them
    -- are ready since then, which is after this search began.
    -- If options delay messages, a search without messages must return how long to wait.
    v_seeks_due := p_due <> 'never'
      or v_queue.delay_seconds > 0
      or v_queue.window_seconds > 0
      or v_queue.rate_per is not null
      or v_queue.concurrency_limit > 0;
    loop
      exit when v_is_done or not queen.wants_more(v_left, v_partitions_left) or v_round >= c_rounds;
      v_round := v_round + 1;
      v_has_news := false;
      if v_phase = 'due' then
        v_promotion := queen.promote(v_queue.id, 1000);
        v_has_news := v_promotion.promoted > 0;
        v_note.expired := v_note.expired + v_promotion.expired;
      end if;
      -- The earliest time found at any level: all is empty before it. The marks move only if every level was searched.
      v_mark := v_now;
      foreach v_level in array v_levels loop
        v_has_looked := false;
        loop
          exit when not queen.wants_more(v_left, v_partitions_left)
            or least(v_budget, v_free) <= 0
            or (v_phase = 'new' and not v_is_fresh);
          v_has_looked := true;
          if v_phase = 'due' then
            v_claim := queen.claim_due(
              v_note.group_id, v_queue, v_level, v_partition_ids, coalesce(v_note.due_since, '-infinity'), v_left,
              v_partitions_left, p_leases, p_auto, v_budget, v_free, v_now
            );
            v_has_news := v_has_news or v_claim.first_at is not null;
          else
            v_claim := queen.claim_new(
              v_note.group_id, v_queue, v_level, v_partition_ids, coalesce(v_note.ready_since, '-infinity'), v_left,
              v_partitions_left, p_leases, p_auto, v_budget, v_free, v_now
            );
            v_has_news := v_has_news or v_claim.expired > 0;
          end if;
          v_mark := least(v_mark, v_claim.first_at);
          v_note.expired := v_note.expired + v_claim.expired - coalesce(v_claim.evicted, 0);
          v_note.evicted := v_note.evicted + coalesce(v_claim.evicted, 0);
          v_note.unkept := v_note.unkept + coalesce(v_claim.unkept, 0);
          v_note.lapsed := v_note.lapsed + coalesce(v_claim.lapsed, 0);
          v_note.buried := v_note.buried + coalesce(v_claim.buried, 0);
          v_note.dropped := v_note.dropped + coalesce(v_claim.dropped, 0);
          if v_claim.taken > 0 then
            return query select r.* from queen.runs_of(v_note.group_id, v_claim) r;
            v_left := v_claim.left_messages;
            v_partitions_left := v_claim.left_partitions;
            v_spent := v_spent + v_claim.messages;
            v_budget := v_budget - v_claim.messages;
            v_free := v_free - v_claim.taken;
          end if;
          exit when not v_claim.has_more;
        end loop;
        exit when not v_has_looked;
      end loop;
      -- A search of one partition does not move the marks of the group.
      if v_has_looked and p_partition is null then
        if v_phase = 'due' then
          v_note.due_since := v_mark - c_margin;
        else
          v_note.ready_since := v_mark - c_margin;
        end if;
      end if;
      exit when not v_has_news and (not v_seeks_due or (v_round >= 2 and not v_had_news));
      v_had_news := v_has_news;
      if v_has_news then
        v_now := queen.now();
      end if;
      v_phase := case when v_phase = 'new' and v_seeks_due then 'due' else 'new' end;
    end loop;

    if v_spent > 0 and v_queue.rate_per = 'queue' then
      update queen.limits l
      set version = l.version + 1, recent = queen.spend(l.recent, v_queue.rate_ms, v_now, v_spent)
      where l.group_id = v_note.group_id and l.version = v_limit.version
      returning queen.rate_opens_at(l.recent, v_queue.rate_max, v_queue.rate_ms, v_now) into v_opens_at;
    end if;
    if queen.wants_more(v_left, v_partitions_left) then
      v_note.wait_seconds := queen.next_at(
        v_note.group_id, v_queue, v_partition_ids, coalesce(v_note.ready_since, '-infinity'),
        coalesce(v_note.due_since, '-infinity'), v_seeks_due, v_is_fresh, v_free, v_opens_at, v_now
      );
    end if;
    return next v_note;
  end loop;
end
$$;

-- Whether any request still wants messages.
create or replace function queen.wants_more (p_left integer[], p_partitions_left integer[])
  returns boolean
  language plpgsql
  immutable
as $$
begin
  for v_request in reverse cardinality(p_left) .. 1 loop
    if p_left[v_request] > 0 and p_partitions_left[v_request] > 0 then
      return true;
    end if;
  end loop;
  return false;
end
$$;

-- The rows of a claim: each run of offsets, split at segment borders. A redriven message brings its own copy.
create or replace function queen.runs_of (p_group_id bigint, p_claim queen.claim)
  returns setof queen.popped
  language plpgsql
  stable
as $$
begin
  return query
  select
    t.request, p_group_id, t.delivery_id, t.token, t.partition_id, p.name, p.priority, coalesce(t.attempts, 0), t.until,
    greatest(t.first_offset, s.base_offset), least(t.end_offset, s.base_offset + s.message_count),
    s.base_offset, s.message_count, s.created_at, s.xid, t.payload, t.extras,
    null::double precision, null::timestamptz, null::timestamptz, null::bigint, null::text, null::bigint,
    null::bigint, null::bigint, null::bigint, null::bigint
  from unnest(
    p_claim.requests, p_claim.delivery_ids, p_claim.tokens, p_claim.partition_ids, p_claim.attempts, p_claim.untils,
    p_claim.firsts, p_claim.ends, p_claim.payloads, p_claim.extras, p_claim.created_ats
  ) with ordinality t (
    request, delivery_id, token, partition_id, attempts, until, first_offset, end_offset, payload, extras,
    created_at, ordinal
  )
  cross join lateral (
    -- The priority of the message in an unordered queue, otherwise of its partition.
    select p.name, (case when p.level > 0 then p.level else p.priority end)::smallint as priority
    from queen.partitions p
    where p.id = t.partition_id
    offset 0
  ) p
  cross join lateral (
    select s.base_offset, s.message_count, s.created_at, s.xid::text::bigint as xid
    from queen.segments s
    where t.payload is null
      and s.partition_id = t.partition_id
      and s.base_offset >= (
        select h.base_offset
        from queen.segments h
        where h.partition_id = t.partition_id and h.base_offset <= t.first_offset
        order by h.base_offset desc
        limit 1
      )
      and s.base_offset < t.end_offset
    union all
    select t.first_offset, 1, t.created_at, null where t.payload is not null
  ) s
  order by t.ordinal, s.base_offset;
end
$$;
