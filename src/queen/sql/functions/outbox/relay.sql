-- The next batch to push to a server, from the outbox in an application's own database.
--
-- Returns the batch that may not have arrived, otherwise the oldest messages, recorded under the next sequence. No row if
-- there is nothing to push. Reads messages of transactions from p_first_xid on, at most p_limit of them and about p_bytes.
-- `open_xid`: the first number from which transactions may have been open. A batch whose messages were deleted by hand is
-- a row without an id. Locks: relay.
create or replace function queen.take_batch (p_first_xid bigint, p_limit integer, p_bytes bigint)
  returns table (
    producer_id text, sequence bigint, is_again boolean, id bigint, item text, payload text, open_xid bigint
  )
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_relay    queen.relay;
  v_open     bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
  v_is_again boolean;
begin
  select r.* into v_relay from queen.relay r for update;
  if not found then
    insert into queen.relay (producer_id, sequence, ids)
    values ('relay-' || gen_random_uuid()::text, 0, '{}')
    on conflict do nothing;
    select r.* into v_relay from queen.relay r for update;
  end if;
  v_is_again := cardinality(v_relay.ids) > 0;
  if not v_is_again then
    update queen.relay r
    set sequence = r.sequence + 1, ids = n.ids
    from (
      select array_agg(o.id order by o.xid, o.id) as ids
      from (
        select o.id, o.xid, sum(o.bytes) over (order by o.xid, o.id) - o.bytes as bytes_before
        from (
          select o.id, o.xid, octet_length(o.payload::text) + octet_length(o.item::text) as bytes
          from queen.outbox o
          where o.xid >= p_first_xid::text::xid8 and o.error is null
          order by o.xid, o.id
          limit p_limit
        ) o
      ) o
      where o.bytes_before < p_bytes
    ) n
    where n.ids is not null
    returning r.* into v_relay;
    if not found then
      return;
    end if;
  end if;
  if v_is_again or exists (
    select 1
    from queen.outbox o
    where o.xid >= p_first_xid::text::xid8 and o.error is null and o.id <> all (v_relay.ids)
  ) then
    v_open := null;
  end if;
  return query
  select v_relay.producer_id, v_relay.sequence, v_is_again, o.id, o.item::text, o.payload::text, v_open
  from unnest(v_relay.ids) with ordinality b (id, place)
  join queen.outbox o on o.id = b.id and o.error is null
  order by b.place;
  if not found then
    return query
    select v_relay.producer_id, v_relay.sequence, v_is_again, null::bigint, null::text, null::text, v_open;
  end if;
end
$$;

-- Delete the messages of a batch that has arrived. Returns false if that was done before.
-- Locks: relay, outbox.
create or replace function queen.end_batch (p_sequence bigint)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_ids bigint[];
begin
  select r.ids into v_ids from queen.relay r where r.sequence = p_sequence for update;
  if coalesce(cardinality(v_ids), 0) = 0 then
    return false;
  end if;
  delete from queen.outbox o where o.id = any (v_ids);
  update queen.relay r set ids = '{}' where r.sequence = p_sequence;
  return true;
end
$$;

-- End a batch that the server rejected as a whole. The given messages stay with their errors, the others go into the next
-- batch. Locks: relay, outbox.
create or replace function queen.refuse_batch (p_sequence bigint, p_ids bigint[], p_errors text[])
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform 1 from queen.relay r where r.sequence = p_sequence and cardinality(r.ids) > 0 for update;
  if not found then
    return false;
  end if;
  update queen.outbox o set error = u.error
  from unnest(p_ids, p_errors) u (id, error)
  where o.id = u.id;
  update queen.relay r set ids = '{}' where r.sequence = p_sequence;
  return true;
end
$$;
