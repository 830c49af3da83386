-- Take up to p_wanted requests from the allowance of an API key.
--
-- The allowance grows by p_rate per second up to one second's worth, and to at least one request. Returns how many requests
-- were taken and, if none, the wait until one can be. Every process uses the same row, so the limit holds for all together.
-- Locks: the key's row in allowances.
create or replace function queen.allow (
  p_key_id text,
  p_rate   double precision,
  p_wanted integer
)
  returns table (granted integer, wait_seconds double precision)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set synchronous_commit = off
as $$
#variable_conflict use_column
declare
  v_most  double precision := greatest(p_rate, 1);
  v_left  double precision;
  v_taken integer;
  v_old   record;
  v_now   timestamptz;
begin
  insert into queen.allowances (key_id, requests, at) values (p_key_id, v_most, queen.now()) on conflict do nothing;
  select a.requests, a.at into v_old from queen.allowances a where a.key_id = p_key_id for no key update;
  v_now := queen.now();
  v_left := least(v_most, v_old.requests + p_rate * greatest(0, extract(epoch from v_now - v_old.at)));
  v_taken := least(p_wanted, floor(v_left));
  update queen.allowances a
  set requests = v_left - v_taken, at = greatest(v_now, v_old.at)
  where a.key_id = p_key_id;
  return query select v_taken, case when v_taken > 0 then 0 else (1 - v_left) / p_rate end;
end
$$;
