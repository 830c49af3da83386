-- A restore into another server, which changed the transaction numbers of segments: earlier positions of readers are
-- invalid.
create table queen.renumberings (
  id bigint generated always as identity primary key,
  at timestamptz not null
);
