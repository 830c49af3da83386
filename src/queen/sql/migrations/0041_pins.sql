-- Pins: a hot partition of a spread queue gets a slot of its own. Servers report their address, and the databases that they prefer.

-- Every database has a copy, like the options and groups.
create table queen.pins (
  queue_id  bigint not null,
  partition text not null,
  slot      smallint not null,
  -- Until then, the partition can't be created in any slot.
  is_ready  boolean not null,
  -- The revision of the definition at the last change of this pin.
  revision  bigint not null,
  primary key (queue_id, partition),
  constraint pins_use_reserved_slots check (slot between 960 and 1023)
);

alter table queen.instances add column address text;
-- Null: all.
alter table queen.instances add column preferred text[];

-- It returns the revision now.
drop function if exists queen.note_definition (bigint);
