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

-- The last request of a producer of a scope, no row if it has none, once nobody is about to store a later one: its sequence, its digest if that is
-- known, and where its messages went. As for queen.check_producers, what servers of releases before scopes stored counts too.
-- Locks: producers, for the reason above.
create or replace function queen.last_request (p_producer_id text, p_scope text)
  returns table (sequence bigint, digest bytea, outcome bytea, bases bigint[], stale integer[])
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  perform 1
  from (
    select p.scope
    from queen.producers p
    where p.producer_id = p_producer_id and p.scope = any (array['', p_scope])
    order by p.scope
    for no key update
  ) l;
  return query
  select p.sequence, p.digest, p.outcome, p.bases, p.stale
  from queen.producers p
  where p.producer_id = p_producer_id and p.scope = any (array['', p_scope])
  order by p.sequence desc, p.scope desc
  limit 1;
end
$$;
