-- A schedule or workflow can be in any of several databases. The first one records in which of them its name is used now.

-- Reserve a name for one database, for p_seconds. Returns until when, or null if it is reserved for another database.
--
-- Several requests can share it, because their database decides between them. Deletes reservations that have ended.
-- Locks: the row of the name.
create or replace function queen.reserve (p_name text, p_database text, p_seconds double precision)
  returns timestamptz
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now   timestamptz := queen.now();
  v_until timestamptz;
begin
  delete from queen.reservations r
  where r.ctid = any (
    array(select o.ctid from queen.reservations o where o.until <= v_now and o.name <> p_name for update skip locked)
  );
  insert into queen.reservations as r (name, database, until)
  values (p_name, p_database, v_now + make_interval(secs => p_seconds))
  on conflict (name) do update
  set database = excluded.database, until = greatest(r.until, excluded.until)
  where r.database = excluded.database or r.until <= v_now
  returning r.until into v_until;
  return v_until;
end
$$;

-- End a reservation, unless another request has extended it.
create or replace function queen.end_reservation (p_name text, p_database text, p_until timestamptz)
  returns void
  language sql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
  delete from queen.reservations r where r.name = p_name and r.database = p_database and r.until = p_until
$$;
