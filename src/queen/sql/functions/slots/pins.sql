-- Pins: partitions of spread queues that have a slot of their own.
--
-- A partition can be pinned or unpinned only while it does not exist, because its ids contain the slot. The first database records
-- the pin as not ready. All databases get that copy, and stop creating the partition. Then the owner of the former slot confirms
-- that the partition does not exist, and the pin becomes ready, or is deleted.

-- The slot of a partition in a spread queue. Raises QN018 while a pin is not ready, because then it has none.
create or replace function queen.partition_slot (p_queue_id bigint, p_partition text)
  returns smallint
  language plpgsql
  stable
as $$
declare
  v_pin queen.pins;
begin
  select p.* into v_pin from queen.pins p where p.queue_id = p_queue_id and p.partition = p_partition;
  if v_pin.slot is null then
    return queen.hashed_slot(p_partition);
  end if;
  if not v_pin.is_ready then
    raise exception 'partition % is being pinned or unpinned', p_partition
      using errcode = 'QN018', detail = queen.hashed_slot(p_partition);
  end if;
  return v_pin.slot;
end
$$;

-- Reserve one of these slots for a partition, the first that no pin uses. Returns the pin, which is not ready yet, or the pin that
-- the partition has already. No row: all slots are used. Raises QN001.
-- Locks: the queue's advisory lock, exclusive, so no transaction creates the partition meanwhile; pins.
create or replace function queen.reserve_pin (p_queue text, p_partition text, p_slots smallint[])
  returns table (queue_id bigint, slot smallint, is_ready boolean, revision bigint, is_new boolean)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_queue queen.queues := queen.queue_named(p_queue);
  v_slot  smallint;
begin
  perform pg_advisory_xact_lock(hashtextextended('queen.queue', v_queue.id));
  lock table queen.pins in share row exclusive mode;
  if not exists (select 1 from queen.pins p where p.queue_id = v_queue.id and p.partition = p_partition) then
    select n.slot into v_slot
    from unnest(p_slots) with ordinality n (slot, ordinal)
    where not exists (
      select 1
      from queen.pins p
      join queen.queues q on q.id = p.queue_id and q.deleted_at is null
      where p.slot = n.slot
    )
    order by n.ordinal
    limit 1;
    if not found then
      return;
    end if;
    insert into queen.pins (queue_id, partition, slot, is_ready, revision)
    values (v_queue.id, p_partition, v_slot, false, queen.note_definition(v_queue.id));
  end if;
  return query
  select p.queue_id, p.slot, p.is_ready, p.revision, v_slot is not null
  from queen.pins p
  where p.queue_id = v_queue.id and p.partition = p_partition;
end
$$;

-- Make a pin ready or not ready, or delete it if p_is_ready is null. Returns its new revision, or null if it has changed since
-- p_revision.
-- Locks: the queue's advisory lock, exclusive; pins.
create or replace function queen.change_pin (p_queue_id bigint, p_partition text, p_revision bigint, p_is_ready boolean)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_revision bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('queen.queue', p_queue_id));
  lock table queen.pins in share row exclusive mode;
  if not exists (
    select 1 from queen.pins p where p.queue_id = p_queue_id and p.partition = p_partition and p.revision = p_revision
  ) then
    return null;
  end if;
  v_revision := queen.note_definition(p_queue_id);
  if p_is_ready is null then
    delete from queen.pins p where p.queue_id = p_queue_id and p.partition = p_partition;
  else
    update queen.pins p
    set is_ready = p_is_ready, revision = v_revision
    where p.queue_id = p_queue_id and p.partition = p_partition;
  end if;
  return v_revision;
end
$$;

-- Whether a partition exists in a slot of this database. Raises QN018 if another database owns the slot.
-- Locks: the slot.
create or replace function queen.has_partition (p_queue_id bigint, p_partition text, p_slot smallint)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  perform queen.enter(array[p_slot::bigint << 53]);
  return exists (
    select 1
    from queen.partitions p
    where p.queue_id = p_queue_id and p.name = p_partition and p.id >> 53 = p_slot
  );
end
$$;
