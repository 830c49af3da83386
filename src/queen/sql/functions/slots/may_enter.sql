-- Hold these slots for a background task. Returns false if another database owns one of them, or if one is moving now.
--
-- A task skips such a queue and continues with the next, so one slot does not stop it. It never waits, because it may hold
-- locks that a move needs.
-- Locks: an advisory lock per slot, shared.
create or replace function queen.may_enter (p_slots smallint[])
  returns boolean
  language plpgsql
  volatile
as $$
declare
  c_class constant integer := hashtext('queen.slot');
  v_slot  integer;
begin
  foreach v_slot in array p_slots loop
    if not pg_try_advisory_xact_lock_shared(c_class, v_slot) then
      return false;
    end if;
  end loop;
  return not exists (select 1 from queen.slots s where s.slot = any (p_slots) and s.state <> 'owned');
end
$$;

-- Hold the slot of a queue, as queen.may_enter does. A queue that does not exist has none. For a spread queue this holds all
-- slots, as queen.enter_spread does, and the caller leaves out partitions that this database does not own.
create or replace function queen.may_enter_queue (p_queue_id bigint)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  return queen.may_enter(array(select coalesce(q.slot, 1024::smallint) from queen.queues q where q.id = p_queue_id));
end
$$;
