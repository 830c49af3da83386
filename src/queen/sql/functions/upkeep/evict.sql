-- Evict messages that waited longer than maxWaitTimeSeconds, from the next partitions of a queue that have any.
--
-- Unclaimed messages of a group become dead letters with the reason `evicted`, or are dropped if the queue keeps none.
-- Claimed messages are not touched. A call ends with the segment that reaches p_messages messages or 16 MiB.
-- Returns how many partitions were visited, the groups and how many messages of each were evicted, whether dead letters were
-- written, whether nothing more is due, and how many seconds behind the task is. Raises QN016.
-- Locks: the task, the slot (without waiting, or else the queue is skipped); then the group (to fill it); or the sweep,
-- partitions by id (skips locked rows), consumers, laggards.
create or replace function queen.evict (p_epoch bigint, p_queue_id bigint, p_limit integer, p_messages integer)
  returns table (
    partitions integer, messages bigint, group_ids bigint[], counts bigint[], is_kept boolean, is_over boolean,
    lag_seconds double precision
  )
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  c_again   constant double precision := 10;
  v_queue   queen.queues;
  v_unfull  bigint;
  v_now     timestamptz;
  v_stale   timestamptz;
  v_due     record;
  v_locked  bigint[];
  v_id      bigint;
  v_pair    record;
  v_step    record;
  v_is_late boolean;
  v_late    bigint[] := '{}';
  v_lagging bigint[] := '{}';
  v_left    bigint := p_messages;
  v_bytes   bigint := 16 * 1024 * 1024;
begin
  perform queen.hold_duty('evictions', p_epoch);
  messages := 0;
  group_ids := '{}';
  counts := '{}';
  is_over := true;
  partitions := 0;
  lag_seconds := 0;
  if queen.may_enter_queue(p_queue_id) then
    select q.* into v_queue from queen.queues q where q.id = p_queue_id and q.deleted_at is null;
  end if;
  is_kept := v_queue.dead_letter;
  if v_queue.id is null or v_queue.max_wait_seconds = 0 then
    return next;
    return;
  end if;
  select g.id into v_unfull
  from queen.groups g
  where g.queue_id = p_queue_id and g.deleted_at is null and g.filled_to is not null
  limit 1;
  if v_unfull is not null then
    -- In a separate transaction, because filling locks partitions in a different order.
    is_over := false;
    perform queen.fill(v_unfull, 1000);
    return next;
    return;
  end if;
  v_now := queen.now();
  v_stale := queen.stale_before(v_queue, v_now);
  select d.* into v_due from queen.due_partitions(p_queue_id, 'eviction', v_stale, null, p_limit, v_now) d;
  v_locked := array(
    select p.id
    from queen.partitions p
    where p.id = any (v_due.partition_ids) and queen.is_owned(p.id)
    order by p.id
    for no key update skip locked
  );
  foreach v_id in array v_locked loop
    v_is_late := false;
    for v_pair in
      select c.group_id, c.claimed
      from queen.consumers c
      cross join lateral (
        select g.id from queen.groups g where g.id = c.group_id and g.deleted_at is null offset 0
      ) g
      where c.partition_id = v_id
      order by c.group_id
      for no key update of c
    loop
      select e.* into v_step
      from queen.evict_pair(
        v_queue, v_id, v_pair.group_id, v_pair.claimed, v_stale, v_left, v_bytes, v_now
      ) e;
      v_is_late := v_is_late or v_step.has_more;
      v_left := v_left - v_step.messages;
      v_bytes := v_bytes - v_step.bytes;
      if v_step.messages > 0 then
        messages := messages + v_step.messages;
        group_ids := group_ids || v_pair.group_id;
        counts := counts || v_step.messages;
      end if;
    end loop;
    if v_is_late then
      v_late := v_late || v_id;
    elsif queen.is_passed(p_queue_id, v_id) then
      v_lagging := v_lagging || v_id;
    end if;
  end loop;
  -- Visit locked partitions again in one second, or immediately if the limit was reached.
  perform queen.look_again(
    p_queue_id, 'eviction', v_due.partition_ids,
    array(
      select distinct u.id
      from unnest(v_due.partition_ids) u (id)
      where (u.id <> all (v_locked) or u.id = any (v_late))
        and exists (select 1 from queen.partitions p where p.id = u.id)
    ),
    v_lagging, c_again, v_now - case when cardinality(v_late) > 0 then interval '1 second' else interval '0' end
  );
  partitions := cardinality(v_due.partition_ids);
  is_over := v_due.is_over and cardinality(v_late) = 0;
  lag_seconds := v_due.lag_seconds;
  return next;
end
$$;

-- Whether the sweep has passed messages of a partition that some group has not claimed, because one transaction stored
-- segments of many ages when their slot moved.
create or replace function queen.is_passed (p_queue_id bigint, p_partition_id bigint)
  returns boolean
  language plpgsql
  volatile
as $$
begin
  return exists (
    select 1
    from queen.sweeps w
    cross join lateral (
      select c.claimed from queen.consumers c where c.partition_id = p_partition_id offset 0
    ) c
    cross join lateral (
      -- The segment at the position, or the next one.
      select s.xid
      from queen.segments s
      where s.partition_id = p_partition_id
        and s.base_offset >= coalesce(
          (
            select h.base_offset
            from queen.segments h
            where h.partition_id = p_partition_id and h.base_offset <= c.claimed
            order by h.base_offset desc
            limit 1
          ),
          c.claimed
        )
        and s.base_offset + s.message_count > c.claimed
      order by s.base_offset
      limit 1
    ) s
    where w.queue_id = p_queue_id and w.kind = 'eviction' and s.xid <= w.xid
  );
end
$$;

-- Evict unclaimed messages of a group from the start of a partition. The caller has locked the partition and the pair.
create or replace function queen.evict_pair (
  p_queue        queen.queues,
  p_partition_id bigint,
  p_group_id     bigint,
  p_claimed      bigint,
  p_stale        timestamptz,
  p_messages     bigint,
  p_bytes        bigint,
  p_now          timestamptz,
  out messages   bigint,
  out bytes      bigint,
  out has_more   boolean
)
  language plpgsql
  volatile
as $$
declare
  c_segments constant integer := 100;
  v_found record;
begin
  select
    max(s.next_offset) filter (where s.has_room) as end_offset,
    sum(s.bytes) filter (where s.has_room) as bytes,
    bool_or(not s.has_room) or count(*) = c_segments as has_more
  into v_found
  from (
    select
      s.next_offset, s.bytes,
      sum(s.next_offset - s.base_offset) over w - (s.next_offset - s.base_offset) < p_messages
        and sum(s.bytes) over w - s.bytes < p_bytes as has_room
    from (
      select
        s.base_offset, s.base_offset + s.message_count as next_offset, s.created_at,
        coalesce(octet_length(s.body), 0)::bigint as bytes
      from queen.segments s
      where s.partition_id = p_partition_id
        and s.base_offset >= coalesce(
          (
            select h.base_offset
            from queen.segments h
            where h.partition_id = p_partition_id and h.base_offset <= p_claimed
            order by h.base_offset desc
            limit 1
          ),
          p_claimed
        )
        and s.base_offset + s.message_count > p_claimed
      order by s.base_offset
      limit c_segments
    ) s
    where s.created_at <= p_stale
    window w as (order by s.base_offset)
  ) s;
  messages := 0;
  has_more := coalesce(v_found.has_more, false);
  bytes := coalesce(v_found.bytes, 0);
  if v_found.end_offset is null or v_found.end_offset <= p_claimed then
    return;
  end if;
  messages := queen.bury_stale(
    p_group_id, p_queue, array[p_partition_id], array[p_claimed], array[v_found.end_offset], p_stale, p_now
  );
  update queen.consumers c
  set
    version = c.version + 1,
    claimed = v_found.end_offset,
    ready_at = case
      when c.held then null
      when v_found.end_offset < n.next_offset then greatest(p_now, c.ready_at, queen.head_ready(
        p_partition_id, v_found.end_offset, greatest(p_queue.delay_seconds, p_queue.window_seconds), p_now
      ))
    end,
    idle_at = case when not c.held and v_found.end_offset >= n.next_offset then greatest(p_now, n.created_at) end
  from (
    select s.base_offset + s.message_count as next_offset, s.created_at
    from queen.segments s
    where s.partition_id = p_partition_id
    order by s.base_offset desc
    limit 1
  ) n
  where c.partition_id = p_partition_id and c.group_id = p_group_id;
end
$$;
