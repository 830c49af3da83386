-- Data about messages besides the log: results, progress, cancellations. Most messages have no row here.

create table queen.results (
  queue_id       bigint not null,
  transaction_id text not null,
  -- The message with that transactionId; null for one that was cancelled before it had an offset.
  partition_id   bigint,
  "offset"       bigint,
  -- JSON as it was sent, or encrypted like payloads of the queue.
  result         bytea,
  progress       bytea,
  -- When the message was settled with this result, or was cancelled.
  settled_at     timestamptz,
  is_cancelled   boolean not null default false,
  expires_at     timestamptz not null,
  primary key (queue_id, transaction_id)
);
create index results_expired on queen.results (expires_at);

-- A message that is not due yet, by the transactionId that it was given.
create index scheduled_key on queen.scheduled using hash (key);
