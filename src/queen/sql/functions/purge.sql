-- Remove messages of the next partitions of a queue: all, or those that every group has settled.
--
-- p_before: only segments stored before; null for any. p_after: go on behind this partition id. Answers the last
-- partition id and how many messages went, no row when none is left. Where all is purged, groups stand behind it
-- and leases on it are lost. The newest segment's row stays, emptied: the next offset is read from it.
-- Raises QN001. Locks: partitions by id, consumers, deliveries.
create or replace function queen.purge (
  p_queue     text,
  p_partition text,
  p_completed boolean,
  p_before    timestamptz,
  p_after     bigint,
  p_limit     integer
)
  returns table (partition_id bigint, messages bigint)
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
  v_queue queen.queues;
  v_ids   bigint[];
  v_id    bigint;
  v_end   bigint;
  v_settled bigint;
  v_count bigint := 0;
  v_step  bigint;
begin
  select q.* into v_queue from queen.queues q where q.name = p_queue and q.deleted_at is null;
  if not found then
    raise exception 'there is no queue %', p_queue using errcode = 'QN001';
  end if;
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
    return;
  end if;
  if not p_completed then
    perform 1
    from (
      select c.partition_id
      from queen.consumers c
      where c.partition_id = any (v_ids)
      order by c.partition_id, c.group_id
      for no key update
    ) l;
    perform 1
    from (select d.id from queen.deliveries d where d.partition_id = any (v_ids) order by d.id for update) l;
  end if;
  if not p_completed and p_before is null then
    delete from queen.scheduled s where s.queue_id = v_queue.id and s.partition_id = any (v_ids);
  end if;

  foreach v_id in array v_ids loop
    -- The end of what goes, as an offset at the edge of a segment.
    select max(s.base_offset + s.message_count) into v_end
    from queen.segments s
    where s.partition_id = v_id and (p_before is null or s.created_at < p_before);
    if p_completed then
      select min(least(c.claimed, (
        select min(lower(d.pending))
        from queen.deliveries d
        where d.group_id = c.group_id and d.partition_id = v_id and d.payload is null
      ))) into v_settled
      from queen.consumers c
      join queen.groups g on g.id = c.group_id and g.deleted_at is null
      where c.partition_id = v_id;
      -- What nobody reads yet nobody has settled.
      v_end := case when v_settled is not null then least(v_end, v_settled) end;
      if exists (
        select 1 from queen.groups g
        where g.queue_id = v_queue.id and g.deleted_at is null and g.filled_to < v_id and g.fill_end >= v_id
      ) then
        v_end := null;
      end if;
    else
      perform queen.pass_over(v_id, v_end);
    end if;
    with gone as (
      delete from queen.segments s
      where s.partition_id = v_id
        and s.base_offset + s.message_count <= v_end
        and s.base_offset < (select max(n.base_offset) from queen.segments n where n.partition_id = v_id)
      returning case when s.body is not null then s.message_count else 0 end as messages
    ),
    emptied as (
      update queen.segments s
      set body = null, ends = null, extras = null
      where s.partition_id = v_id
        and s.base_offset + s.message_count <= v_end
        and s.base_offset = (select max(n.base_offset) from queen.segments n where n.partition_id = v_id)
        and s.body is not null
      returning s.message_count as messages
    )
    select coalesce(sum(messages), 0) into v_step
    from (select messages from gone union all select messages from emptied) m;
    v_count := v_count + v_step;
  end loop;
  return query select v_ids[cardinality(v_ids)], v_count;
end
$$;

-- Put every group of a partition behind p_end, and take what is below out of its deliveries.
-- The caller has locked the partition, its consumers and its deliveries.
create or replace function queen.pass_over (p_partition_id bigint, p_end bigint)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now      timestamptz;
  v_delivery queen.deliveries;
begin
  v_now := queen.now();
  update queen.consumers c
  set
    version = c.version + 1,
    claimed = p_end,
    ready_at = case
      when c.held then null
      when p_end < n.next_offset then greatest(v_now, c.ready_at)
    end,
    idle_at = case when not c.held and p_end >= n.next_offset then greatest(v_now, n.created_at) end
  from (
    select s.base_offset + s.message_count as next_offset, s.created_at
    from queen.segments s
    where s.partition_id = p_partition_id
    order by s.base_offset desc
    limit 1
  ) n
  where c.partition_id = p_partition_id and c.claimed < p_end;
  for v_delivery in
    select d.*
    from queen.consumers c
    join queen.deliveries d on d.group_id = c.group_id and d.partition_id = c.partition_id
    where c.partition_id = p_partition_id and d.payload is null and lower(d.pending) < p_end
    order by d.id
    for no key update of d
  loop
    -- A new pair: whoever holds it must not settle what is left by the old one.
    update queen.deliveries d
    set id = nextval('queen.delivery_ids'), token = gen_random_uuid(), held = false, out_end = null
    where d.id = v_delivery.id
    returning d.* into v_delivery;
    perform queen.shrink(v_delivery, int8multirange(int8range(null, p_end)));
    update queen.deliveries d
    set
      head = case when d.head >= p_end then d.head end,
      attempts = case when d.head >= p_end then d.attempts else 0 end,
      until = case when d.until < 'infinity' then v_now else d.until end
    where d.id = v_delivery.id;
  end loop;
end
$$;
