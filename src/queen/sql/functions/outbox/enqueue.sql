-- Enqueue a message in the caller's own transaction. It is pushed after the commit, and never if the transaction aborts.
--
-- For applications that use SQL: `select queen.enqueue('orders', '{"n": 1}', partition => 'c42')`. The arguments are the
-- fields of a pushed item. `delay_seconds` counts from now. Raises QN015 for an invalid name of a queue or partition.
-- Returns a number that rises with the order of messages in one transaction.
-- Locks: none that another transaction waits for. Notifies the appender only if it sleeps, because a notification makes
-- commits wait for each other. Above the isolation level read committed it always notifies, because its snapshot is old.
create or replace function queen.enqueue (
  queue          text,
  payload        json,
  partition      text default 'Default',
  transaction_id text default null,
  delay_seconds  double precision default null,
  available_at   timestamptz default null,
  ttl_seconds    double precision default null,
  priority       integer default null,
  headers        json default null,
  trace_id       text default null
)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_id bigint;
begin
  if queue is null or payload is null then
    raise exception 'a message needs a queue and a payload' using errcode = 'QN015';
  end if;
  if octet_length(queue) not between 1 and 255 or queue ~ '[[:cntrl:]]' or queue in ('.', '..')
    or starts_with(queue, '__') or queue <> btrim(queue)
  then
    raise exception 'queue %: 1 to 255 bytes, no control characters, no leading __, no outer spaces', queue
      using errcode = 'QN015';
  end if;
  if octet_length(partition) not between 1 and 512 or partition ~ '[[:cntrl:]]' or partition in ('.', '..') then
    raise exception 'partition %: 1 to 512 bytes, no control characters', partition using errcode = 'QN015';
  end if;
  insert into queen.outbox as o (payload, item)
  values (
    payload,
    json_strip_nulls(json_build_object(
      'queue', queue, 'partition', coalesce(partition, 'Default'), 'transactionId', transaction_id,
      'availableAt', to_json(coalesce(available_at, queen.now() + make_interval(secs => delay_seconds))),
      'ttlSeconds', ttl_seconds, 'priority', priority, 'headers', headers, 'traceId', trace_id
    ))
  )
  returning o.id into v_id;
  -- Read after the insert assigned this transaction its number: before the appender sleeps, it waits for all such numbers.
  if current_setting('transaction_isolation') <> 'read committed'
    or not exists (select 1 from queen.appender a where a.is_awake and a.until > queen.now())
  then
    perform pg_notify('queen', 'outbox');
  end if;
  return v_id;
end
$$;
