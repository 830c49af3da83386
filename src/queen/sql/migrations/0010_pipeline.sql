-- What Spark reads a queue by, and how it writes to one exactly once.

-- The highest xid among the segments that went, and the transaction that removed them: a reader that stands before the one,
-- and began before the other, has missed something.
alter table queen.removals add column xid xid8, add column by_xid xid8 default pg_current_xact_id();
create index removals_of_queue on queen.removals (queue_id, xid);

-- The same of removals that are forgotten.
create table queen.forgotten_removals (
  queue_id bigint primary key,
  xid      xid8 not null,
  by_xid   xid8 not null
);

-- What tasks have brought and nobody has published: a segment each. Unlogged: a crash empties it, and then the tasks run
-- again.
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

-- The last batch that an application of Spark has published to a queue. Never forgotten while there is the queue: a query may
-- go on after years.
create table queen.publications (
  app_id       text not null,
  queue_id     bigint not null,
  version      bigint not null,
  messages     bigint not null,
  published_at timestamptz not null,
  primary key (app_id, queue_id)
) with (fillfactor = 50);

-- Where the stream of an application began, so that one that lost its checkpoint, and one beside it, begin there as well.
-- Never forgotten, as publications are not: batches of another queue would have the same numbers, and pass for published.
create table queen.streams (
  app_id    text primary key,
  queue_id  bigint not null,
  start_xid xid8 not null,
  -- Removals by transactions from here on are ones that the stream may have missed.
  since_xid xid8 not null,
  began_at  timestamptz not null
);

-- Where the batches of a stream end, so that one that lost its checkpoint makes the same ones again.
create table queen.plans (
  app_id     text not null,
  queue_id   bigint not null,
  start_xid  xid8 not null,
  end_xid    xid8 not null,
  planned_at timestamptz not null,
  primary key (app_id, queue_id, start_xid)
);
