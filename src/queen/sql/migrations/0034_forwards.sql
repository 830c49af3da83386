-- Messages of the outbox whose queues are in other databases, on their way to those.

create table queen.forwards (
  queue     text not null,
  -- Their order. A transaction that adds messages locks the queue's row of forward_batches until its end, so no later commit adds
  -- a lower position.
  position  bigint generated always as identity,
  -- Their id in the outbox. A message that is rejected returns there with it.
  outbox_id bigint not null unique,
  item      json not null,
  payload   json not null,
  primary key (queue, position)
) with (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);

-- Per queue, the batch that may have arrived, and the process that sends it.
create table queen.forward_batches (
  queue         text primary key,
  -- Together with this database and the queue: a repeated batch is stored once.
  sequence      bigint not null,
  -- The batch has the messages up to this position. If there are none, no batch is on its way.
  last_position bigint not null,
  holder        bigint not null,
  -- Then another process may send it. This only saves work: two that send the same batch do no harm.
  until         timestamptz not null
) with (fillfactor = 50);
