-- What processes counted and what one of them measured, for series over time. README.md beside this folder explains the tables.

-- Written by one process alone, absolute and so repeatable: nobody waits for a row that is hot.
create table queen.counters (
  minute            timestamptz not null,
  queue_id          bigint not null,
  -- 0: what concerns the queue as a whole.
  group_id          bigint not null,
  process           bigint not null,
  pushed            bigint not null,
  duplicates        bigint not null,
  popped            bigint not null,
  acked             bigint not null,
  nacked            bigint not null,
  dead_lettered     bigint not null,
  expired           bigint not null,
  evicted           bigint not null,
  leases_expired    bigint not null,
  -- When this process last handed messages out.
  popped_at         timestamptz,
  -- Sparse histograms: bins of a quarter octave, and how many messages fell into each.
  wait_bins         smallint[] not null,
  wait_counts       bigint[] not null,
  processing_bins   smallint[] not null,
  processing_counts bigint[] not null,
  primary key (queue_id, minute, group_id, process)
) with (fillfactor = 60);
create index counters_old on queen.counters (minute);
create index counters_of_group on queen.counters (group_id, minute) where group_id <> 0;

create table queen.samples (
  minute             timestamptz not null,
  queue_id           bigint not null,
  -- 0: the queue as a whole.
  group_id           bigint not null,
  sampled_at         timestamptz not null,
  depth              bigint not null,
  oldest_age_seconds double precision,
  deliveries         bigint not null,
  dead_letters       bigint not null,
  scheduled          bigint not null,
  -- Of the queue as a whole: what its depth takes up, estimated, and its partitions by state.
  bytes              bigint,
  ready_partitions   bigint,
  leased_partitions  bigint,
  idle_partitions    bigint,
  -- False where so many partitions have work that the depth was estimated from some of them.
  is_exact           boolean not null,
  primary key (queue_id, minute, group_id)
) with (fillfactor = 60);
create index samples_old on queen.samples (minute);

-- One row: which process samples, and until when nobody else does.
create table queen.sampler (
  is_only boolean primary key default true,
  holder  bigint not null,
  until   timestamptz not null,
  constraint there_is_one_sampler check (is_only)
);

-- What pops found to be over: leases that ran out, and what became of messages that had no attempt left.
alter type queen.claim add attribute lapsed bigint, add attribute buried bigint, add attribute dropped bigint;
alter type queen.popped add attribute lapsed bigint, add attribute buried bigint, add attribute dropped bigint;
