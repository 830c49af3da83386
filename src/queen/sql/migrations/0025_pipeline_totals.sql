-- The rows of all runs of a pipeline: a new run starts with a count of zero.

alter table queen.pipelines
  -- Rows of the runs before this one.
  add column rows_before bigint not null default 0;
