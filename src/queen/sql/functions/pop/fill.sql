-- Create the positions of a group in the next p_limit partitions that existed before it. Returns true at the end.
-- Locks: the slot, the group, then partitions by id.
create or replace function queen.fill (p_group_id bigint, p_limit integer)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_group queen.groups;
  v_queue queen.queues;
  v_ids   bigint[];
begin
  select q.* into v_queue from queen.groups g join queen.queues q on q.id = g.queue_id where g.id = p_group_id;
  perform queen.enter_queue(v_queue.id);
  perform queen.enter_spread(v_queue);
  select g.* into v_group from queen.groups g where g.id = p_group_id for no key update;
  if not found or v_group.filled_to is null or v_group.deleted_at is not null then
    return true;
  end if;
  select array_agg(l.id) into v_ids
  from (
    select p.id
    from queen.partitions p
    where p.queue_id = v_group.queue_id and p.id > v_group.filled_to and p.id <= v_group.fill_end
    order by p.id
    limit p_limit
    for no key update
  ) l;
  perform queen.add_positions(v_group, v_queue, case
    when v_queue.slot is not null then v_ids
    -- Some are newer than the group and have positions already. Others arrive in this database with theirs.
    else array(
      select k.id
      from unnest(v_ids) k (id)
      where queen.is_owned(k.id)
        and not exists (select 1 from queen.consumers c where c.partition_id = k.id and c.group_id = p_group_id)
    )
  end);
  update queen.groups g
  set filled_to = case when coalesce(cardinality(v_ids), 0) = p_limit then v_ids[p_limit] end
  where g.id = p_group_id;
  return coalesce(cardinality(v_ids), 0) < p_limit;
end
$$;

-- Create the positions of a group in partitions that have none, at its start. The caller has locked the partitions.
create or replace function queen.add_positions (p_group queen.groups, p_queue queen.queues, p_ids bigint[])
  returns void
  language plpgsql
  volatile
as $$
declare
  v_now timestamptz := queen.now();
begin
  insert into queen.consumers (partition_id, group_id, claimed, ready_at, idle_at, priority)
  select
    p.id,
    p_group.id,
    f.first_offset,
    case when f.first_offset < n.next_offset then
      queen.head_ready(p.id, f.first_offset, greatest(p_queue.delay_seconds, p_queue.window_seconds), v_now)
    end,
    case when f.first_offset >= coalesce(n.next_offset, 0) then greatest(v_now, n.created_at) end,
    p.priority * 10 + p.level
  from unnest(p_ids) k (id)
  join queen.partitions p on p.id = k.id
  left join lateral (
    select s.base_offset + s.message_count as next_offset, s.created_at
    from queen.segments s
    where s.partition_id = p.id
    order by s.base_offset desc
    limit 1
  ) n on true
  cross join lateral (
    select case
      when p_group.start_mode <> 'all' then queen.offset_after(p.id, p_group.start_at)
      else coalesce(
        (select s.base_offset from queen.segments s where s.partition_id = p.id order by s.base_offset limit 1), 0
      )
    end as first_offset
  ) f;
end
$$;
