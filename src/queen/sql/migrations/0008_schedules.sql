-- Recurring messages with a cron expression. README.md in the parent directory explains the tables.

create table queen.schedules (
  name       text primary key,
  queue      text not null,
  partition  text not null,
  cron       text not null,
  time_zone  text not null,
  -- How missed ticks are handled.
  missed     text not null,
  -- Payload, headers and so on as JSON; encrypted if the queue is.
  message    bytea not null,
  paused     boolean not null default false,
  -- The tick that is not pushed yet; null while paused, and after the last tick.
  next_at    timestamptz,
  -- When to push it: at that tick, or later if it failed.
  look_at    timestamptz,
  last_at    timestamptz,
  error      text,
  created_at timestamptz not null,
  constraint missed_is_known check (missed in ('skip', 'once', 'all')),
  constraint next_tick_is_looked_at check ((next_at is null) = (look_at is null)),
  constraint paused_has_no_tick check (not paused or next_at is null)
) with (fillfactor = 50);
create index schedules_due on queen.schedules (look_at) where look_at is not null;

-- One row: the leader that pushes them, and until when.
create table queen.scheduler (
  is_only boolean primary key default true,
  holder  bigint not null,
  until   timestamptz not null,
  constraint there_is_one_scheduler check (is_only)
) with (fillfactor = 50);
