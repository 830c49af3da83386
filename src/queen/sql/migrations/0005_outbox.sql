-- Messages that applications enqueued in their own transactions, and the leader that moves them to the log.
create table queen.outbox (
  id      bigint generated always as identity primary key,
  -- The transaction that enqueued it: a search begins at the oldest transaction that was open at the last search.
  xid     xid8 not null default pg_current_xact_id(),
  -- An item of a push, without its payload.
  item    json not null,
  payload json not null,
  -- Why it could not be moved. It stays until an operator handles it.
  error   text
) with (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
create index outbox_by_transaction on queen.outbox (xid, id) where error is null;

-- One row: the leader that moves them, until when, and whether it must be woken.
create table queen.appender (
  is_only  boolean primary key default true,
  holder   bigint not null,
  until    timestamptz not null,
  is_awake boolean not null,
  constraint there_is_one_appender check (is_only)
);
