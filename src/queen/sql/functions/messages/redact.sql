-- Erase the payload and headers of one message permanently. Its offset stays, and the message is never delivered again.
--
-- Its segment is split into up to three: the messages before it, the message itself without a payload and expired, and the
-- messages after it. The caller has split the bytes. Returns false if the segment has changed since. p_base_offset null:
-- the segment was removed, and only copies are erased, unless a recall has brought it back meanwhile. p_extra: what is kept about the message, in the form of extras.
-- Locks: the slot, partitions, consumers, deliveries, dead letters, then the advisory lock of redactions.
create or replace function queen.redact (
  p_partition_id  bigint,
  p_offset        bigint,
  p_base_offset   bigint,
  p_count         integer,
  p_extra         bytea,
  p_before_body   bytea,
  p_before_ends   bytea,
  p_before_extras bytea,
  p_after_body    bytea,
  p_after_ends    bytea,
  p_after_extras  bytea,
  p_by            text
)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_segment  queen.segments;
  v_delivery queen.deliveries;
begin
  perform queen.enter(array[p_partition_id]);
  perform 1 from queen.partitions p where p.id = p_partition_id for no key update;
  perform 1
  from (
    select c.group_id
    from queen.consumers c
    where c.partition_id = p_partition_id
    order by c.group_id
    for no key update
  ) l;
  if p_base_offset is null and queen.is_alive(p_partition_id, p_offset, '-infinity') then
    return false;
  end if;
  if p_base_offset is not null then
    select s.* into v_segment
    from queen.segments s
    where s.partition_id = p_partition_id and s.base_offset = p_base_offset
    for update;
    if not found or v_segment.message_count <> p_count or v_segment.body is null then
      return false;
    end if;
    delete from queen.segments s where s.partition_id = p_partition_id and s.base_offset = p_base_offset;
    insert into queen.segments (
      partition_id, base_offset, message_count, created_at, queue_id, xid, codec, expires_at, body, ends, extras, born_in,
      born_xid
    )
    select
      p_partition_id, n.base_offset, n.message_count, v_segment.created_at, v_segment.queue_id, v_segment.xid,
      v_segment.codec, n.expires_at, n.body, n.ends, n.extras, v_segment.born_in, v_segment.born_xid
    from (
      values
        (p_base_offset, (p_offset - p_base_offset)::integer, v_segment.expires_at, p_before_body, p_before_ends, p_before_extras),
        (p_offset, 1, '-infinity', ''::bytea, '\x0000000000000000'::bytea, p_extra),
        (p_offset + 1, (p_base_offset + p_count - p_offset - 1)::integer, v_segment.expires_at, p_after_body, p_after_ends, p_after_extras)
    ) n (base_offset, message_count, expires_at, body, ends, extras)
    where n.message_count > 0;
  end if;
  for v_delivery in
    select d.*
    from queen.deliveries d
    where d.partition_id = p_partition_id and d.pending @> p_offset
    order by d.id
    for no key update
  loop
    perform queen.shrink(v_delivery, int8multirange(int8range(p_offset, p_offset + 1)));
  end loop;
  delete from queen.dead_letters l where l.partition_id = p_partition_id and l."offset" = p_offset;
  -- Processes read ids above the newest that they know, so ids must be committed in order.
  perform pg_advisory_xact_lock(hashtextextended('queen.redactions', 0));
  insert into queen.redactions (partition_id, "offset", redacted_at, redacted_by)
  values (p_partition_id, p_offset, queen.now(), p_by);
  return true;
end
$$;
