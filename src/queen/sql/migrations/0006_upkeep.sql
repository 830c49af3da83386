-- Background tasks that remove old data in small steps, one process at a time. README.md in the parent directory
-- explains the tables.

alter table queen.queues
  add column retention_enabled boolean not null default false,
  add column retention_seconds double precision not null default 0,
  add column completed_retention_seconds double precision not null default 0,
  add column partition_retention_seconds double precision not null default 0,
  add column max_wait_seconds double precision not null default 0,
  add constraint retention_is_at_most_100_years check (
    retention_seconds between 0 and 3153600000
    and completed_retention_seconds between 0 and 3153600000
    and partition_retention_seconds between 0 and 3153600000
  ),
  add constraint max_wait_is_at_most_10_years check (max_wait_seconds between 0 and 315360000);

-- An emptied segment moves from the index of segments that may be old to that of partitions that may be removed.
drop index queen.segments_xid;
create index segments_xid on queen.segments (queue_id, xid) where body is not null;
create index segments_emptied on queen.segments (queue_id, created_at, partition_id) where body is null;

create table queen.duties (
  name            text primary key,
  -- The process that has it, and until when.
  holder          bigint not null default 0,
  until           timestamptz not null default '-infinity',
  -- Rises each time it is taken: a step with an older epoch is rejected.
  epoch           bigint not null default 0,
  due_at          timestamptz not null default '-infinity',
  last_run_at     timestamptz,
  last_success_at timestamptz,
  seconds         double precision,
  rows            bigint,
  lag_seconds     double precision,
  error           text,
  -- Where the next run continues; null at the start.
  cursor          jsonb
) with (fillfactor = 50);

-- How far a queue was scanned: each segment once, when it is old enough.
create table queen.sweeps (
  queue_id     bigint not null,
  kind         text not null,
  xid          xid8 not null,
  partition_id bigint not null,
  primary key (queue_id, kind),
  constraint sweep_is_known check (kind in ('age', 'completed', 'eviction'))
) with (fillfactor = 50);

-- Partitions with old messages that could not be removed yet: visited again, later each time.
create table queen.laggards (
  queue_id     bigint not null,
  kind         text not null,
  partition_id bigint not null,
  look_at      timestamptz not null,
  looks        integer not null default 0,
  primary key (partition_id, kind)
);
create index laggards_due on queen.laggards (queue_id, kind, look_at);

-- Messages to keep for a reader of the whole queue: all that transactions from this number on have stored.
create table queen.holds (
  queue_id bigint not null,
  name     text not null,
  xid      xid8 not null,
  held_at  timestamptz not null,
  primary key (queue_id, name)
);

-- Messages that a policy removed, and why.
create table queen.removals (
  id           bigint generated always as identity primary key,
  queue_id     bigint not null,
  partition_id bigint not null,
  first_offset bigint not null,
  end_offset   bigint not null,
  reason       text not null,
  removed_at   timestamptz not null
);

-- It has another signature now.
drop function if exists queen.pass (tid[], bigint[], queen.queues);

-- Messages that pops found to have waited too long.
alter type queen.claim add attribute evicted bigint, add attribute unkept bigint;
alter type queen.popped add attribute evicted bigint, add attribute unkept bigint;
