-- The only clock. Tests replace it, and no other function reads the time.
create or replace function queen.now ()
  returns timestamptz
  language sql
  volatile
as 'select clock_timestamp()';
