-- A restore into another server, after which segments have other numbers of transactions: a reader that began before stands
-- nowhere.
create table queen.renumberings (
  id bigint generated always as identity primary key,
  at timestamptz not null
);
