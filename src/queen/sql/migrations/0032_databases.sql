-- Several databases as one queue: which there are, and in which slot each queue is.

-- The first database lists all of them, each other one lists itself. No rows: this database is the only one.
create table queen.databases (
  -- Ids without a slot have this remainder when they are divided by 1,024. The first database has 0.
  number    smallint primary key,
  name      text not null unique,
  is_here   boolean not null,
  joined_at timestamptz not null default now(),
  constraint databases_are_from_0_to_1023 check (number between 0 and 1023)
);
create unique index databases_are_here_once on queen.databases (is_here) where is_here;

-- The slot of each queue, also before it is created and after it is deleted. The first database decides, once per name,
-- because the namespace that chooses the slot is not part of the name. Others have copies.
create table queen.homes (
  name text primary key,
  slot smallint not null,
  constraint homes_are_in_slots check (slot between 0 and 1023)
);

-- A slot that is leaving names its next owner too, so that an interrupted move can be completed.
alter table queen.slots drop constraint slots_that_are_gone_have_moved;
alter table queen.slots add constraint slots_elsewhere_name_their_owner check ((state = 'owned') = (moved_to is null));
