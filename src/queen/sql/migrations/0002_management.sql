-- Data besides the log: traces, operations, processes, maintenance, redactions.

create table queen.traces (
  id             bigint generated always as identity primary key,
  partition_id   bigint not null,
  transaction_id text not null,
  "group"        text,
  event_type     text not null,
  names          text[] not null,
  -- JSON as it was sent.
  data           bytea not null,
  created_at     timestamptz not null
);
create index traces_of_message on queen.traces (partition_id, transaction_id, id);

-- One row per name of an event: names are found in order, events of a name oldest first.
create table queen.trace_names (
  name     text collate "C" not null,
  trace_id bigint not null,
  primary key (name, trace_id)
);

create table queen.operations (
  id          bigint generated always as identity primary key,
  kind        text not null,
  queue       text,
  arguments   jsonb not null,
  state       text not null default 'running',
  -- Where the next step continues; null at the start.
  cursor      bigint,
  done        bigint not null default 0,
  total       bigint,
  error       text,
  -- The process that runs it, and when it last reported.
  owner       text not null,
  seen_at     timestamptz not null,
  created_by  text not null,
  created_at  timestamptz not null,
  finished_at timestamptz,
  constraint state_is_known check (state in ('running', 'done', 'failed', 'cancelled')),
  constraint operations_end_when_they_stop_running check ((state = 'running') = (finished_at is null))
);
create index operations_running on queen.operations (seen_at) where state = 'running';
create index operations_finished on queen.operations (finished_at) where state <> 'running';

create table queen.instances (
  id         text primary key,
  host       text not null,
  pid        integer not null,
  version    text not null,
  started_at timestamptz not null,
  seen_at    timestamptz not null,
  waiters    integer not null
);

create table queen.maintenance (
  mode       text primary key,
  enabled    boolean not null,
  changed_at timestamptz not null,
  changed_by text not null,
  constraint mode_is_push_or_pop check (mode in ('push', 'pop'))
);

-- Redacted messages: processes poll the newest id and drop these messages from their caches.
create table queen.redactions (
  id           bigint generated always as identity primary key,
  partition_id bigint not null,
  "offset"     bigint not null,
  redacted_at  timestamptz not null,
  redacted_by  text not null
);

-- Errors that differ only in numbers, hexadecimal digits and white space count as one.
alter table queen.dead_letters add column fingerprint text not null generated always as (
  substr(md5(reason || ':' || regexp_replace(
    regexp_replace(coalesce(error, ''), '[0-9a-fA-F]{8,}|[0-9]+', '#', 'g'), '\s+', ' ', 'g'
  )), 1, 16)
) stored;
create index dead_letters_named on queen.dead_letters (queue, id);
create index scheduled_of_partition on queen.scheduled (partition_id, due_at, id);
