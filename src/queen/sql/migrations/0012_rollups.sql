-- The history of queues beyond counters and samples. README.md in the parent directory explains the tables.

-- The history of a queue or a group in a minute, an hour or a day: minutes from the log, counters and samples, hours
-- from minutes, days from hours.
create table queen.rollups (
  queue_id           bigint not null,
  grain_seconds      integer not null,
  at                 timestamptz not null,
  -- 0: the queue as a whole.
  group_id           bigint not null,
  -- The name of the group. A group that is created again has another id and the same name.
  "group"            text,
  -- From the log: messages and their bytes. Only for the queue as a whole.
  pushed             bigint not null,
  bytes              bigint not null,
  -- From the counters of processes.
  duplicates         bigint not null,
  popped             bigint not null,
  acked              bigint not null,
  nacked             bigint not null,
  dead_lettered      bigint not null,
  expired            bigint not null,
  evicted            bigint not null,
  leases_expired     bigint not null,
  wait_bins          smallint[] not null,
  wait_counts        bigint[] not null,
  processing_bins    smallint[] not null,
  processing_counts  bigint[] not null,
  -- How many minutes were sampled, and the depth in them (of a group: its lag).
  samples            integer not null,
  depth_sum          bigint not null,
  depth_max          bigint,
  depth_last         bigint,
  oldest_age_seconds double precision,
  -- Includes all messages of earlier transactions. A row that includes less does not replace it.
  xid                xid8 not null,
  primary key (queue_id, grain_seconds, at, group_id),
  constraint grain_is_a_minute_an_hour_or_a_day check (grain_seconds in (60, 3600, 86400)),
  constraint bins_have_counts check (
    cardinality(wait_bins) = cardinality(wait_counts) and cardinality(processing_bins) = cardinality(processing_counts)
  )
) with (fillfactor = 70);
create index rollups_old on queen.rollups (grain_seconds, at);

-- A time and a transaction: all later messages were stored by that transaction or later ones. One per run.
create table queen.rollup_marks (
  at  timestamptz primary key,
  xid xid8 not null
);

-- A minute whose counters were stored late, until a rollup has included them.
create table queen.late_minutes (
  minute timestamptz primary key,
  xid    xid8 not null
) with (fillfactor = 50);
