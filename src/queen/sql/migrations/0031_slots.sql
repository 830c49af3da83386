--! breaking where exists (select 1 from queen.slots where is_open)
-- Slots: every queue is in one of 1,024 parts, which can be in different databases. Everything stored before is in slot 0.

-- The slots, and whether this database owns them.
create table queen.slots (
  slot     smallint primary key,
  state    text not null default 'owned',
  -- Rises each time the slot moves to another database.
  epoch    bigint not null default 1,
  -- The database that owns the slot now.
  moved_to text,
  -- Whether new queues are placed here by the hash of their name.
  is_open  boolean not null,
  constraint slots_are_from_0_to_1023 check (slot between 0 and 1023),
  constraint slot_state_is_known check (state in ('owned', 'leaving', 'gone')),
  constraint slots_that_are_gone_have_moved check ((state = 'gone') = (moved_to is not null))
);
-- What every call checks. It is empty unless slots have moved.
create index slots_elsewhere on queen.slots (slot) where state <> 'owned';

alter table queen.queues add column slot smallint not null default 0;
alter table queen.queues alter column slot drop default;
-- Ids contain the slot in their highest bits, so functions create them (queen.partition_id, queen.delivery_id).
alter table queen.deliveries alter column id drop default;

-- Numbers of partitions in the order in which they were created, in all slots.
create index partitions_by_number on queen.partitions ((id & 9007199254740991));

-- In a database that is in use, servers of earlier releases may still run. They can only use slot 0.
lock table queen.instances in exclusive mode;
insert into queen.slots (slot, is_open)
select
  s, s between 1 and 959 and not exists (select 1 from queen.queues)
    and not exists (select 1 from queen.instances i where i.seen_at > now() - interval '1 hour')
from generate_series(0, 1023) s;

drop function if exists queen.new_queue (jsonb);
-- Parameters have other names now, because a slot is something else.
drop function if exists queen.claim_new (
  bigint, queen.queues, integer, bigint[], timestamptz, integer[], integer[], double precision[], boolean, bigint, bigint, timestamptz
);
drop function if exists queen.claim_due (
  bigint, queen.queues, integer, bigint[], timestamptz, integer[], integer[], double precision[], boolean, bigint, bigint, timestamptz
);
drop function if exists queen.next_at (
  bigint, queen.queues, bigint[], timestamptz, timestamptz, boolean, boolean, bigint, timestamptz, timestamptz
);
drop function if exists queen.lock_limit (bigint, queen.queues, timestamptz);
