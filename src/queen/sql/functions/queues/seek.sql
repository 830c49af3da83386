-- Move a group in the next partitions of its queue: to the first message after p_at, or to p_offset.
--
-- p_partition: only this one, required for p_offset. p_at: `-infinity` is the start, null the end. p_after: continue after
-- this partition id. Returns the last partition id moved, or null at the end. If the group is not filled yet, fills it
-- by one step instead and moves nothing. Current leases are lost, because their deliveries are deleted. A redriven message
-- stays due unless the log delivers it again, because its copy may be the only one.
-- Raises QN001, QN003, QN004. Locks: the slot, partitions by id, consumers, deliveries.
create or replace function queen.seek (
  p_queue     text,
  p_group     text,
  p_partition text,
  p_at        timestamptz,
  p_offset    bigint,
  p_after     bigint,
  p_limit     integer
)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_group    queen.groups;
  v_queue    queen.queues := queen.queue_named(p_queue);
  v_ids      bigint[];
  v_claimeds bigint[];
  v_nexts    bigint[];
  v_newest   timestamptz[];
  v_now      timestamptz;
begin
  perform queen.enter_queue(v_queue.id);
  perform queen.enter_all_partitions(v_queue, p_partition);
  select g.* into v_group
  from queen.groups g
  where g.queue_id = v_queue.id and g.name = p_group and g.deleted_at is null;
  if not found then
    raise exception 'queue % has no group %', p_queue, p_group using errcode = 'QN003';
  end if;
  if v_group.filled_to is not null then
    -- In a separate transaction, because filling locks partitions after those that are moved first.
    perform queen.fill(v_group.id, p_limit);
    return coalesce(p_after, 0);
  end if;

  select array_agg(l.id) into v_ids
  from (
    select p.id
    from queen.partitions p
    where p.queue_id = v_queue.id
      and p.id > coalesce(p_after, 0)
      and (p_partition is null or p.name = p_partition)
      and (v_queue.slot is not null or queen.is_owned(p.id))
    order by p.id
    limit p_limit
    for no key update
  ) l;
  if v_ids is null then
    if p_partition is not null and coalesce(p_after, 0) = 0 then
      raise exception 'queue % has no partition %', p_queue, p_partition using errcode = 'QN004';
    end if;
    return null;
  end if;
  perform 1
  from (
    select c.partition_id
    from queen.consumers c
    where c.partition_id = any (v_ids) and c.group_id = v_group.id
    order by c.partition_id
    for no key update
  ) l;
  perform 1
  from (
    select d.id
    from queen.deliveries d
    where d.group_id = v_group.id and d.partition_id = any (v_ids)
    order by d.id
    for update
  ) l;
  v_now := queen.now();

  -- The new position of the group.
  select
    array_agg(f.claimed order by k.ordinal),
    array_agg(b.next_offset order by k.ordinal),
    array_agg(b.newest_at order by k.ordinal)
  into v_claimeds, v_nexts, v_newest
  from unnest(v_ids) with ordinality k (id, ordinal)
  cross join lateral (
    select
      coalesce(max(s.base_offset + s.message_count), 0) as next_offset,
      coalesce(max(s.created_at), '-infinity') as newest_at
    from (
      select s.base_offset, s.message_count, s.created_at
      from queen.segments s
      where s.partition_id = k.id
      order by s.base_offset desc
      limit 1
    ) s
  ) b
  cross join lateral (
    select coalesce(min(s.base_offset), 0) as first_offset
    from (
      select s.base_offset from queen.segments s where s.partition_id = k.id order by s.base_offset limit 1
    ) s
  ) a
  cross join lateral (
    select case
      when p_offset is not null then least(greatest(p_offset, a.first_offset), b.next_offset)
      when p_at is null then b.next_offset
      else queen.offset_after(k.id, p_at)
    end as claimed
  ) f;

  delete from queen.deliveries d
  using unnest(v_ids, v_claimeds) n (id, claimed)
  where d.group_id = v_group.id
    and d.partition_id = n.id
    and (d.payload is null or (lower(d.pending) >= n.claimed and queen.is_alive(n.id, lower(d.pending), v_now)));
  perform queen.keep_redriven(v_group.id, v_ids, v_now);

  update queen.consumers c
  set
    version = c.version + 1,
    claimed = n.claimed,
    held = n.kept > 0,
    parked = greatest(n.kept - 1, 0),
    ready_at = n.ready_at,
    idle_at = case when n.kept = 0 and n.ready_at is null then greatest(v_now, n.newest_at) end
  from (
    select
      n.id,
      n.claimed,
      n.newest_at,
      r.kept,
      case when r.kept = 0 and n.claimed < n.next_offset then
        queen.head_ready(n.id, n.claimed, greatest(v_queue.delay_seconds, v_queue.window_seconds), v_now)
      end as ready_at
    from unnest(v_ids, v_claimeds, v_nexts, v_newest) n (id, claimed, next_offset, newest_at)
    cross join lateral (
      select count(*)::integer as kept
      from queen.deliveries d
      where d.partition_id = n.id and d.group_id = v_group.id and d.ordered
    ) r
    offset 0
  ) n
  where c.partition_id = n.id and c.group_id = v_group.id;
  if v_queue.max_wait_seconds > 0 then
    insert into queen.laggards (queue_id, kind, partition_id, look_at)
    select v_queue.id, 'eviction', k.id, v_now from unnest(v_ids) k (id)
    on conflict (partition_id, kind) do update set look_at = excluded.look_at;
  end if;
  return v_ids[cardinality(v_ids)];
end
$$;

-- Take redriven deliveries of a group back from their leases. In an ordered pair one of them holds the pair and the others
-- are parked. The caller has locked them.
create or replace function queen.keep_redriven (p_group_id bigint, p_partition_ids bigint[], p_now timestamptz)
  returns void
  language plpgsql
  volatile
as $$
begin
  update queen.deliveries d
  set
    id = queen.delivery_id(d.partition_id),
    token = gen_random_uuid(),
    held = false,
    until = case
      when k.is_parked then 'infinity'
      when d.held or d.until = 'infinity' then p_now
      else d.until
    end
  from (
    select
      d.ctid,
      d.ordered and row_number() over (
        partition by d.partition_id order by d.until = 'infinity', d.first_offset, d.id
      ) > 1 as is_parked
    from unnest(p_partition_ids) p (id)
    cross join lateral (
      select d.ctid, d.id, d.partition_id, d.ordered, d.until, lower(d.pending) as first_offset
      from queen.deliveries d
      where d.partition_id = p.id and d.group_id = p_group_id
      offset 0
    ) d
  ) k
  where d.ctid = k.ctid;
end
$$;

-- Whether the log still has the message at an offset.
create or replace function queen.is_alive (p_partition_id bigint, p_offset bigint, p_now timestamptz)
  returns boolean
  language plpgsql
  stable
as $$
begin
  return coalesce(
    (
      select s.base_offset + s.message_count > p_offset
        and s.body is not null
        and coalesce(s.expires_at > p_now, true)
      from queen.segments s
      where s.partition_id = p_partition_id and s.base_offset <= p_offset
      order by s.base_offset desc
      limit 1
    ),
    false
  );
end
$$;
