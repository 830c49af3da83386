-- The progress of Spark jobs. README.md in the parent directory explains the tables.

create table queen.pipelines (
  name            text primary key,
  -- The run that reports. A run that was replaced by another of the same name cannot report any more.
  run_id          uuid not null,
  kind            text not null,
  -- The queues that it reads; empty: all.
  queues          text[] not null,
  -- The readable name of a queue, a table or a location of files.
  target          text,
  state           text not null,
  -- All messages of earlier transactions are done. Null, like all values: unknown.
  position        xid8,
  lag_messages    bigint,
  lag_seconds     double precision,
  batch_id        bigint,
  batch_millis    bigint,
  rows_per_second double precision,
  -- Of this run.
  rows_total      bigint,
  -- Other values of the last report.
  detail          jsonb,
  error           text,
  ui_url          text,
  started_at      timestamptz not null,
  updated_at      timestamptz not null,
  constraint state_is_known check (state in ('running', 'idle', 'failed', 'stopped'))
) with (fillfactor = 50);
