-- The default of every queue option. The names are the columns of queen.queues.
--
-- A new option also needs a migration, a line in queues/configure.sql, and two in wire/options.py.
create or replace function queen.default_options ()
  returns jsonb
  language sql
  immutable
as $$
  select jsonb_build_object(
    'lease_seconds', 300,
    'retry_limit', 3,
    'retry_delay_ms', 1000,
    'max_retry_delay_ms', 300000,
    'retry_backoff', 2,
    'priority', 0,
    'delay_seconds', 0,
    'window_seconds', 0,
    'dead_letter', true,
    'max_size', 0,
    'ttl_seconds', 0,
    'dedup_seconds', 86400,
    'ordered', true,
    'rate_max', null,
    'rate_ms', null,
    'rate_per', null,
    'concurrency_limit', 0,
    'retention_enabled', false,
    'retention_seconds', 0,
    'completed_retention_seconds', 0,
    'partition_retention_seconds', 0,
    'max_wait_seconds', 0,
    'paused', false,
    'max_payload_bytes', null,
    'schema', null,
    'encrypted', false,
    'managed_by', null,
    'placement', 'home'
  )
$$;
