-- The hash of an audit record, which covers the hash of the record before it.
create or replace function queen.audit_hash (p_before bytea, p_id bigint, p_at timestamptz, p_record text)
  returns bytea
  language sql
  stable
as $$
  select sha256(
    p_before
    || convert_to(p_id::text || e'\n' || (extract(epoch from p_at) * 1000000)::bigint::text || e'\n' || p_record, 'UTF8')
  )
$$;
