-- Claim messages for several requests at once, from groups in the order given.
--
-- p_group_ids: where to look, each with the low-water marks that the caller remembers (null: search from the
-- start). p_partition: only this one. p_batches, p_partitions, p_leases: per request, how many messages, from how
-- many partitions, for how long (null: the queue's). p_auto: settled at once, no lease. p_due_first: look for
-- what is due again before what is new; else only if the new does not suffice. p_turn counts calls: every fourth
-- of an unordered queue begins at another priority, so that none starves.
--
-- Answers a row for each run of messages inside one segment, and last a row for each group without request:
-- how long until it has more (null: when woken), the new marks, and the refusal QN003 if it is gone.
-- Commits asynchronously unless p_auto: a claim that a crash forgets is redelivered as after an expired lease.
-- Locks: consumers and deliveries, then partitions; all of them skip what is locked. A pop never waits.
create or replace function queen.pop (
  p_group_ids   bigint[],
  p_ready_since timestamptz[],
  p_due_since   timestamptz[],
  p_partition   text,
  p_batches     integer[],
  p_partitions  integer[],
  p_leases      double precision[],
  p_auto        boolean,
  p_due_first   boolean,
  p_turn        integer
)
  returns table (
    request integer, group_id bigint, delivery_id bigint, token uuid, partition_id bigint, partition text,
    level smallint, attempts integer, until timestamptz, first_offset bigint, end_offset bigint,
    base_offset bigint, message_count integer, created_at timestamptz, xid bigint, payload bytea, extras bytea,
    wait_seconds double precision, ready_since timestamptz, due_since timestamptz, expired bigint, code text
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
  c_margin      constant interval := interval '5 seconds';
  c_most        constant integer := 1000;
  v_now         timestamptz;
  v_queue       queen.queues;
  v_levels      integer[];
  v_level       integer;
  v_lanes       bigint[];
  v_phase       text;
  v_left        integer[] := p_batches;
  v_lanes_left  integer[] := p_partitions;
  v_open        integer;
  v_budget      bigint;
  v_slots       bigint;
  v_limit       record;
  v_opens_at    timestamptz;
  v_is_fresh    boolean;
  v_ready_mark  timestamptz;
  v_due_mark    timestamptz;
  v_has_looked  boolean;
  v_expired     bigint;
  v_has_news    boolean;
  v_claim       record;
  v_spent       bigint;
begin
  if not p_auto then
    perform set_config('synchronous_commit', 'off', true);
  end if;

  for v_index in 1 .. cardinality(p_group_ids) loop
    v_now := queen.now();
    v_open := (select coalesce(sum(l), 0) from unnest(v_left, v_lanes_left) o (m, l) where o.m > 0 and o.l > 0);
    select q.* into v_queue
    from queen.groups g
    join queen.queues q on q.id = g.queue_id
    where g.id = p_group_ids[v_index] and g.deleted_at is null and q.deleted_at is null;
    if not found then
      return query select
        null::integer, p_group_ids[v_index], null::bigint, null::uuid, null::bigint, null::text, null::smallint,
        null::integer, null::timestamptz, null::bigint, null::bigint, null::bigint, null::integer,
        null::timestamptz, null::bigint, null::bytea, null::bytea, null::double precision, null::timestamptz,
        null::timestamptz, 0::bigint, 'QN003'::text;
      continue;
    end if;
    v_opens_at := null;
    -- A mark moves only when every level was looked at.
    v_ready_mark := null;
    v_due_mark := null;
    v_expired := 0;
    v_spent := 0;
    v_budget := null;
    v_slots := null;
    v_is_fresh := true;
    v_has_news := false;

    if v_queue.in_order <> v_queue.ordered then
      v_is_fresh := queen.change_order(v_queue.id);
      v_queue.in_order := (select q.in_order from queen.queues q where q.id = v_queue.id);
    end if;
    if v_open > 0 and not v_queue.paused and (v_queue.rate_per = 'queue' or v_queue.concurrency_limit > 0) then
      select l.* into v_limit from queen.lock_limit(p_group_ids[v_index], v_queue, v_now) l;
      v_budget := v_limit.budget;
      v_slots := v_limit.slots;
      v_opens_at := v_limit.opens_at;
    end if;

    v_levels := v_queue.levels;
    if not v_queue.in_order and p_turn % 4 = 3 then
      v_levels := array(
        select l from unnest(v_queue.levels) with ordinality u (l, n)
        order by (n + p_turn / 4) % cardinality(v_queue.levels)
      );
    end if;
    if p_partition is not null then
      v_lanes := array(
        select p.id from queen.partitions p where p.queue_id = v_queue.id and p.name = p_partition
      );
    end if;

    foreach v_phase in array case when p_due_first then '{due,new}' else '{new,due,again}' end::text[] loop
      exit when v_queue.paused or v_open <= 0;
      if v_phase = 'due' then
        v_has_news := queen.promote(v_queue.id, c_most) > 0;
      else
        exit when v_phase = 'again' and not v_has_news;
        -- What was promoted or freed is ready since then, which is later than this call began.
        if v_has_news then
          v_now := queen.now();
        end if;
      end if;
      if v_phase = 'due' then
        v_due_mark := v_now;
      else
        v_ready_mark := v_now;
      end if;
      foreach v_level in array v_levels loop
        v_has_looked := false;
        loop
          exit when v_open <= 0 or v_budget <= 0 or v_slots <= 0 or (v_phase <> 'due' and not v_is_fresh);
          v_has_looked := true;
          if v_phase = 'due' then
            select c.* into v_claim
            from queen.claim_due(
              p_group_ids[v_index], v_queue, v_level, v_lanes, coalesce(p_due_since[v_index], '-infinity'),
              v_left, v_lanes_left, p_leases, p_auto, v_budget, v_slots, v_now
            ) c;
          else
            select c.* into v_claim
            from queen.claim_new(
              p_group_ids[v_index], v_queue, v_level, v_lanes, coalesce(p_ready_since[v_index], '-infinity'),
              v_left, v_lanes_left, p_leases, p_auto, v_budget, v_slots, v_now
            ) c;
          end if;
          if v_phase = 'due' then
            v_due_mark := least(v_due_mark, v_claim.first_at);
            v_has_news := v_has_news or v_claim.first_at is not null;
          else
            v_ready_mark := least(v_ready_mark, v_claim.first_at);
          end if;
          v_expired := v_expired + v_claim.expired;
          if v_claim.taken > 0 then
            return query
            select
              t.request, p_group_ids[v_index], t.delivery_id, t.token, t.partition_id, p.name, p.level, t.attempts,
              t.until, greatest(t.first_offset, s.base_offset), least(t.end_offset, s.base_offset + s.message_count),
              s.base_offset, s.message_count, s.created_at, s.xid::text::bigint, null::bytea, null::bytea,
              null::double precision, null::timestamptz, null::timestamptz, null::bigint, null::text
            from unnest(
              v_claim.requests, v_claim.delivery_ids, v_claim.tokens, v_claim.partition_ids, v_claim.attempts,
              v_claim.untils, v_claim.firsts, v_claim.ends, v_claim.payloads
            ) with ordinality t (
              request, delivery_id, token, partition_id, attempts, until, first_offset, end_offset, payload, ordinal
            )
            join queen.partitions p on p.id = t.partition_id
            cross join lateral (
              select h.base_offset
              from queen.segments h
              where h.partition_id = t.partition_id and h.base_offset <= t.first_offset
              order by h.base_offset desc
              limit 1
            ) h
            join queen.segments s
              on s.partition_id = t.partition_id
              and s.base_offset >= h.base_offset
              and s.base_offset < t.end_offset
            where t.payload is null
            order by t.ordinal, s.base_offset;
            if num_nonnulls(variadic v_claim.payloads) > 0 then
              return query
              select
                t.request, p_group_ids[v_index], t.delivery_id, t.token, t.partition_id, p.name, p.level, t.attempts,
                t.until, t.first_offset, t.end_offset, t.first_offset, 1, t.created_at, null::bigint, t.payload,
                t.extras, null::double precision, null::timestamptz, null::timestamptz, null::bigint, null::text
              from unnest(
                v_claim.requests, v_claim.delivery_ids, v_claim.tokens, v_claim.partition_ids, v_claim.attempts,
                v_claim.untils, v_claim.firsts, v_claim.ends, v_claim.payloads, v_claim.extras, v_claim.created_ats
              ) t (
                request, delivery_id, token, partition_id, attempts, until, first_offset, end_offset, payload, extras,
                created_at
              )
              join queen.partitions p on p.id = t.partition_id
              where t.payload is not null;
            end if;
            v_left := v_claim.left_messages;
            v_lanes_left := v_claim.left_lanes;
            v_open := (select coalesce(sum(l), 0) from unnest(v_left, v_lanes_left) o (m, l) where o.m > 0 and o.l > 0);
            v_spent := v_spent + v_claim.messages;
            v_budget := v_budget - v_claim.messages;
            v_slots := v_slots - v_claim.taken;
          end if;
          exit when not v_claim.has_more;
        end loop;
        if not v_has_looked and v_phase = 'due' then
          v_due_mark := null;
        elsif not v_has_looked then
          v_ready_mark := null;
        end if;
        exit when not v_has_looked;
      end loop;
    end loop;

    if v_spent > 0 and v_queue.rate_per = 'queue' then
      update queen.limits l
      set version = l.version + 1, recent = queen.spend(l.recent, v_queue.rate_ms, v_now, v_spent)
      where l.group_id = p_group_ids[v_index] and l.version = v_limit.version;
      if v_budget <= 0 then
        v_opens_at := (
          select queen.rate_opens_at(l.recent, v_queue.rate_max, v_queue.rate_ms, v_now)
          from queen.limits l where l.group_id = p_group_ids[v_index] order by l.version desc limit 1
        );
      end if;
    end if;

    return query select
      null::integer, p_group_ids[v_index], null::bigint, null::uuid, null::bigint, null::text, null::smallint,
      null::integer, null::timestamptz, null::bigint, null::bigint, null::bigint, null::integer,
      null::timestamptz, null::bigint, null::bytea, null::bytea,
      case when v_open > 0 and not v_queue.paused then
        queen.next_at(p_group_ids[v_index], v_queue, p_ready_since[v_index], p_due_since[v_index], v_slots, v_opens_at, v_now)
      end,
      -- A search for one partition says nothing of the others.
      case when p_partition is null and v_ready_mark is not null then v_ready_mark - c_margin else p_ready_since[v_index] end,
      case when p_partition is null and v_due_mark is not null then v_due_mark - c_margin else p_due_since[v_index] end,
      v_expired, null::text;
  end loop;
end
$$;

-- Seconds until a group has something to give, as far as is known now; null when it must be woken.
create or replace function queen.next_at (
  p_group_id    bigint,
  p_queue       queen.queues,
  p_ready_since timestamptz,
  p_due_since   timestamptz,
  p_slots       bigint,
  p_opens_at    timestamptz,
  p_now         timestamptz
)
  returns double precision
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select extract(epoch from greatest(min(n.at), p_opens_at, p_now) - p_now)::double precision
  from (
    select (
      select c.ready_at
      from queen.consumers c
      where c.group_id = p_group_id and c.priority = l.level and c.ready_at > p_now
      order by c.ready_at
      limit 1
    )
    from unnest(p_queue.levels) l (level)
    where p_slots is null or p_slots > 0
    union all
    select (
      select d.until
      from queen.deliveries d
      where d.group_id = p_group_id and d.priority = l.level and d.until > p_now and d.until < 'infinity'
      order by d.until
      limit 1
    )
    from unnest(p_queue.levels) l (level)
    union all
    (
      select s.due_at
      from queen.scheduled s
      where s.queue_id = p_queue.id and s.due_at > p_now
      order by s.due_at
      limit 1
    )
    union all
    select p_opens_at
  ) n (at)
$$;

-- What a rate limit per queue and a concurrency limit leave to a group, under a lock that one pop has at a time.
-- A budget of 0 with opens_at a moment from now: another pop is at it.
create or replace function queen.lock_limit (p_group_id bigint, p_queue queen.queues, p_now timestamptz)
  returns table (version bigint, budget bigint, slots bigint, opens_at timestamptz)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_limit queen.limits;
begin
  insert into queen.limits (group_id, version, recent)
  select p_group_id, 0, '{}'
  where not exists (select 1 from queen.limits l where l.group_id = p_group_id)
  on conflict do nothing;
  select l.* into v_limit
  from queen.limits l
  where l.group_id = p_group_id
  order by l.version desc
  limit 1
  for no key update skip locked;
  if not found then
    return query select null::bigint, 0::bigint, null::bigint, p_now + interval '5 milliseconds';
    return;
  end if;
  return query select
    v_limit.version,
    case when p_queue.rate_per = 'queue' then
      queen.allowance(v_limit.recent, p_queue.rate_max, p_queue.rate_ms, p_now)
    end,
    case when p_queue.concurrency_limit > 0 then
      p_queue.concurrency_limit - (
        select count(*)
        from (
          select 1
          from queen.deliveries d
          where d.group_id = p_group_id and d.held and d.until > p_now
          limit p_queue.concurrency_limit
        ) d
      )
    end,
    case when p_queue.rate_per = 'queue' then
      nullif(queen.rate_opens_at(v_limit.recent, p_queue.rate_max, p_queue.rate_ms, p_now), p_now)
    end;
end
$$;

-- Let a queue change between ordered and unordered once none of its deliveries is out.
-- True when it has changed and new messages may be claimed.
create or replace function queen.change_order (p_queue_id bigint)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform 1 from queen.queues q where q.id = p_queue_id for no key update skip locked;
  if not found then
    return false;
  end if;
  if exists (
    select 1 from queen.groups g join queen.deliveries d on d.group_id = g.id where g.queue_id = p_queue_id
  ) then
    return false;
  end if;
  update queen.queues q set in_order = q.ordered where q.id = p_queue_id and q.in_order <> q.ordered;
  return true;
end
$$;
