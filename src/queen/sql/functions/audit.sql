-- Append a record to the audit log: its hash covers the one before, so that none can be changed or taken out unseen.
--
-- What is hashed is the hash before, then as UTF-8 the id, the instant in microseconds since 1970 and the record, a line each.
-- Locks: the row of audit_end, which puts records in one order.
create or replace function queen.audit (
  p_actor  text,
  p_action text,
  p_queue  text,
  p_record text
)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_end  record;
  v_now  timestamptz;
  v_hash bytea;
begin
  select e.id, e.hash into v_end from queen.audit_end e for no key update;
  v_now := date_trunc('microseconds', queen.now());
  v_hash := sha256(
    v_end.hash
    || convert_to(
      (v_end.id + 1)::text || e'\n' || (extract(epoch from v_now) * 1000000)::bigint::text || e'\n' || p_record, 'UTF8'
    )
  );
  insert into queen.audit (id, at, actor, action, queue, record, hash)
  values (v_end.id + 1, v_now, p_actor, p_action, p_queue, p_record, v_hash);
  update queen.audit_end e set id = v_end.id + 1, hash = v_hash;
  return v_end.id + 1;
end
$$;
