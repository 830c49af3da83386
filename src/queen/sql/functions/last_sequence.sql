-- The newest sequence of a producer, null if it has none, once nobody is about to set a higher one.
--
-- Whoever is told that its request was stored before must be able to rely on it: the row's lock waits for a request
-- that is running, and its commit, like that of a push, for the standbys that a push waits for.
-- Locks: producers.
create or replace function queen.last_sequence (p_producer_id text)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform 1
  from queen.producers p
  where p.producer_id = p_producer_id
  order by p.sequence desc
  limit 1
  for no key update;
  -- A statement of its own: it sees what was committed while the lock was waited for.
  return (
    select p.sequence
    from queen.producers p
    where p.producer_id = p_producer_id
    order by p.sequence desc
    limit 1
  );
end
$$;
