-- Messages on their way back into a queue: into which pieces of time a replay is cut, so that one that is repeated makes the
-- same ones again.
create table queen.replays (
  name       text primary key,
  source     text not null,
  target     text not null,
  -- Where the pieces begin, and where the last one ends.
  bounds     timestamptz[] not null,
  messages   bigint not null,
  created_at timestamptz not null
);
