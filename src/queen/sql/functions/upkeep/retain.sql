-- Remove messages that retention no longer keeps, from the next partitions of a queue in which some became old enough.
--
-- p_kind: `age` removes messages older than retentionSeconds, settled or not, except leased and waiting ones. `completed`
-- removes messages older than completedRetentionSeconds that every group has settled. Both keep messages under a
-- queen.hold. The row of the newest segment stays without a body, because the next offset is read from it. Removals are
-- recorded in queen.removals. p_again: seconds after which a partition is visited again if messages could not be removed.
-- Returns how many partitions were visited, how many messages were removed, whether nothing more is due, and how many
-- seconds behind the task is. Raises QN016.
-- Locks: the task, the slot (without waiting, or else the queue is skipped), the sweep, partitions by id (skips locked rows),
-- consumers, laggards.
create or replace function queen.retain (
  p_epoch    bigint,
  p_queue_id bigint,
  p_kind     text,
  p_limit    integer,
  p_again    double precision
)
  returns table (partitions integer, messages bigint, is_over boolean, lag_seconds double precision)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  c_segments constant integer := 5000;
  v_queue   queen.queues;
  v_seconds double precision;
  v_now     timestamptz;
  v_cut     timestamptz;
  v_hold    xid8;
  v_due     record;
  v_locked  bigint[];
  v_lagging bigint[] := '{}';
  v_id      bigint;
  v_room    integer := c_segments;
  v_trimmed record;
begin
  perform queen.hold_duty('retention', p_epoch);
  if queen.may_enter_queue(p_queue_id) then
    select q.* into v_queue from queen.queues q where q.id = p_queue_id and q.deleted_at is null;
  end if;
  v_seconds := case p_kind when 'age' then v_queue.retention_seconds else v_queue.completed_retention_seconds end;
  if v_queue.id is null or not v_queue.retention_enabled or v_seconds = 0 then
    return query select 0, 0::bigint, true, 0::double precision;
    return;
  end if;
  v_now := queen.now();
  v_cut := v_now - make_interval(secs => v_seconds);
  select h.xid into v_hold
  from queen.holds h
  where h.queue_id = p_queue_id and (h.expires_at is null or h.expires_at > v_now)
  order by h.xid
  limit 1;
  select d.* into v_due from queen.due_partitions(p_queue_id, p_kind, v_cut, v_hold, p_limit, v_now) d;
  if cardinality(v_due.partition_ids) = 0 then
    return query select 0, 0::bigint, v_due.is_over, v_due.lag_seconds;
    return;
  end if;
  v_locked := array(
    select p.id
    from queen.partitions p
    where p.id = any (v_due.partition_ids) and queen.is_owned(p.id)
    order by p.id
    for no key update skip locked
  );
  messages := 0;
  foreach v_id in array v_locked loop
    select t.* into v_trimmed from queen.trim_start(v_id, v_queue, p_kind, v_cut, v_hold, v_room) t;
    messages := messages + v_trimmed.messages;
    v_room := greatest(v_room - v_trimmed.segments, 1);
    if v_trimmed.is_lagging then
      v_lagging := v_lagging || v_id;
    end if;
  end loop;
  perform queen.look_again(
    p_queue_id, p_kind, v_due.partition_ids,
    array(
      -- Partitions that no longer exist are finished.
      select distinct u.id
      from unnest(v_due.partition_ids) u (id)
      where u.id <> all (v_locked) and exists (select 1 from queen.partitions p where p.id = u.id)
    ),
    v_lagging, p_again, v_now
  );
  return query
  select cardinality(v_due.partition_ids), messages, v_due.is_over, v_due.lag_seconds;
end
$$;

-- Remove messages older than p_cut from the start of a partition as far as possible, at most p_most segments. is_lagging if
-- old messages are left. The caller has locked the partition.
create or replace function queen.trim_start (
  p_partition_id bigint,
  p_queue        queen.queues,
  p_kind         text,
  p_cut          timestamptz,
  p_hold         xid8,
  p_most         integer,
  out messages   bigint,
  out segments   integer,
  out is_lagging boolean
)
  language plpgsql
  volatile
as $$
declare
  v_old record;
  v_end bigint;
begin
  -- Times never fall as offsets rise: old messages are at the start.
  select
    coalesce(min(s.base_offset) filter (where s.xid >= p_hold), max(s.next_offset)) as end_offset,
    count(*) as segments
  into v_old
  from (
    select s.base_offset, s.base_offset + s.message_count as next_offset, s.created_at, s.xid
    from queen.segments s
    where s.partition_id = p_partition_id
    order by s.base_offset
    limit p_most
  ) s
  where s.created_at < p_cut;
  v_end := case p_kind
    when 'age' then queen.passable(p_partition_id, v_old.end_offset)
    else queen.settled_to(p_partition_id, p_queue.id, v_old.end_offset)
  end;
  is_lagging := coalesce(v_end, -1) < v_old.end_offset or v_old.segments >= p_most;
  select c.* into messages, segments
  from queen.cut(p_partition_id, p_queue.id, v_end, p_most, p_kind) c;
  -- The sweep has passed recalled segments and, where one transaction stored segments of many ages because their slot moved,
  -- the younger ones. So they are visited again until they are removed.
  is_lagging := coalesce(is_lagging, false) or coalesce(
    (
      select s.body is not null and s.xid <= (
        select w.xid from queen.sweeps w where w.queue_id = p_queue.id and w.kind = p_kind
      )
      from queen.segments s
      where s.partition_id = p_partition_id
      order by s.base_offset
      limit 1
    ),
    false
  );
end
$$;

-- How far the start of a partition can be removed by age: up to p_end, or up to the first message that is leased or waits
-- for a retry. Groups before that position move to it. The caller has locked the partition.
create or replace function queen.passable (p_partition_id bigint, p_end bigint)
  returns bigint
  language plpgsql
  volatile
as $$
declare
  v_end       bigint;
  v_is_behind boolean;
begin
  -- A group that has not claimed all of it might claim meanwhile. Wait for a running claim, which is then visible below.
  select count(*) > 0 into v_is_behind
  from (
    select c.group_id
    from queen.consumers c
    where c.partition_id = p_partition_id and c.claimed < p_end
    order by c.group_id
    for no key update
  ) c;
  v_end := least(p_end, (
    select min(lower(d.pending))
    from queen.deliveries d
    where d.partition_id = p_partition_id and d.payload is null
  ));
  if v_is_behind then
    perform queen.move_up(
      p_partition_id,
      -- Only to the border of a segment: the others stay.
      coalesce(
        (
          select s.base_offset
          from (
            select s.base_offset, s.base_offset + s.message_count as next_offset
            from queen.segments s
            where s.partition_id = p_partition_id and s.base_offset <= v_end
            order by s.base_offset desc
            limit 1
          ) s
          where s.next_offset > v_end
        ),
        v_end
      )
    );
  end if;
  return v_end;
end
$$;
