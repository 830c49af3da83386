-- The load of slots, and the progress of their moves.

-- Mean payload bytes per message, for a queue as a whole. Null: it has no stored messages, or this is the row of a group.
alter table queen.samples add column mean_bytes double precision;

-- Stored bytes of messages that have arrived, and how many there were at the source when the copy began, about.
alter table queen.arrivals add column copied_bytes bigint not null default 0;
alter table queen.arrivals add column total_bytes bigint;
