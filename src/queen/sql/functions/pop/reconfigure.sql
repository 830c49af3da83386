-- Steps that a pop takes after a queue was reconfigured, for changes that wait for leased messages or running calls.

-- Switch a queue between ordered and unordered once all its leases have ended.
-- Returns true if it has switched and new messages can be claimed.
create or replace function queen.change_order (p_queue_id bigint)
  returns boolean
  language plpgsql
  volatile
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
  update queen.queues q
  set in_order = q.ordered, order_changed_at = queen.now()
  where q.id = p_queue_id and q.in_order <> q.ordered;
  return true;
end
$$;

-- Apply the consequences of a change, until one minute later, when no call that began before the change is running.
-- Locks: the queue (skipped if locked), consumers (skips locked rows).
create or replace function queen.settle_change (p_queue queen.queues, p_now timestamptz)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_is_over boolean := p_now > greatest(p_queue.order_changed_at, p_queue.shortened_at) + interval '1 minute';
begin
  if p_queue.shortened_at is not null and queen.shorten_waits(p_queue, p_now) > 0 then
    return;
  end if;
  if not v_is_over then
    return;
  end if;
  perform 1 from queen.queues q where q.id = p_queue.id for no key update skip locked;
  if not found then
    return;
  end if;
  update queen.queues q
  set
    shortened_at = null,
    order_changed_at = case when p_queue.in_order and exists (
      select 1
      from queen.groups g
      join queen.deliveries d on d.group_id = g.id
      where g.queue_id = p_queue.id and not d.ordered
    ) then q.order_changed_at end
  where q.id = p_queue.id
    and q.shortened_at is not distinct from p_queue.shortened_at
    and q.order_changed_at is not distinct from p_queue.order_changed_at;
end
$$;

-- Shorten waits that exceed the current delay options. Returns how many pairs were changed.
-- No pair becomes ready before its time, because ready_at is all that keeps the window of a message.
create or replace function queen.shorten_waits (p_queue queen.queues, p_now timestamptz)
  returns bigint
  language plpgsql
  volatile
as $$
declare
  v_wait  double precision := greatest(p_queue.delay_seconds, p_queue.window_seconds);
  v_until timestamptz := p_now + make_interval(secs => greatest(
    v_wait,
    -- Claimed messages may count from the next 64th of the period on: docs/decisions/0005.
    case when p_queue.rate_per = 'partition' then p_queue.rate_ms * 66 / 64000.0 end
  ));
  v_count bigint;
begin
  update queen.consumers c
  set
    version = c.version + 1,
    ready_at = greatest(
      p_now,
      queen.head_ready(c.partition_id, c.claimed, v_wait, p_now),
      case when p_queue.rate_per = 'partition' then
        queen.rate_opens_at(c.recent, p_queue.rate_max, p_queue.rate_ms, p_now)
      end
    )
  from (
    select c.ctid
    from queen.groups g
    cross join unnest(p_queue.levels) l (level)
    cross join lateral (
      select c.ctid
      from queen.consumers c
      where c.group_id = g.id and c.priority = l.level and c.ready_at > v_until
      order by c.ready_at desc
      limit 1000
      for no key update skip locked
    ) c
    where g.queue_id = p_queue.id and g.deleted_at is null
    limit 1000
  ) k
  where c.ctid = k.ctid;
  get diagnostics v_count = row_count;
  if v_count > 0 then
    return v_count;
  end if;
  -- Locked pairs are left for the next pop.
  return (
    select count(*)
    from queen.groups g
    cross join unnest(p_queue.levels) l (level)
    cross join lateral (
      select 1 from queen.consumers c where c.group_id = g.id and c.priority = l.level and c.ready_at > v_until limit 1
    ) c
    where g.queue_id = p_queue.id and g.deleted_at is null
  );
end
$$;

-- Make pairs of a queue that became ordered wait while one of their earlier deliveries is leased. Returns those pairs.
-- Only a pop that was running during the change leaves such a delivery, so checking once per second is enough.
-- The caller has locked the pairs.
create or replace function queen.postpone (
  p_group_id      bigint,
  p_partition_ids bigint[],
  p_ctids         tid[],
  p_now           timestamptz
)
  returns bigint[]
  language plpgsql
  volatile
as $$
declare
  v_late bigint[];
begin
  with moved as (
    update queen.consumers c
    set version = c.version + 1, ready_at = p_now + interval '1 second'
    from (
      select k.ctid
      from unnest(p_ctids, p_partition_ids) k (ctid, partition_id)
      where exists (
        select 1
        from queen.deliveries d
        where d.partition_id = k.partition_id and d.group_id = p_group_id and not d.ordered
        offset 0
      )
    ) k
    where c.ctid = k.ctid
    returning c.partition_id
  )
  select array_agg(m.partition_id) into v_late from moved m;
  return v_late;
end
$$;
