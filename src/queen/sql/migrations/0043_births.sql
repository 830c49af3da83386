-- The database and the transaction that stored a message first. They stay when its slot moves, so readers of all databases
-- find each message once, wherever it is.

-- The birthplace (queen.birthplace), and the transaction there. Null: it was this database, in the transaction `xid`.
alter table queen.segments add column born_in integer, add column born_xid xid8;
create index segments_born on queen.segments (queue_id, born_in, born_xid) where born_in is not null and body is not null;

-- The same for the last of the removed messages, and for the transaction that removed them.
alter table queen.removals
  add column born_in integer, add column born_xid xid8, add column by_in integer, add column by_born xid8;
create index removals_born on queen.removals (queue_id, born_in, born_xid) where born_in is not null;

-- Which slots have moved. A slot moves with its rows, so its owner has all of them.
create table queen.moves (
  slot     smallint not null,
  -- Of the new owner.
  epoch    bigint not null,
  -- The birthplaces of messages in both databases.
  source   integer not null,
  target   integer not null,
  -- Transactions of the source that used the slot have lower numbers.
  fence    xid8 not null,
  -- Transactions of the target that used the slot after the move have this number or higher ones.
  first    xid8 not null,
  moved_at timestamptz not null,
  primary key (slot, epoch)
);

-- All segments with messages, by birth.
create view queen.births as
select
  s.queue_id,
  (
    select d.number + 1024 * (select count(*) from queen.renumberings)::integer
    from queen.databases d
    where d.is_here
  ) as birthplace,
  s.xid, s.partition_id, s.base_offset, s.message_count, s.created_at, s.expires_at, s.body, s.ends, s.extras
from queen.segments s
where s.body is not null and s.born_in is null
union all
select
  s.queue_id, s.born_in, s.born_xid, s.partition_id, s.base_offset, s.message_count, s.created_at, s.expires_at, s.body,
  s.ends, s.extras
from queen.segments s
where s.body is not null and s.born_in is not null;
