-- Helpers that read, lock, shrink and end deliveries.

-- Lock the consumers rows of ordered deliveries, in the common lock order.
create or replace function queen.lock_consumers (p_ids bigint[], p_tokens uuid[])
  returns void
  language plpgsql
  volatile
as $$
begin
  perform 1
  from (
    select distinct d.partition_id, d.group_id
    from unnest(p_ids, p_tokens) a (id, token)
    cross join lateral (
      select d.partition_id, d.group_id
      from queen.deliveries d
      where d.id = a.id and d.token = a.token and d.ordered
      offset 0
    ) d
    order by d.partition_id, d.group_id
  ) d
  cross join lateral (
    select c.version
    from queen.consumers c
    where c.partition_id = d.partition_id and c.group_id = d.group_id
    order by c.version desc
    limit 1
    for no key update
  ) c;
end
$$;

-- Acknowledge the given offsets of one delivery, or its whole leased part if p_offsets is null.
--
-- If the whole leased part is settled, the rest becomes a delivery that is due immediately.
-- Returns QN002 if (id, token) is no longer the current lease. The caller has locked the consumers row.
create or replace function queen.settle (
  p_id           bigint,
  p_token        uuid,
  p_offsets      int8multirange,
  p_partition_id bigint
)
  returns table (group_id bigint, settled bigint, refused int8multirange, is_over boolean, code text)
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_delivery queen.deliveries;
  v_out      int8multirange;
  v_done     int8multirange;
  v_refused  int8multirange;
begin
  select d.* into v_delivery
  from queen.deliveries d
  where d.id = p_id and d.token = p_token and d.held
    and d.partition_id = coalesce(p_partition_id, d.partition_id)
  for no key update;
  if not found then
    return query select null::bigint, 0::bigint, null::int8multirange, null::boolean, 'QN002';
    return;
  end if;
  v_out := queen.handed_out(v_delivery);
  v_done := v_out * coalesce(p_offsets, v_out);
  if not v_out @> p_offsets then
    v_refused := queen.open_of(v_delivery, p_offsets - v_out);
  end if;
  perform queen.shrink(v_delivery, v_done);
  return query
  select v_delivery.group_id, queen.count_of(v_done), v_refused, isempty(v_out - v_done), null::text;
end
$$;

-- The given offsets that the group of a delivery has not acknowledged: unclaimed, or pending in any delivery. Null if none.
create or replace function queen.open_of (p_delivery queen.deliveries, p_offsets int8multirange)
  returns int8multirange
  language plpgsql
  stable
as $$
begin
  return nullif(p_offsets * (
    select int8multirange(int8range(c.claimed, null))
    from queen.consumers c
    where c.partition_id = p_delivery.partition_id and c.group_id = p_delivery.group_id
    order by c.version desc
    limit 1
  ) + p_offsets * coalesce((
    select range_agg(r.range)
    from queen.deliveries d
    cross join lateral unnest(d.pending) r (range)
    where d.partition_id = p_delivery.partition_id and d.group_id = p_delivery.group_id
  ), '{}'), '{}');
end
$$;

-- The leased offsets of a delivery that are not acknowledged. The function has no settings, so that PostgreSQL inlines it:
-- a SQL function that is not inlined is planned again in every call.
create or replace function queen.handed_out (p_delivery queen.deliveries)
  returns int8multirange
  language sql
  immutable
as $$
  select p_delivery.pending * int8multirange(case
    when p_delivery.head is not null then int8range(p_delivery.head, p_delivery.head + 1)
    else int8range(null, p_delivery.out_end)
  end)
$$;

-- Remove acknowledged offsets from a delivery that the caller has locked. Delete the delivery when it is empty.
create or replace function queen.shrink (p_delivery queen.deliveries, p_done int8multirange)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_left int8multirange := p_delivery.pending - p_done;
begin
  if isempty(v_left) then
    delete from queen.deliveries d where d.id = p_delivery.id;
    if p_delivery.ordered and p_delivery.until = 'infinity' then
      -- The delivery was parked: it did not hold the pair.
      update queen.consumers c
      set version = c.version + 1, parked = c.parked - 1
      where c.partition_id = p_delivery.partition_id and c.group_id = p_delivery.group_id;
    elsif p_delivery.ordered then
      perform queen.free(array[p_delivery.partition_id], array[p_delivery.group_id]);
    end if;
  elsif isempty(queen.handed_out(p_delivery) - p_done) then
    update queen.deliveries d
    set
      id = queen.delivery_id(d.partition_id), token = gen_random_uuid(), pending = v_left,
      head = null, attempts = 0, error = null, out_end = null, held = false, parked_until = null,
      until = case when d.until = 'infinity' then d.until else queen.now() end
    where d.id = p_delivery.id;
  elsif not isempty(p_done) then
    update queen.deliveries d set pending = v_left where d.id = p_delivery.id;
  end if;
end
$$;

-- Release ordered (partition, group) pairs after their delivery ended: ready if messages remain, otherwise idle.
--
-- Returns whether any of them may have messages. A pair becomes idle only under the partition's lock, which a push keeps
-- until its commit. If that lock is taken, the pair becomes ready and the next pop sees the pushed messages. Never waits.
-- The caller has locked the pairs.
create or replace function queen.free (p_partition_ids bigint[], p_group_ids bigint[])
  returns boolean
  language plpgsql
  volatile
as $$
declare
  v_ctids    tid[];
  v_claimeds bigint[];
  v_parked   integer[];
  v_drained  bigint[];
  v_locked   bigint[];
  v_now      timestamptz;
  v_has_more boolean;
begin
  select
    array_agg(f.ctid),
    array_agg(f.claimed),
    array_agg(f.parked),
    array_agg(f.partition_id) filter (where f.claimed >= f.next_offset)
  into v_ctids, v_claimeds, v_parked, v_drained
  from (
    select r.partition_id, c.ctid, c.claimed, c.parked, n.next_offset
    from unnest(p_partition_ids, p_group_ids) with ordinality r (partition_id, group_id, ordinal)
    cross join lateral (
      select c.ctid, c.claimed, c.parked
      from queen.consumers c
      where c.partition_id = r.partition_id and c.group_id = r.group_id
      order by c.version desc
      limit 1
    ) c
    cross join lateral (
      select s.base_offset + s.message_count as next_offset
      from queen.segments s
      where s.partition_id = r.partition_id
      order by s.base_offset desc
      limit 1
    ) n
    order by r.ordinal
  ) f;
  if v_drained is not null then
    v_locked := array(
      select p.id from queen.partitions p where p.id = any (v_drained) for no key update skip locked
    );
  end if;
  v_now := queen.now();

  with freed as (
    update queen.consumers c
    set
      version = c.version + 1,
      held = n.parked_id is not null,
      parked = c.parked - (n.parked_id is not null)::integer,
      idle_at = case when n.is_idle and n.parked_id is null then greatest(v_now, n.created_at) end,
      ready_at = case
        when n.is_idle or n.parked_id is not null then null
        when n.rate_per = 'partition' then greatest(n.ready_at, queen.rate_opens_at(c.recent, n.rate_max, n.rate_ms, v_now))
        else n.ready_at
      end
    from (
      select
        r.ctid, s.created_at, q.rate_per, q.rate_max, q.rate_ms, q.waits_for_room,
        r.claimed >= s.next_offset and r.partition_id = any (v_locked) as is_idle,
        case
          when r.claimed >= s.next_offset or q.wait_seconds = 0 then v_now
          else queen.head_ready(r.partition_id, r.claimed, q.wait_seconds, v_now)
        end as ready_at,
        case when r.parked > 0 then queen.unpark(r.partition_id, r.group_id, v_now) end as parked_id
      from (
        -- There are few groups. Read each once.
        select
          g.id, q.rate_per, q.rate_max, q.rate_ms, greatest(q.delay_seconds, q.window_seconds) as wait_seconds,
          q.concurrency_limit > 0 or q.in_order <> q.ordered as waits_for_room
        from (select distinct u.id from unnest(p_group_ids) u (id)) u
        cross join lateral (select g.id, g.queue_id from queen.groups g where g.id = u.id offset 0) g
        cross join lateral (
          select
            q.rate_per, q.rate_max, q.rate_ms, q.delay_seconds, q.window_seconds, q.concurrency_limit, q.in_order,
            q.ordered
          from queen.queues q
          where q.id = g.queue_id
          offset 0
        ) q
        offset 0
      ) q
      join unnest(p_partition_ids, p_group_ids, v_ctids, v_claimeds, v_parked)
        r (partition_id, group_id, ctid, claimed, parked) on r.group_id = q.id
      cross join lateral (
        select s.base_offset + s.message_count as next_offset, s.created_at
        from queen.segments s
        where s.partition_id = r.partition_id
        order by s.base_offset desc
        limit 1
      ) s
      offset 0
    ) n
    where c.ctid = n.ctid
    returning c.ready_at is not null or c.held or n.waits_for_room as has_more
  )
  select bool_or(f.has_more) into v_has_more from freed f;
  return v_has_more;
end
$$;

-- Whether a group can claim more because deliveries ended: it has a concurrency limit, or a change of order is pending.
create or replace function queen.waits_for_room (p_group_ids bigint[])
  returns boolean
  language plpgsql
  stable
as $$
begin
  return exists (
    select 1
    from (select distinct u.id from unnest(p_group_ids) u (id)) u
    cross join lateral (select g.queue_id from queen.groups g where g.id = u.id offset 0) g
    cross join lateral (
      select q.concurrency_limit, q.in_order, q.ordered from queen.queues q where q.id = g.queue_id offset 0
    ) q
    where q.concurrency_limit > 0 or q.in_order <> q.ordered
  );
end
$$;

-- Make the first parked delivery of a pair due. It then holds the pair. Null if there is none.
create or replace function queen.unpark (p_partition_id bigint, p_group_id bigint, p_now timestamptz)
  returns bigint
  language sql
  volatile
as $$
  update queen.deliveries d
  set until = greatest(p_now, d.parked_until), parked_until = null
  where d.id = (
    select d.id
    from queen.deliveries d
    where d.group_id = p_group_id and d.partition_id = p_partition_id and d.until = 'infinity'
    order by lower(d.pending), d.id
    limit 1
  )
  returning d.id
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
