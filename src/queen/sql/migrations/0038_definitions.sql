-- A spread queue and its groups are in every database. The first database decides them, and the others have copies.

-- How often a spread queue or its groups have changed: in the first database until now, in others as far as they know it.
create table queen.definitions (
  queue_id bigint primary key,
  revision bigint not null
);

-- The databases whose copy of a spread queue may be older than the first database.
create table queen.outdated (
  database smallint not null,
  queue_id bigint not null,
  revision bigint not null,
  primary key (database, queue_id)
);

-- It has one more parameter now.
drop function if exists queen.due_deliveries (bigint, integer, bigint[], timestamptz, timestamptz, integer);

create or replace function queen.note_queue () returns trigger language plpgsql as 'begin return null; end';
create or replace function queen.note_group () returns trigger language plpgsql as 'begin return null; end';
create trigger spread_queues_change after insert or update of version, deleted_at on queen.queues
  for each row when (new.slot is null) execute function queen.note_queue();
create trigger groups_change after insert or update of deleted_at on queen.groups
  for each row execute function queen.note_group();
