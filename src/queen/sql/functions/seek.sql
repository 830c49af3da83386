-- Move a group in the next partitions of its queue: to the first message after p_at, or to p_offset.
--
-- p_partition: only this one, and only there p_offset. p_at: `-infinity` is the start, null the end. p_after: go on
-- behind this partition id. Answers the last partition id moved, null when none is left. Live leases are lost:
-- their deliveries are gone. Raises QN001, QN003, QN004. Locks: partitions by id, consumers, deliveries.
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
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_group_id bigint;
  v_queue    queen.queues;
  v_ids      bigint[];
  v_now      timestamptz;
begin
  select q.* into v_queue from queen.queues q where q.name = p_queue and q.deleted_at is null;
  if not found then
    raise exception 'there is no queue %', p_queue using errcode = 'QN001';
  end if;
  select g.id into v_group_id
  from queen.groups g
  where g.queue_id = v_queue.id and g.name = p_group and g.deleted_at is null;
  if not found then
    raise exception 'queue % has no group %', p_queue, p_group using errcode = 'QN003';
  end if;
  while not queen.fill(v_group_id, 1000) loop
  end loop;

  select array_agg(l.id) into v_ids
  from (
    select p.id
    from queen.partitions p
    where p.queue_id = v_queue.id
      and p.id > coalesce(p_after, 0)
      and (p_partition is null or p.name = p_partition)
    order by p.id
    limit p_limit
    for no key update
  ) l;
  if v_ids is null then
    if p_partition is not null and p_after is null then
      raise exception 'queue % has no partition %', p_queue, p_partition using errcode = 'QN004';
    end if;
    return null;
  end if;
  perform 1
  from (
    select c.partition_id
    from queen.consumers c
    where c.partition_id = any (v_ids) and c.group_id = v_group_id
    order by c.partition_id
    for no key update
  ) l;
  perform 1
  from (
    select d.id
    from queen.deliveries d
    where d.group_id = v_group_id and d.partition_id = any (v_ids)
    order by d.id
    for update
  ) l;
  delete from queen.deliveries d where d.group_id = v_group_id and d.partition_id = any (v_ids);
  v_now := queen.now();

  update queen.consumers c
  set
    version = c.version + 1,
    claimed = n.claimed,
    held = false,
    parked = 0,
    ready_at = n.ready_at,
    idle_at = case when n.ready_at is null then greatest(v_now, n.newest_at) end
  from (
    select
      k.id,
      f.claimed,
      b.newest_at,
      case when f.claimed < b.next_offset then
        queen.head_ready(k.id, f.claimed, greatest(v_queue.delay_seconds, v_queue.window_seconds), v_now)
      end as ready_at
    from unnest(v_ids) k (id)
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
    ) f
    offset 0
  ) n
  where c.partition_id = n.id and c.group_id = v_group_id;
  return v_ids[cardinality(v_ids)];
end
$$;
