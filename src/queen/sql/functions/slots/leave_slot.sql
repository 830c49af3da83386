-- A slot moves: its owner rejects calls, then the other database owns it, then the former owner forgets it.

-- Reject calls on a slot, because its last rows are copied now. Returns its epoch and the last ids of this database.
--
-- Calls that hold the slot end before. It can be repeated by the same or another process, whose copy counts then.
-- Locks: the slot, exclusive; limits by group. Raises QN018, QN025.
create or replace function queen.leave_slot (p_slot smallint, p_to text, p_copier uuid)
  returns table (epoch bigint, partition_id bigint, delivery_id bigint)
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  perform queen.lock_slot(p_slot);
  if exists (select 1 from queen.slots s where s.slot = p_slot and s.state = 'owned') then
    perform queen.check_movable(p_slot);
    if queen.follows_forwards(p_slot) then
      raise exception 'messages of transactions are on their way to queues of slot %', p_slot using errcode = 'QN025';
    end if;
    perform queen.send_leases(p_slot);
  end if;
  update queen.slots s
  set state = 'leaving', moved_to = p_to, copier = p_copier
  where s.slot = p_slot and s.copied_to = p_to and s.state in ('owned', 'leaving');
  if not found then
    raise exception 'slot % does not move to % any more', p_slot, p_to using errcode = 'QN018';
  end if;
  perform queen.wake_slot(p_slot);
  return query
  select s.epoch, p.last_value, d.last_value
  from queen.slots s
  cross join queen.partitions_id_seq p
  cross join queen.delivery_ids d
  where s.slot = p_slot;
end
$$;

-- Whether pushes of transactions wait in forwards although this database owns the slot of their queue. They can't be stored while
-- the slot is leaving. It is a search per queue of the slot, so a long backlog of other queues does not matter.
create or replace function queen.follows_forwards (p_slot smallint)
  returns boolean
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select 1
    from queen.homes h
    cross join lateral (
      select 1 from queen.forwards f where f.queue = h.name and p_slot = any (f.slots) limit 1
    ) f
    where h.slot = p_slot
  )
$$;

-- Own a slot again, because the other database does not. The caller has made sure that no process can complete the move.
create or replace function queen.keep_slot (p_slot smallint, p_copier uuid)
  returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  update queen.slots s
  set state = 'owned', moved_to = null
  where s.slot = p_slot and s.state = 'leaving' and s.copier = p_copier;
  if not found then
    return false;
  end if;
  perform queen.receive_leases(p_slot);
  perform queen.wake_slot(p_slot);
  return true;
end
$$;

-- The slot is gone, because another database owns it. Its queues are hidden until they are erased by the process that moved it.
create or replace function queen.close_slot (p_slot smallint, p_to text, p_epoch bigint)
  returns void
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  update queen.slots s
  set state = 'gone', moved_to = p_to, epoch = p_epoch, copied_to = null, copier = null
  where s.slot = p_slot and s.epoch < p_epoch;
  if not found then
    return;
  end if;
  delete from queen.rewrites r where r.partition_id >> 53 = p_slot;
  delete from queen.leaving_leases n where n.slot = p_slot;
  delete from queen.schedules c where c.queue in (select h.name from queen.homes h where h.slot = p_slot);
  update queen.queues q
  set deleted_at = queen.now(), version = q.version + 1
  where q.slot = p_slot and q.deleted_at is null;
end
$$;
