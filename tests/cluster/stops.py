"""Statements at which a message to another database can be stopped."""

FAIL = """
create or replace function public.fail () returns trigger language plpgsql
  as $$ begin raise exception 'stopped by the test' using errcode = '57P03'; end $$;
create trigger fail before {what} on queen.{table} execute function public.fail();
"""
"""A statement fails as if the database were unavailable."""

WAIT = """
create or replace function public.wait () returns trigger language plpgsql
  as $$ begin perform pg_advisory_xact_lock_shared(7); return new; end $$;
create or replace trigger wait {when} execute function public.wait();
"""
STOPS = {
    "leaves the outbox": ("main", "before insert on queen.forwards"),
    "is in a batch": (
        "main",
        "before update on queen.forward_batches for each row when (new.sequence > old.sequence)",
    ),
    "is stored": ("two", "before insert on queen.segments"),
    "is confirmed": ("main", "before delete on queen.forwards"),
}
"""Where a statement waits: its database and the trigger."""
WAITERS = """
select count(*) from pg_locks l
where l.locktype = 'advisory' and l.objid = 7 and not l.granted
  and l.database = (select oid from pg_database where datname = current_database())
"""
TERMINATE = WAITERS.replace("count(*)", "count(pg_terminate_backend(l.pid))")
