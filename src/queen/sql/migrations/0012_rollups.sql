-- The history of queues beyond what counters and samples keep. README.md beside this folder explains the tables.

-- What happened to a queue or a group in a minute, an hour or a day: minutes from the log, counters and samples, hours from
-- minutes, days from hours.
create table queen.rollups (
  queue_id           bigint not null,
  grain_seconds      integer not null,
  at                 timestamptz not null,
  -- 0: what concerns the queue as a whole.
  group_id           bigint not null,
  -- As the group was called; a group that is made anew has another id and the same name.
  "group"            text,
  -- By the log: messages and what they take up. Of the queue as a whole alone.
  pushed             bigint not null,
  bytes              bigint not null,
  -- As processes counted them.
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
  -- How many minutes were sampled, and the depth (of a group: its lag) that was found in them.
  samples            integer not null,
  depth_sum          bigint not null,
  depth_max          bigint,
  depth_last         bigint,
  oldest_age_seconds double precision,
  -- All that transactions before have stored was seen: who has seen less changes nothing.
  xid                xid8 not null,
  primary key (queue_id, grain_seconds, at, group_id),
  constraint grain_is_a_minute_an_hour_or_a_day check (grain_seconds in (60, 3600, 86400)),
  constraint bins_have_counts check (
    cardinality(wait_bins) = cardinality(wait_counts) and cardinality(processing_bins) = cardinality(processing_counts)
  )
) with (fillfactor = 70);
create index rollups_old on queen.rollups (grain_seconds, at);

-- An instant, and a transaction such that all that was stored later was stored by it or by later ones; one a run.
create table queen.rollup_marks (
  at  timestamptz primary key,
  xid xid8 not null
);

-- A minute that a process stored counters of long after it was over, until a rollup has taken them in.
create table queen.late_minutes (
  minute timestamptz primary key,
  xid    xid8 not null
) with (fillfactor = 50);
