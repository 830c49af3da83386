-- Positions of Spark streams inside a transaction, and the query that published a batch.

-- A position is the end of the last segment that was read: its transaction, its partition and the offset after it. Segments
-- are read in this order. Partition 0 is before all others.

-- The highest position among deleted removals. Old rows have only its transaction, of which everything may be missing.
alter table queen.forgotten_removals
  add column partition_id bigint not null default 9223372036854775807,
  add column end_offset bigint not null default 9223372036854775807;

-- The first offset of the stream, as Spark stores it. Null for streams that began before this migration.
alter table queen.streams add column start_offset jsonb;

alter table queen.plans
  add column start_partition_id bigint not null default 0,
  add column start_offset bigint not null default 0,
  add column start_is_trailing boolean not null default false,
  -- The end of the batch, as Spark stores it. Null for batches that were planned before this migration.
  add column end_offset jsonb,
  drop constraint plans_pkey,
  add primary key (app_id, queue_id, start_xid, start_partition_id, start_offset, start_is_trailing);

-- The streaming query that published the last batch. Null if it was not a streaming query.
alter table queen.publications add column query_id text;

drop function if exists queen.plan_batch (bigint, xid8, xid8, bigint, bigint);
drop function if exists queen.split_batch (bigint, xid8, xid8, integer, bigint);
drop function if exists queen.publish (text, bigint, bigint, uuid[], integer[]);
