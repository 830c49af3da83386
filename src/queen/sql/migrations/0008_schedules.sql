-- Messages that come again and again by a cron expression. README.md beside this folder explains the tables.

create table queen.schedules (
  name       text primary key,
  queue      text not null,
  partition  text not null,
  cron       text not null,
  time_zone  text not null,
  -- What becomes of ticks that nobody could see to in time.
  missed     text not null,
  -- Payload, headers and so on as JSON; sealed if the queue is encrypted.
  message    bytea not null,
  paused     boolean not null default false,
  -- The tick that is not pushed yet; null while paused, and where there is none any more.
  next_at    timestamptz,
  -- When to see to it: at that tick, or later if it could not be pushed.
  look_at    timestamptz,
  last_at    timestamptz,
  error      text,
  created_at timestamptz not null,
  constraint missed_is_known check (missed in ('skip', 'once', 'all')),
  constraint next_tick_is_looked_at check ((next_at is null) = (look_at is null)),
  constraint paused_has_no_tick check (not paused or next_at is null)
) with (fillfactor = 50);
create index schedules_due on queen.schedules (look_at) where look_at is not null;

-- One row: which process pushes them, and until when nobody else does.
create table queen.scheduler (
  is_only boolean primary key default true,
  holder  bigint not null,
  until   timestamptz not null,
  constraint there_is_one_scheduler check (is_only)
) with (fillfactor = 50);
