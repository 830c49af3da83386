-- For applications with their own database: the batch that `queen relay` is pushing from its outbox.
create table queen.relay (
  is_only     boolean primary key default true,
  -- Together with the sequence: a repeated batch is stored once.
  producer_id text not null,
  sequence    bigint not null,
  -- The messages of the batch with that sequence, while it may not have arrived.
  ids         bigint[] not null,
  constraint there_is_one_relay check (is_only)
) with (fillfactor = 50);
