-- Limits of spread queues: the first database gives each database a share.

-- The share of this database: messages per period, and leases. Null: not decided yet. A higher revision is a later decision.
alter table queen.limits add column rate_share integer;
alter table queen.limits add column concurrency_share integer;
alter table queen.limits add column share_revision bigint not null default 0;
-- Leases that arrived with slots, without those that left with slots. Each one raises the share by one.
alter table queen.limits add column moved_leases integer not null default 0;

-- In the first database: the share of each database, and what it may still use of earlier shares.
create table queen.shares (
  group_id             bigint not null,
  database             smallint not null,
  revision             bigint not null default 0,
  rate_share           integer,
  rate_reserved        bigint not null default 0,
  concurrency_share    integer,
  concurrency_reserved bigint not null default 0,
  moved_leases         integer not null default 0,
  primary key (group_id, database)
);

-- Leases of limited groups that are in a slot on its way to another database, which adds them to its share.
create table queen.leaving_leases (
  slot     smallint not null,
  group_id bigint not null,
  leases   integer not null,
  primary key (slot, group_id)
);

-- It returns one more column now.
drop function if exists queen.lock_limit (bigint, queen.queues, timestamptz);
