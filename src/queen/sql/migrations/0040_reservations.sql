-- Names of schedules and workflows that servers create now in one of several databases. Only the first database has rows.
create table queen.reservations (
  name     text primary key,
  database text not null,
  until    timestamptz not null
);

-- Replaced by close_given_slots.
drop function if exists queen.close_slots (text);
