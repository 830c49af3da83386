-- Archived messages that return to the log.

-- Segments that a recall has read from a lake and that are not in the log yet. Unlogged: after a crash it is empty, and the
-- recall runs again.
create unlogged table queen.recalled (
  recall_id     uuid not null,
  partition_id  bigint not null,
  base_offset   bigint not null,
  message_count integer not null,
  created_at    timestamptz not null,
  read_at       timestamptz not null,
  body          bytea not null,
  ends          bytea not null,
  extras        bytea,
  primary key (recall_id, partition_id, base_offset)
);
create index recalled_old on queen.recalled (read_at);
alter table queen.recalled alter column body set storage external;
alter table queen.recalled alter column extras set storage external;

-- A recall leaves out the erased messages of each partition.
create index redactions_of_partition on queen.redactions (partition_id, "offset");

-- It has one more parameter now, with a default, so that older pipelines can call it too.
drop function if exists queen.xid_at (bigint, timestamptz);
