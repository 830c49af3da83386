-- The fence: calls that change a slot hold it until they commit, and fail if another database owns it.

-- Hold the slots of these partitions or deliveries. Raises QN018 if some have moved. Its detail lists them all, so that a caller
-- with several slots can repeat the call without them.
--
-- A move takes the exclusive form of the lock and changes the state. It waits for the calls that hold the slot, and later
-- calls find the new state. The check is a statement of its own, so that it sees what was committed before it got the lock.
-- Every function that changes data of a slot calls this before it locks partitions, consumers or deliveries.
-- A call with many slots takes one lock for all of them, because the lock table of PostgreSQL is small. A move takes that
-- lock too.
-- Locks: an advisory lock per slot, shared, in ascending order.
create or replace function queen.enter (p_ids bigint[])
  returns void
  language plpgsql
  volatile
as $$
declare
  c_class constant integer := hashtext('queen.slot');
  c_most  constant integer := 16;
  c_all   constant integer := 1024;
  v_id    bigint;
  v_slot  integer;
  v_slots integer[] := '{}';
  v_locks integer[];
begin
  if p_ids is null then
    return;
  end if;
  foreach v_id in array p_ids loop
    continue when v_id is null or v_id >> 53 = v_slot;
    v_slot := v_id >> 53;
    if v_slot <> all (v_slots) then
      v_slots := v_slots || v_slot;
    end if;
  end loop;
  if cardinality(v_slots) > 1 then
    v_slots := array(select s from unnest(v_slots) s order by s);
  end if;
  v_locks := case when cardinality(v_slots) > c_most then array[c_all] else v_slots end;
  foreach v_slot in array v_locks loop
    -- As an expression it is cheaper than the form that waits, which needs a statement.
    if not pg_try_advisory_xact_lock_shared(c_class, v_slot) then
      perform pg_advisory_xact_lock_shared(c_class, v_slot);
    end if;
  end loop;
  if exists (select 1 from queen.slots s where s.slot = any (v_slots) and s.state <> 'owned') then
    v_slots := array(
      select s.slot from queen.slots s where s.slot = any (v_slots) and s.state <> 'owned' order by s.slot
    );
    raise exception 'slot % is in another database now', v_slots[1]
      using errcode = 'QN018', detail = array_to_string(v_slots, ',');
  end if;
end
$$;

-- Hold the slot of a queue, as queen.enter does. A queue that does not exist has none.
create or replace function queen.enter_queue (p_queue_id bigint)
  returns void
  language plpgsql
  volatile
as $$
begin
  perform queen.enter(array(select q.slot::bigint << 53 from queen.queues q where q.id = p_queue_id));
end
$$;

-- Hold all slots of a spread queue, so that they stay meanwhile. Its partitions that this database owns then stay
-- owned (queen.is_owned). A move takes the exclusive form of this lock.
create or replace function queen.enter_spread (p_queue queen.queues)
  returns void
  language plpgsql
  volatile
as $$
declare
  c_class constant integer := hashtext('queen.slot');
  c_all   constant integer := 1024;
begin
  if p_queue.slot is null and not pg_try_advisory_xact_lock_shared(c_class, c_all) then
    perform pg_advisory_xact_lock_shared(c_class, c_all);
  end if;
end
$$;

-- Whether this database owns the slot of a partition. If it does not, the rows of the partition are on their way, or left over.
-- In PL/pgSQL, because PostgreSQL does not inline a function with a subquery, and would plan it at each call.
create or replace function queen.is_owned (p_partition_id bigint)
  returns boolean
  language plpgsql
  stable
as $$
begin
  return not exists (select 1 from queen.slots s where s.slot = p_partition_id >> 53 and s.state <> 'owned');
end
$$;

-- Hold the slot of a queue, or of one partition name of a spread queue, as queen.enter does.
create or replace function queen.enter_partitions (p_queue_id bigint, p_partition text)
  returns void
  language plpgsql
  volatile
as $$
begin
  perform queen.enter(array(
    select coalesce(q.slot, queen.partition_slot(q.id, p_partition))::bigint << 53 from queen.queues q where q.id = p_queue_id
  ));
end
$$;

-- Hold the slots of a spread queue for a change of all its partitions, or of one. Raises QN018 if one of them is leaving, because
-- neither database would change it.
create or replace function queen.enter_all_partitions (p_queue queen.queues, p_partition text)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_slot smallint;
begin
  if p_queue.slot is not null then
    return;
  end if;
  if p_partition is not null then
    perform queen.enter(array[queen.partition_slot(p_queue.id, p_partition)::bigint << 53]);
    return;
  end if;
  perform queen.enter_spread(p_queue);
  select s.slot into v_slot
  from queen.slots s
  where s.state = 'leaving' and exists (
    select 1
    from queen.partitions p
    where p.queue_id = p_queue.id and p.id between s.slot::bigint << 53 and s.slot::bigint << 53 | 9007199254740991
  )
  limit 1;
  if found then
    raise exception 'slot % is leaving to another database', v_slot using errcode = 'QN018', detail = v_slot;
  end if;
end
$$;

-- Hold the slots of queues by name. The queues need not exist yet. With one database this locks no slot.
create or replace function queen.enter_named (p_queues text[])
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  perform queen.enter(array(select h.slot::bigint << 53 from queen.homes h where h.name = any (p_queues)));
end
$$;
