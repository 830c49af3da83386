-- The data key that encrypts payloads of a queue now, with p_uses uses of it for the caller.
--
-- A key is used for one day and at most p_max_uses times. If the newest key cannot be used, returns an id without a key: the
-- caller creates a key, wraps it for this id and calls again. If another caller was faster, returns their key.
-- Raises QN001, QN018: a key that is created after the queue was copied to another database would be lost.
-- Locks: the slot, the queue, so that keys are created one at a time.
create or replace function queen.take_data_key (
  p_queue_id  bigint,
  p_uses      bigint,
  p_max_uses  bigint,
  p_id        integer,
  p_master_id text,
  p_wrapped   bytea
)
  returns table (id integer, master_id text, wrapped bytea, seconds double precision)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_key queen.data_keys;
begin
  perform queen.enter_queue(p_queue_id);
  perform 1 from queen.queues q where q.id = p_queue_id and q.deleted_at is null for no key update;
  if not found then
    raise exception 'queue % was deleted', p_queue_id using errcode = 'QN001';
  end if;
  v_now := queen.now();
  select k.* into v_key from queen.data_keys k where k.queue_id = p_queue_id order by k.id desc limit 1 for update;
  if v_key.uses + p_uses <= p_max_uses and v_key.created_at + interval '1 day' > v_now then
    update queen.data_keys k set uses = k.uses + p_uses where k.id = v_key.id;
  elsif p_wrapped is null then
    return query select nextval('queen.data_key_ids')::integer, null::text, null::bytea, null::double precision;
    return;
  else
    insert into queen.data_keys as k (id, queue_id, master_id, wrapped, created_at, uses)
    values (p_id, p_queue_id, p_master_id, p_wrapped, v_now, p_uses)
    returning k.* into v_key;
  end if;
  return query
  select
    v_key.id, v_key.master_id, v_key.wrapped,
    extract(epoch from v_key.created_at + interval '1 day' - v_now)::double precision;
end
$$;
