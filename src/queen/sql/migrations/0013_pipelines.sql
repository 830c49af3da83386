-- What jobs on Spark say of themselves. README.md beside this folder explains the tables.

create table queen.pipelines (
  name            text primary key,
  -- Which run reports: one that was replaced by another of the name is not heard any more.
  run_id          uuid not null,
  kind            text not null,
  -- What it reads; empty: everything.
  queues          text[] not null,
  -- A queue, a table or a place of files, as people name it.
  target          text,
  state           text not null,
  -- What transactions below have stored is done. Null, as all figures: not known.
  position        xid8,
  lag_messages    bigint,
  lag_seconds     double precision,
  batch_id        bigint,
  batch_millis    bigint,
  rows_per_second double precision,
  -- Of this run.
  rows_total      bigint,
  -- Whatever else the job said last.
  detail          jsonb,
  error           text,
  ui_url          text,
  started_at      timestamptz not null,
  updated_at      timestamptz not null,
  constraint state_is_known check (state in ('running', 'idle', 'failed', 'stopped'))
) with (fillfactor = 50);
