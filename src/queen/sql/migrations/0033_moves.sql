-- Slots move to another database while they are in use.

-- The database that gets a copy of this slot now, and the process that copies it. Null: the slot does not move.
alter table queen.slots add column copied_to text;
alter table queen.slots add column copier uuid;

-- A slot that this database gets from another one, until it owns the slot.
create table queen.arrivals (
  slot   smallint primary key,
  source text not null,
  -- The process that copies it. One that was replaced cannot change the copy any more.
  copier uuid not null,
  -- Segments of transactions up to this one at the source are here. At first none, because restored segments have 0.
  copied bigint not null default -1,
  -- Rows that transactions of the source changed from this one on may be different here. 0: all of them.
  since  bigint not null default 0
);

-- Partitions whose stored segments were removed or changed while their slot is copied.
create table queen.rewrites (
  id           bigint generated always as identity primary key,
  partition_id bigint not null
);

create or replace function queen.note_rewrites () returns trigger language plpgsql as 'begin return null; end';
create trigger segments_are_deleted after delete on queen.segments
  referencing old table as old_segments for each statement execute function queen.note_rewrites();
create trigger segments_are_changed after update on queen.segments
  referencing old table as old_segments for each statement execute function queen.note_rewrites();
