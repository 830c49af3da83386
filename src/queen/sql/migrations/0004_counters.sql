-- Counters of processes and samples, for time series. README.md in the parent directory explains the tables.

-- Written only by one process, as absolute values: a write can be repeated, and processes never wait for each other's
-- rows.
create table queen.counters (
  minute            timestamptz not null,
  queue_id          bigint not null,
  -- 0: the queue as a whole.
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
  -- When this process last delivered messages.
  popped_at         timestamptz,
  -- Sparse histograms: bins of a quarter octave, and the number of messages in each.
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
  -- For the queue as a whole: the estimated bytes of its depth, and its partitions by state.
  bytes              bigint,
  ready_partitions   bigint,
  leased_partitions  bigint,
  idle_partitions    bigint,
  -- False if too many partitions have work, so that the depth was estimated from some of them.
  is_exact           boolean not null,
  primary key (queue_id, minute, group_id)
) with (fillfactor = 60);
create index samples_old on queen.samples (minute);

-- One row: the leader that samples, and until when.
create table queen.sampler (
  is_only boolean primary key default true,
  holder  bigint not null,
  until   timestamptz not null,
  constraint there_is_one_sampler check (is_only)
);

-- Ended deliveries that pops found: expired leases, and messages with exhausted retries.
alter type queen.claim add attribute lapsed bigint, add attribute buried bigint, add attribute dropped bigint;
alter type queen.popped add attribute lapsed bigint, add attribute buried bigint, add attribute dropped bigint;
