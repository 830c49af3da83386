-- Dead-letter a message of a group, whether it is waiting, leased, or not claimed yet.
--
-- A leased message leaves its lease, and the rest of the lease stays. For an unclaimed message, the messages before it
-- become a separate delivery, which is due no earlier than they would be.
-- Returns the group. Returns null if the group was not filled yet: one step has been done, and the caller calls again.
-- Raises QN003, QN004 if there is no such message, QN010 if the group has settled it.
-- Locks: the slot; then the group (to fill it); or partitions, consumers, deliveries.
create or replace function queen.give_up (p_partition_id bigint, p_offset bigint, p_group text, p_error text)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_group_id bigint := queen.group_of(p_partition_id, p_group);
  v_consumer queen.consumers;
  v_delivery queen.deliveries;
  v_now      timestamptz;
begin
  perform queen.enter(array[p_partition_id]);
  if exists (select 1 from queen.groups g where g.id = v_group_id and g.filled_to is not null) then
    -- In a separate transaction, because filling locks partitions in a different order.
    perform queen.fill(v_group_id, 1000);
    return null;
  end if;
  perform 1 from queen.partitions p where p.id = p_partition_id for no key update;
  select c.* into v_consumer
  from queen.consumers c
  where c.partition_id = p_partition_id and c.group_id = v_group_id
  order by c.version desc
  limit 1
  for no key update;
  select d.* into v_delivery
  from queen.deliveries d
  where d.partition_id = p_partition_id and d.group_id = v_group_id and d.pending @> p_offset
  order by d.id
  limit 1
  for no key update;
  v_now := queen.now();
  if v_delivery.id is not null then
    perform queen.bury(
      v_delivery, p_offset,
      case when v_delivery.head = p_offset then v_delivery.attempts else 0 end
        + (v_delivery.held and queen.handed_out(v_delivery) @> p_offset)::integer,
      'dead', p_error, v_now
    );
    perform queen.shrink(v_delivery, int8multirange(int8range(p_offset, p_offset + 1)));
    return v_group_id;
  end if;
  if v_consumer.claimed is null or p_offset < v_consumer.claimed then
    raise exception 'group % has already finished this message', p_group using errcode = 'QN010';
  end if;
  if not exists (
    select 1
    from queen.segments s
    where s.partition_id = p_partition_id
      and s.base_offset <= p_offset
      and s.base_offset + s.message_count > p_offset
      and s.body is not null
      and coalesce(s.expires_at > v_now, true)
  ) then
    raise exception 'the message at offset % does not exist', p_offset using errcode = 'QN004';
  end if;
  v_delivery.group_id := v_group_id;
  v_delivery.partition_id := p_partition_id;
  perform queen.bury(v_delivery, p_offset, 0, 'dead', p_error, v_now);
  perform queen.set_aside(v_consumer, p_offset, v_now);
  return v_group_id;
end
$$;
