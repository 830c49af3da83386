-- Holds that expire, messages that an archive has missed, and the transaction that keeps a pipeline waiting.

-- Null: the hold lasts until it is dropped. The hold for the first batch of an archive expires, so that an archive that never
-- worked can't stop retention forever.
alter table queen.holds add column expires_at timestamptz;

alter table queen.archives
  -- Messages that transactions from here on removed before they were archived are missed.
  add column since_xid xid8 not null default '0',
  add column missed_messages bigint not null default 0;
-- Before its first batch, an archive can't know which messages retention removed before it was created.
update queen.archives set since_xid = pg_current_xact_id() where batch = 0;
create index archives_of_queue on queen.archives (queue_id);

alter table queen.archive_batches
  add column missed_messages bigint not null default 0,
  -- Some of the removed ranges: partition, offsets, reason, time. Null: the batch missed no messages.
  add column missed jsonb;

-- The open transaction that newer messages wait for, in words. Null: none.
alter table queen.pipelines add column held_back_by text;

-- It has more parameters now, with defaults, so that older pipelines can call it too.
drop function if exists queen.archive_batch (text, bigint, bigint, bigint, bigint, bigint);
