-- Keep messages of a queue that transactions from p_xid on have stored, regardless of retention, until the hold with this
-- name is moved or dropped. Raises QN001, QN018.
-- Locks: the slot, then the retention task, so that each of its steps sees the hold.
create or replace function queen.hold (p_queue text, p_name text, p_xid xid8)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue_id bigint := (queen.whole_queue_named(p_queue)).id;
begin
  perform queen.enter_queue(v_queue_id);
  perform 1 from queen.duties d where d.name = 'retention' for no key update;
  insert into queen.holds as h (queue_id, name, xid, held_at)
  values (v_queue_id, p_name, p_xid, queen.now())
  on conflict (queue_id, name) do update set xid = excluded.xid, held_at = excluded.held_at, expires_at = null;
end
$$;

-- Drop a hold. Returns false if there was none. Raises QN001, QN018.
-- Locks: the slot.
create or replace function queen.unhold (p_queue text, p_name text)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue_id bigint := (queen.queue_named(p_queue)).id;
begin
  perform queen.enter_queue(v_queue_id);
  delete from queen.holds h where h.queue_id = v_queue_id and h.name = p_name;
  return found;
end
$$;
