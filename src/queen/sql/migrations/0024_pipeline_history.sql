-- The history of pipelines, and the rows of their earlier runs: a new run starts with a count of zero.

alter table queen.pipelines
  -- Rows of the runs before this one.
  add column rows_before bigint not null default 0;

-- The reports of a pipeline in one minute: counts of that minute, and the last or the largest of other values.
create table queen.pipeline_samples (
  name         text not null references queen.pipelines on delete cascade,
  minute       timestamptz not null,
  rows         bigint not null,
  late         bigint not null,
  lag_messages bigint,
  lag_seconds  double precision,
  batch_millis bigint,
  primary key (name, minute)
);

create index pipeline_samples_by_minute on queen.pipeline_samples (minute);
