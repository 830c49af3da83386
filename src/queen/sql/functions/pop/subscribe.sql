-- Find a group of a queue, or create it at the requested start. Returns its id and whether it is filled.
--
-- p_mode: `all`, `new`, `time` with p_from, or null for no preference (a new group then uses `all`). Returns null if the
-- queue does not exist, or if it is spread and the group does not exist: the first database creates such groups. Raises QN005
-- if the group was created with another start.
-- Locks: the slot and the queue's advisory lock, exclusive, while a group is created.
create or replace function queen.subscribe (p_queue text, p_group text, p_mode text, p_from timestamptz)
  returns table (queue_id bigint, group_id bigint, is_filled boolean)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_queue_id  bigint;
  v_is_spread boolean;
  v_group     queen.groups;
  v_now       timestamptz;
begin
  select q.id, q.slot is null into v_queue_id, v_is_spread
  from queen.queues q
  where q.name = p_queue and q.deleted_at is null;
  if not found then
    return;
  end if;
  select g.* into v_group
  from queen.groups g
  where g.queue_id = v_queue_id and g.name = p_group and g.deleted_at is null;
  if not found and v_is_spread and not queen.is_first() then
    return;
  end if;
  if not found then
    perform queen.enter_queue(v_queue_id);
    perform pg_advisory_xact_lock(hashtextextended('queen.queue', v_queue_id));
    v_now := queen.now();
    insert into queen.groups (queue_id, name, start_mode, start_at, created_at, filled_to, fill_end)
    select
      q.id,
      p_group,
      coalesce(p_mode, 'all'),
      case coalesce(p_mode, 'all') when 'all' then '-infinity' when 'new' then v_now else least(p_from, v_now) end,
      v_now,
      0,
      coalesce((select p.id from queen.partitions p where p.queue_id = q.id order by p.id desc limit 1), 0)
    from queen.queues q
    where q.id = v_queue_id and q.deleted_at is null
    on conflict (queue_id, name) where deleted_at is null do nothing;
    select g.* into v_group
    from queen.groups g
    where g.queue_id = v_queue_id and g.name = p_group and g.deleted_at is null;
    if not found then
      -- Deleted while this call waited for the lock.
      return;
    end if;
    perform queen.fill(v_group.id, 1000);
    -- Messages that wait for this group may have waited too long already.
    delete from queen.sweeps w where w.queue_id = v_queue_id and w.kind = 'eviction';
    select g.* into v_group from queen.groups g where g.id = v_group.id;
  end if;
  if p_mode is not null and (
    p_mode <> v_group.start_mode or (p_mode = 'time' and least(p_from, v_group.created_at) <> v_group.start_at)
  ) then
    raise exception 'group % of queue % was created with start %', p_group, p_queue, v_group.start_mode
      using errcode = 'QN005', hint = 'Seek moves a group that exists.';
  end if;
  return query select v_queue_id, v_group.id, v_group.filled_to is null;
end
$$;
