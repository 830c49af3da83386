-- Workflows: runs of dependent steps. README.md in the parent directory explains the tables.

create table queen.workflows (
  id             text primary key,
  -- Rises with each start. Lists are sorted by it, newest first.
  number         bigint generated always as identity,
  name           text not null,
  state          text not null default 'running',
  -- Its state after it has stopped: cancelled or failed.
  is_cancelled   boolean not null default false,
  -- Whether completed steps are undone after it has stopped.
  is_undone      boolean not null default true,
  correlation_id text,
  tags           text[] not null default '{}',
  metadata       json not null,
  -- The digest of its arguments, to distinguish a repeated start from another workflow with the same id.
  digest         bytea not null,
  -- The headers of all its messages.
  headers        json,
  trace_id       text,
  -- Steps that are not settled, without those that undo others.
  open_steps     integer not null,
  -- How many were settled: the position of the next.
  settled_steps  integer not null default 0,
  result         json,
  error          text,
  created_at     timestamptz not null,
  ended_at       timestamptz,
  constraint workflows_are_numbered_once unique (number),
  constraint workflow_state_is_known check (
    state in ('running', 'stopping', 'compensating', 'completed', 'failed', 'cancelled')
  ),
  constraint workflows_end_when_they_stop check (
    (ended_at is not null) = (state in ('completed', 'failed', 'cancelled'))
  ),
  constraint open_steps_are_not_negative check (open_steps >= 0)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index workflows_in_state on queen.workflows (state, number);
create index workflows_named on queen.workflows (name, number);
create index workflows_correlated on queen.workflows (correlation_id, number) where correlation_id is not null;
create index workflows_tagged on queen.workflows using gin (tags) where tags <> '{}';
create index workflows_ended on queen.workflows (ended_at) where ended_at is not null;

create table queen.workflow_steps (
  workflow_id     text not null,
  name            text not null,
  -- The order in which they were declared, and in which they begin if several can.
  ordinal         integer not null,
  kind            text not null,
  -- For steps with messages: the target, and the message without the fields that the run adds.
  queue           text,
  partition       text,
  template        json,
  priority        integer,
  delay_seconds   double precision,
  -- For a map: the list with an item for each part, or the step whose result is that list.
  items           json,
  items_of        text,
  -- For a step that waits: the signal, the timeout, and a signal that arrived before it began.
  signal          text,
  timeout_seconds double precision,
  signal_outcome  text,
  signal_data     json,
  -- For a step that undoes another: its name.
  undoes          text,
  on_success      text[] not null default '{}',
  on_failure      text[] not null default '{}',
  -- Begin after all steps that lead here, or after the first of them.
  needs_all       boolean not null,
  -- How many steps may lead here, how many of these are not settled, and how many did lead here.
  sources         integer not null,
  waits_for       integer not null,
  led_by          integer not null default 0,
  state           text not null default 'pending',
  -- Required to settle it. Each start has a new one, and only its message contains it.
  token           uuid,
  tries           integer not null default 0,
  -- For a map that has begun.
  parts           integer,
  open_parts      integer,
  failed_parts    integer,
  -- How often its message was delivered, from the last report.
  attempts        integer,
  result          json,
  error           text,
  -- Its message, until it is moved to the log.
  outbox_id       bigint,
  -- How many were settled before it: steps are undone in reverse order.
  place           integer,
  -- When to check whether it waited too long or lost its message, and since when the message is in the log.
  look_at         timestamptz,
  seen_at         timestamptz,
  started_at      timestamptz,
  ended_at        timestamptz,
  primary key (workflow_id, name),
  constraint step_kind_is_known check (kind in ('message', 'map', 'signal', 'undo')),
  constraint step_state_is_known check (
    state in ('pending', 'active', 'waiting', 'completed', 'failed', 'skipped', 'cancelled')
  ),
  constraint sources_are_settled_once check (waits_for >= 0 and led_by >= 0 and led_by + waits_for <= sources),
  constraint parts_are_settled_once check (open_parts >= 0 and failed_parts >= 0 and open_parts + failed_parts <= parts)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index workflow_steps_looked_at on queen.workflow_steps (look_at) where look_at is not null;

create table queen.workflow_parts (
  workflow_id text not null,
  step        text not null,
  -- From 0: the index of its item in the list, and of its result in the step's result.
  part        integer not null,
  state       text not null default 'active',
  attempts    integer,
  result      json,
  error       text,
  outbox_id   bigint,
  ended_at    timestamptz,
  primary key (workflow_id, step, part),
  constraint part_state_is_known check (state in ('active', 'completed', 'failed', 'cancelled'))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
