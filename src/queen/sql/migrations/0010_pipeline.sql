-- Reading a queue from Spark, and writing to one exactly once.

-- The highest xid among the removed segments, and the transaction that removed them. A reader whose position is before
-- the first, and which began before the second, has missed messages.
alter table queen.removals add column xid xid8, add column by_xid xid8 default pg_current_xact_id();
create index removals_of_queue on queen.removals (queue_id, xid);

-- The same for deleted removals.
create table queen.forgotten_removals (
  queue_id bigint primary key,
  xid      xid8 not null,
  by_xid   xid8 not null
);

-- Segments that tasks have staged and that are not published yet. Unlogged: after a crash it is empty, and the tasks
-- run again.
create unlogged table queen.staged (
  -- One attempt of one task.
  write_id      uuid not null,
  entry         integer not null,
  partition_id  bigint not null,
  message_count integer not null,
  staged_at     timestamptz not null,
  body          bytea not null,
  ends          bytea not null,
  extras        bytea,
  primary key (write_id, entry)
);
create index staged_old on queen.staged (staged_at);
alter table queen.staged alter column body set storage external;
alter table queen.staged alter column extras set storage external;

-- The last batch that a Spark application has published to a queue. Kept as long as the queue, because a query may
-- continue after years.
create table queen.publications (
  app_id       text not null,
  queue_id     bigint not null,
  version      bigint not null,
  messages     bigint not null,
  published_at timestamptz not null,
  primary key (app_id, queue_id)
) with (fillfactor = 50);

-- Where the stream of an application began. A stream that lost its checkpoint, or a second one, begins there too. Never
-- deleted, like publications: batches of another queue would have the same numbers and count as published.
create table queen.streams (
  app_id    text primary key,
  queue_id  bigint not null,
  start_xid xid8 not null,
  -- The stream may have missed removals by transactions from here on.
  since_xid xid8 not null,
  began_at  timestamptz not null
);

-- The ends of a stream's batches, so that a stream without its checkpoint repeats the same batches.
create table queen.plans (
  app_id     text not null,
  queue_id   bigint not null,
  start_xid  xid8 not null,
  end_xid    xid8 not null,
  planned_at timestamptz not null,
  primary key (app_id, queue_id, start_xid)
);
