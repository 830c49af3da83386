-- Move messages from the outbox to forwards, because their queues may be in other databases. Returns false, and moves none, if
-- another process has moved one of them.
--
-- p_queues: the queue of each message.
-- Locks: outbox by id, then forward_batches by queue.
create or replace function queen.forward (p_ids bigint[], p_queues text[])
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_found bigint;
begin
  select count(*) into v_found
  from (
    select o.id from queen.outbox o where o.id = any (p_ids) and o.error is null order by o.id for update
  ) o;
  if v_found < cardinality(p_ids) then
    return false;
  end if;
  perform queen.lock_forwards(p_queues);
  insert into queen.forwards (queue, outbox_id, item, payload)
  select n.queue, o.id, o.item, o.payload
  from unnest(p_ids, p_queues) n (id, queue)
  join queen.outbox o on o.id = n.id
  order by o.id;
  delete from queen.outbox o where o.id = any (p_ids);
  return true;
end
$$;

-- Lock queues until the end of this transaction, which adds messages to forwards. Locks: forward_batches by queue.
create or replace function queen.lock_forwards (p_queues text[])
  returns void
  language sql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
  insert into queen.forward_batches as b (queue, sequence, last_position, holder, until)
  select distinct q.queue, 0, 0, 0, '-infinity'::timestamptz
  from unnest(p_queues) q (queue)
  order by q.queue
  on conflict (queue) do update set queue = excluded.queue
$$;

-- Add the pushes of a transaction that was just applied to forwards, because their queues may be in other databases.
--
-- p_items, p_payloads: as in the outbox. p_delays: seconds from now, or null. p_ids: ids of the transaction's deliveries and
-- partitions. p_kinds: the rows that transact returned. If they are a rejection, adds none. Returns no row, because it runs
-- next to transact in one statement.
-- A queue can be in this database although its pushes follow others here. Then its slot counts as used too, because after a move
-- the next transaction with only pushes would be applied in the other database. Raises QN018 if such a slot is leaving.
-- Locks: those slots, then forward_batches by queue.
create or replace function queen.forward_pushes (
  p_queues text[], p_items text[], p_payloads text[], p_delays double precision[], p_ids bigint[], p_kinds text[]
)
  returns setof text
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_now   timestamptz;
  v_here  bigint[];
  v_slots smallint[];
begin
  if not queen.is_applied(p_kinds) then
    return;
  end if;
  v_here := array(
    select h.slot::bigint << 53
    from queen.homes h
    where h.name = any (p_queues) and h.slot is not null
      and not exists (select 1 from queen.slots s where s.slot = h.slot and s.state = 'gone')
  );
  perform queen.enter(v_here);
  perform queen.lock_forwards(p_queues);
  v_now := queen.now();
  v_slots := array(select distinct (i.id >> 53)::smallint from unnest(p_ids || v_here) i (id));
  insert into queen.forwards (queue, outbox_id, item, payload, slots)
  select
    n.queue, nextval('queen.outbox_id_seq'),
    case
      when n.delay is null then n.item::json
      else (n.item::jsonb || jsonb_build_object('availableAt', v_now + make_interval(secs => n.delay)))::json
    end,
    n.payload::json, v_slots
  from unnest(p_queues, p_items, p_payloads, p_delays) with ordinality n (queue, item, payload, delay, ordinal)
  order by n.ordinal;
end
$$;

-- The next batch of a queue to push, held by one process for p_seconds.
--
-- Returns the batch that may have arrived, otherwise the oldest messages under the next sequence: at most p_limit and about
-- p_bytes. No row if there are none or if another process holds the queue. Sequences are never below the time in microseconds, so
-- that a restored database does not use those again that it had used after the backup.
-- Locks: forward_batches.
create or replace function queen.take_forwards (
  p_queue text, p_holder bigint, p_seconds double precision, p_limit integer, p_bytes bigint
)
  returns table (producer_id text, sequence bigint, outbox_id bigint, item text, payload text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_batch queen.forward_batches;
  v_now   timestamptz;
begin
  select b.* into v_batch from queen.forward_batches b where b.queue = p_queue for update;
  v_now := queen.now();
  if not found or v_batch.holder <> p_holder and v_batch.until > v_now then
    return;
  end if;
  v_batch.until := v_now + make_interval(secs => p_seconds);
  if not exists (
    select 1 from queen.forwards f where f.queue = p_queue and f.position <= v_batch.last_position
  ) then
    select max(f.position) into v_batch.last_position
    from (
      select f.position, sum(f.bytes) over (order by f.position) - f.bytes as bytes_before
      from (
        select f.position, octet_length(f.payload::text) + octet_length(f.item::text) as bytes
        from queen.forwards f
        where f.queue = p_queue
        order by f.position
        limit p_limit
      ) f
    ) f
    where f.bytes_before < p_bytes;
    if v_batch.last_position is null then
      v_batch.last_position := 0;
      v_batch.until := v_now;
    else
      v_batch.sequence := greatest(v_batch.sequence + 1, floor(extract(epoch from v_now) * 1000000)::bigint);
    end if;
  end if;
  update queen.forward_batches b
  set sequence = v_batch.sequence, last_position = v_batch.last_position, holder = p_holder, until = v_batch.until
  where b.queue = p_queue;
  return query
  select 'db:' || d.number, v_batch.sequence, f.outbox_id, f.item::text, f.payload::text
  from queen.forwards f
  cross join queen.databases d
  where f.queue = p_queue and f.position <= v_batch.last_position and d.is_here
  order by f.position;
end
$$;

-- Delete the messages of a batch that has arrived. No effect if that was done before.
-- Locks: forward_batches, forwards.
create or replace function queen.end_forwards (p_queue text, p_sequence bigint)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_last bigint;
begin
  select b.last_position into v_last
  from queen.forward_batches b
  where b.queue = p_queue and b.sequence = p_sequence
  for update;
  delete from queen.forwards f where f.queue = p_queue and f.position <= v_last;
end
$$;

-- End a batch that was abandoned (queen.abandon_batch). The given messages return to the outbox with their errors, the others go into
-- the next batch. No effect if another process has done that.
-- Locks: forward_batches, forwards.
create or replace function queen.refuse_forwards (p_queue text, p_sequence bigint, p_ids bigint[], p_errors text[])
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform 1 from queen.forward_batches b where b.queue = p_queue and b.sequence = p_sequence for update;
  if not found then
    return;
  end if;
  with refused as (
    delete from queen.forwards f
    using unnest(p_ids, p_errors) u (id, error)
    where f.outbox_id = u.id
    returning f.outbox_id, f.item, f.payload, u.error
  )
  insert into queen.outbox (id, item, payload, error) overriding system value
  select r.outbox_id, r.item, r.payload, r.error
  from refused r
  order by r.outbox_id;
  update queen.forward_batches b set last_position = 0 where b.queue = p_queue;
end
$$;
