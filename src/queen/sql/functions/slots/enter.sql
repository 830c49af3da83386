-- The fence: calls that change a slot hold it until they commit, and fail if another database owns it.

-- Hold the slots of these partitions or deliveries. Raises QN018 if one has moved.
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
    raise exception 'slot % is in another database now', (
      select s.slot from queen.slots s where s.slot = any (v_slots) and s.state <> 'owned' order by s.slot limit 1
    ) using errcode = 'QN018';
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
