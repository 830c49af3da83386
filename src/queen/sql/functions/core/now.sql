-- The only clock. Tests replace it; nothing else reads the time.
create or replace function queen.now ()
  returns timestamptz
  language sql
  volatile
as 'select clock_timestamp()';
