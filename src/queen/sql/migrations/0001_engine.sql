-- The log and the positions of its readers. README.md in the parent directory explains the tables.

create table queen.queues (
  id                 bigint generated always as identity primary key,
  name               text not null,
  namespace          text not null default '',
  task               text not null default '',
  version            bigint not null default 1,
  created_at         timestamptz not null,
  deleted_at         timestamptz,
  -- Every value of consumers.priority in use, highest first. A pop visits them in this order.
  levels             integer[] not null default '{0}',
  -- The current order of delivery, while `ordered` is the requested one: a change waits for leased deliveries.
  in_order           boolean not null default true,
  -- Since when it is ordered again, while an earlier delivery may still be leased.
  order_changed_at   timestamptz,
  -- Since when a delay, window or rate is shorter, while pairs may still wait for the former value.
  shortened_at       timestamptz,
  -- Until when keys of each class are valid that were recorded while the dedup window had that class.
  old_dedup_untils   timestamptz[],
  -- Options. Their defaults are in queen.default_options().
  lease_seconds      double precision not null,
  retry_limit        integer not null,
  retry_delay_ms     integer not null,
  max_retry_delay_ms integer not null,
  retry_backoff      double precision not null,
  priority           integer not null,
  delay_seconds      double precision not null,
  window_seconds     double precision not null,
  dead_letter        boolean not null,
  max_size           bigint not null,
  ttl_seconds        double precision not null,
  dedup_seconds      double precision not null,
  ordered            boolean not null,
  rate_max           integer,
  rate_ms            integer,
  rate_per           text,
  concurrency_limit  integer not null,
  paused             boolean not null,
  max_payload_bytes  integer,
  schema             jsonb,
  constraint lease_is_positive_and_at_most_12_hours check (lease_seconds > 0 and lease_seconds <= 43200),
  constraint retry_limit_is_from_0_to_1000 check (retry_limit between 0 and 1000),
  constraint retry_delay_is_not_negative check (retry_delay_ms >= 0 and max_retry_delay_ms >= 0),
  constraint retry_backoff_is_from_1_to_100 check (retry_backoff between 1 and 100),
  constraint priority_is_within_1000 check (priority between -1000 and 1000),
  constraint delay_is_at_most_a_year check (delay_seconds >= 0 and delay_seconds <= 31536000),
  constraint window_is_at_most_a_year check (window_seconds >= 0 and window_seconds <= 31536000),
  constraint max_size_is_not_negative check (max_size >= 0),
  constraint ttl_is_not_negative check (ttl_seconds >= 0 and ttl_seconds <= 315360000),
  constraint dedup_window_is_at_most_31_days check (dedup_seconds >= 0 and dedup_seconds <= 2678400),
  constraint rate_limit_is_whole check (
    (rate_max is null and rate_ms is null and rate_per is null)
    or (rate_max is not null and rate_max > 0 and rate_ms is not null and rate_ms >= 16
        and rate_per is not null and rate_per in ('queue', 'partition'))
  ),
  constraint concurrency_limit_is_not_negative check (concurrency_limit >= 0),
  constraint max_payload_is_positive check (max_payload_bytes > 0)
);
create unique index queues_name on queen.queues (name) where deleted_at is null;
create index queues_scope on queen.queues (namespace, task, priority desc, id) where deleted_at is null;
create index queues_deleted on queen.queues (id) where deleted_at is not null;

create table queen.partitions (
  id         bigint generated always as identity primary key,
  queue_id   bigint not null,
  name       text not null,
  -- The priority of the messages in this row. Only unordered queues have values other than 0.
  level      smallint not null default 0,
  priority   integer not null default 0,
  constraint level_is_from_0_to_9 check (level between 0 and 9),
  constraint partition_priority_is_within_1000 check (priority between -1000 and 1000),
  constraint partitions_are_named_once unique (queue_id, name, level)
);
create index partitions_of_queue on queen.partitions (queue_id, id);

create table queen.segments (
  partition_id  bigint not null,
  base_offset   bigint not null,
  message_count integer not null,
  created_at    timestamptz not null,
  queue_id      bigint not null,
  xid           xid8 not null,
  codec         smallint not null default 0,
  expires_at    timestamptz,
  -- The concatenated payloads; null once purge or retention emptied the newest segment of a partition.
  body          bytea,
  -- message_count + 1 little-endian int32 positions in body, the first of them 0: an Arrow string array.
  ends          bytea,
  -- The same layout in one value, positions first: the optional fields of messages, as JSON.
  extras        bytea,
  constraint segments_are_not_empty check (message_count > 0),
  primary key (partition_id, base_offset)
);
create index segments_xid on queen.segments (queue_id, xid);
-- Compressed by lz4 where the build has it; pglz is slower than the disk it saves (docs/decisions/0002).
alter table queen.segments alter column ends set storage main;
alter table queen.segments alter column body set storage external;
do $$
begin
  alter table queen.segments alter column body set compression lz4;
  alter table queen.segments alter column body set storage extended;
  alter table queen.segments alter column extras set compression lz4;
  alter table queen.segments alter column ends set compression lz4;
exception when feature_not_supported then
  alter table queen.segments alter column extras set storage external;
end
$$;

create table queen.groups (
  id         bigint generated always as identity primary key,
  queue_id   bigint not null,
  name       text not null,
  start_mode text not null,
  start_at   timestamptz not null,
  created_at timestamptz not null,
  deleted_at timestamptz,
  -- Partitions up to here have their consumers row; null when all partitions that existed at the start do.
  filled_to  bigint,
  fill_end   bigint not null,
  constraint start_mode_is_known check (start_mode in ('all', 'new', 'time'))
);
create unique index groups_name on queen.groups (queue_id, name) where deleted_at is null;
create index groups_deleted on queen.groups (id) where deleted_at is not null;

create table queen.consumers (
  partition_id bigint not null,
  group_id     bigint not null,
  -- In the key, so that the newest version is found first while a snapshot keeps the dead ones.
  version      bigint not null default 0,
  claimed      bigint not null,
  -- Ordered queues: a delivery of this pair is leased or waiting, and blocks new claims until it is settled.
  held         boolean not null default false,
  ready_at     timestamptz,
  -- Since when the pair has no messages; never earlier than the newest segment.
  idle_at      timestamptz,
  priority     integer not null,
  -- Deliveries that wait until an ordered pair is free: redriven ones, and failures with open messages before them.
  parked       integer not null default 0,
  -- Recent claims, for a rate limit per partition: slice, count, slice, count …
  recent       bigint[],
  constraint consumers_are_held_ready_or_idle check (num_nonnulls(ready_at, idle_at, nullif(held, false)) = 1),
  primary key (partition_id, group_id, version)
) with (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
create index consumers_ready on queen.consumers (group_id, priority, ready_at) where ready_at is not null;
create index consumers_idle on queen.consumers (partition_id, idle_at) where idle_at is not null;

create sequence queen.delivery_ids cache 1;

create table queen.deliveries (
  id           bigint not null default nextval('queen.delivery_ids') primary key,
  token        uuid not null default gen_random_uuid(),
  group_id     bigint not null,
  partition_id bigint not null,
  priority     integer not null,
  -- The offsets that are not settled yet.
  pending      int8multirange not null,
  -- The message that failed last. It is redelivered first, as the only one.
  head         bigint,
  -- The end of the leased part, if that is less than all pending messages.
  out_end      bigint,
  -- The end of the lease, or the time of the next attempt. Infinity: parked behind another delivery.
  until        timestamptz not null,
  -- The value of until once a parked delivery holds the pair; null: immediately.
  parked_until timestamptz,
  held         boolean not null,
  -- Claimed from an ordered queue: its pair in consumers is held while messages are pending.
  ordered      boolean not null,
  -- Failed attempts of the head.
  attempts     integer not null default 0,
  error        text,
  -- A redriven dead letter has its own copy, because its segment may have been removed.
  payload      bytea,
  extras       bytea,
  created_at   timestamptz,
  constraint deliveries_have_something_pending check (not isempty(pending))
) with (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
create index deliveries_due on queen.deliveries (group_id, priority, until);
create index deliveries_of_partition on queen.deliveries (partition_id, group_id, until);

create table queen.limits (
  group_id bigint not null,
  version  bigint not null,
  recent   bigint[] not null,
  primary key (group_id, version)
);

create table queen.dead_letters (
  id           bigint generated always as identity primary key,
  queue_id     bigint not null,
  group_id     bigint not null,
  partition_id bigint not null,
  "offset"     bigint not null,
  queue        text not null,
  "group"      text not null,
  partition    text not null,
  level        smallint not null,
  payload      bytea not null,
  extras       bytea,
  created_at   timestamptz not null,
  attempts     integer not null,
  reason       text not null,
  error        text,
  failed_at    timestamptz not null,
  constraint dead_letters_are_one_per_message_and_group unique (partition_id, "offset", group_id)
);
create index dead_letters_of_queue on queen.dead_letters (queue_id, id);

-- Generations of keys, three per class of windows. A generation is truncated as a whole when all its keys have expired.
-- The key is the hash of partition and transactionId, found by a hash index, which costs half as much as a b-tree. The
-- partition's lock keeps keys unique (docs/decisions/0006).
create table queen.dedup (
  generation smallint not null,
  key        bytea not null,
  "offset"   bigint,
  at         timestamptz not null
) partition by list (generation);
create index dedup_key on queen.dedup using hash (key);
do $$
begin
  for v_generation in 0 .. 11 loop
    execute format(
      'create table queen.dedup_%s partition of queen.dedup for values in (%s)',
      v_generation, v_generation
    );
  end loop;
end
$$;

create table queen.producers (
  producer_id text not null,
  -- In the key, so that the newest is found first.
  sequence    bigint not null,
  at          timestamptz not null,
  primary key (producer_id, sequence)
);

create table queen.scheduled (
  id           bigint generated always as identity primary key,
  queue_id     bigint not null,
  partition_id bigint not null,
  due_at       timestamptz not null,
  ttl_seconds  double precision,
  key          bytea,
  payload      bytea not null,
  extras       bytea
);
create index scheduled_due on queen.scheduled (queue_id, due_at, id);

-- The claims of a pop at one level of a group: parallel arrays, one element per run of offsets.
create type queen.claim as (
  taken         integer,
  messages      bigint,
  -- The earliest time that was found, and how many messages were skipped.
  first_at      timestamptz,
  expired       bigint,
  has_more      boolean,
  requests      integer[],
  delivery_ids  bigint[],
  tokens        uuid[],
  partition_ids bigint[],
  attempts      integer[],
  untils        timestamptz[],
  firsts        bigint[],
  ends          bigint[],
  payloads      bytea[],
  extras        bytea[],
  created_ats   timestamptz[],
  -- The rest of each request.
  left_messages integer[],
  left_lanes    integer[]
);

-- A row of a pop: a run of messages in one segment or, without a request, the state of a group.
create type queen.popped as (
  request       integer,
  group_id      bigint,
  delivery_id   bigint,
  token         uuid,
  partition_id  bigint,
  partition     text,
  level         smallint,
  attempts      integer,
  until         timestamptz,
  first_offset  bigint,
  end_offset    bigint,
  base_offset   bigint,
  message_count integer,
  created_at    timestamptz,
  xid           bigint,
  payload       bytea,
  extras        bytea,
  wait_seconds  double precision,
  ready_since   timestamptz,
  due_since     timestamptz,
  expired       bigint,
  code          text
);
