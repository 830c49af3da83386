-- Append records to the audit log, in their order. Return the id of the last one.
--
-- Each hash covers the record before, so that no record can be changed or removed unnoticed. The input of the hash is the
-- hash before, then as UTF-8 the id, the timestamp in microseconds since 1970 and the record, one per line.
-- Locks: the row of audit_end, once for all of these records.
create or replace function queen.audit_batch (
  p_actors  text[],
  p_actions text[],
  p_queues  text[],
  p_records text[]
)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_end    record;
  v_now    timestamptz;
  v_hash   bytea;
  v_hashes bytea[] := '{}';
begin
  select e.id, e.hash into v_end from queen.audit_end e for no key update;
  v_now := date_trunc('microseconds', queen.now());
  v_hash := v_end.hash;
  for v_number in 1 .. cardinality(p_records) loop
    v_hash := queen.audit_hash(v_hash, v_end.id + v_number, v_now, p_records[v_number]);
    v_hashes := v_hashes || v_hash;
  end loop;
  insert into queen.audit (id, at, actor, action, queue, record, hash)
  select v_end.id + r.number, v_now, r.actor, r.action, r.queue, r.record, r.hash
  from unnest(p_actors, p_actions, p_queues, p_records, v_hashes)
    with ordinality r (actor, action, queue, record, hash, number);
  update queen.audit_end e set id = v_end.id + cardinality(p_records), hash = v_hash;
  return v_end.id + cardinality(p_records);
end
$$;

-- Append one record. For servers of the last release.
create or replace function queen.audit (
  p_actor  text,
  p_action text,
  p_queue  text,
  p_record text
)
  returns bigint
  language sql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
  select queen.audit_batch(array[p_actor], array[p_action], array[p_queue], array[p_record])
$$;
