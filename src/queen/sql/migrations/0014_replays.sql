-- Messages on their way back into a queue: the time ranges of a replay, so that a repeated replay has the same ones.
create table queen.replays (
  name       text primary key,
  source     text not null,
  target     text not null,
  -- The starts of the ranges, and the end of the last one.
  bounds     timestamptz[] not null,
  messages   bigint not null,
  created_at timestamptz not null
);
