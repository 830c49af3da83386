-- Lock the limits of a group. Return what its rate limit per queue and its concurrency limit still allow.
--
-- In a spread queue, this database has a share of each limit. rate_max: the limit, or the share. One pop at a time holds this
-- lock. If another pop holds it, the budget is 0 and opens_at is a few milliseconds from now.
create or replace function queen.lock_limit (p_group_id bigint, p_queue queen.queues, p_now timestamptz)
  returns table (version bigint, rate_max integer, budget bigint, free bigint, opens_at timestamptz)
  language plpgsql
  volatile
as $$
declare
  v_limit queen.limits;
  v_share record;
begin
  if not exists (select 1 from queen.limits l where l.group_id = p_group_id) then
    -- A second transaction must not wait for the commit of the first.
    if not pg_try_advisory_xact_lock(hashtextextended('queen.limit', p_group_id)) then
      return query select null::bigint, null::integer, 0::bigint, null::bigint, p_now + interval '5 milliseconds';
      return;
    end if;
    perform queen.add_limit(p_group_id);
  end if;
  select l.* into v_limit
  from queen.limits l
  where l.group_id = p_group_id
  order by l.version desc
  limit 1
  for no key update skip locked;
  if not found then
    return query select null::bigint, null::integer, 0::bigint, null::bigint, p_now + interval '5 milliseconds';
    return;
  end if;
  v_share := queen.own_share(p_queue, v_limit, p_now);
  return query select
    v_limit.version,
    v_share.rate,
    case when p_queue.rate_per = 'queue' then
      queen.allowance(v_limit.recent, v_share.rate, p_queue.rate_ms, p_now)
    end,
    -- Without a share of the rate, a search can't succeed at any time, as without a free lease.
    least(
      case when p_queue.concurrency_limit > 0 then
        v_share.concurrency
        - queen.live_leases(p_group_id, p_queue.slot is null, p_now, greatest(0, v_share.concurrency))
      end,
      case when p_queue.rate_per = 'queue' and v_share.rate <= 0 then 0 end
    )::bigint,
    case when p_queue.rate_per = 'queue' then
      nullif(queen.rate_opens_at(v_limit.recent, v_share.rate, p_queue.rate_ms, p_now), p_now)
    end;
end
$$;

-- Make sure that a group has its row of limits. There is one row, whatever its version is.
-- Locks: an advisory lock of the group, while it creates the group's row.
create or replace function queen.add_limit (p_group_id bigint)
  returns void
  language plpgsql
  volatile
as $$
begin
  if exists (select 1 from queen.limits l where l.group_id = p_group_id) then
    return;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('queen.limit', p_group_id));
  insert into queen.limits (group_id, version, recent)
  select p_group_id, 0, '{}'
  where not exists (select 1 from queen.limits l where l.group_id = p_group_id);
end
$$;

-- What this database may use of a queue's limits: all of a limit, or its share if the queue is spread. Null for no limit.
--
-- Until the shares are decided, the first database has all. A removed database has no slots, so pops find no messages there,
-- but its last claims count for one period.
create or replace function queen.own_share (
  p_queue         queen.queues,
  p_limit         queen.limits,
  p_now           timestamptz,
  out rate        integer,
  out concurrency integer
)
  language plpgsql
  stable
as $$
declare
  v_is_first boolean;
begin
  rate := case when p_queue.rate_per = 'queue' then p_queue.rate_max end;
  concurrency := nullif(p_queue.concurrency_limit, 0);
  if p_queue.slot is not null then
    return;
  end if;
  v_is_first := queen.is_first();
  if v_is_first and not exists (
    select 1
    from queen.databases d
    where not d.is_here
      and coalesce(d.removed_at > p_now - make_interval(secs => coalesce(p_queue.rate_ms, 0) / 1000.0), true)
  ) then
    return;
  end if;
  rate := case when rate is not null then
    least(rate, coalesce(p_limit.rate_share, case when v_is_first then rate else 0 end))
  end;
  concurrency := case when concurrency is not null then
    least(
      concurrency,
      coalesce(p_limit.concurrency_share, case when v_is_first then concurrency else 0 end) + p_limit.moved_leases
    )
  end;
end
$$;

-- The leases of a group that have not expired, at most p_most. Of a spread queue, those in slots that this database owns.
--
-- A pop counts all leases of its group, so the slots are not read by a call of queen.is_owned per lease.
create or replace function queen.live_leases (p_group_id bigint, p_is_spread boolean, p_now timestamptz, p_most bigint)
  returns bigint
  language plpgsql
  stable
as $$
begin
  return (
    select count(*)
    from (
      select 1
      from queen.deliveries d
      where d.group_id = p_group_id and d.held and d.until > p_now
        and (not p_is_spread or not exists (
          select 1 from queen.slots s where s.slot = (d.partition_id >> 53)::smallint and s.state <> 'owned'
        ))
      limit p_most
    ) d
  );
end
$$;
