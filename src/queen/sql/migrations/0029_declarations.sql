-- Find out whether Spark repeats a batch or has planned another one under its number, and whether a declaration was changed.

-- The number of messages in the last batch, and their checksum. Null if a write without a streaming query, or an earlier
-- release, has published it.
alter table queen.publications add column fingerprint text;

-- The declarations of windows and transforms, because a changed one would continue with the state and batches of the old one.
-- Kept like queen.streams.
create table queen.declarations (
  app_id      text primary key,
  -- A hash of each field that decides the results.
  fields      jsonb not null,
  declared_at timestamptz not null
);

drop function if exists queen.publish (text, bigint, bigint, uuid[], integer[], text);
