-- Move the messages before p_offset into a delivery that waits, and move the group past p_offset.
-- The caller has locked the partition and the pair.
create or replace function queen.set_aside (p_consumer queen.consumers, p_offset bigint, p_now timestamptz)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_queue    queen.queues;
  v_is_empty boolean := p_offset = p_consumer.claimed;
  v_is_held  boolean;
  v_due      timestamptz;
begin
  select q.* into v_queue
  from queen.groups g join queen.queues q on q.id = g.queue_id
  where g.id = p_consumer.group_id;
  if not v_is_empty then
    -- The due time of the last message, so that no message is delivered too early.
    v_due := queen.head_ready(
      p_consumer.partition_id, p_offset - 1, greatest(v_queue.delay_seconds, v_queue.window_seconds), p_now
    );
    insert into queen.deliveries (
      id, group_id, partition_id, priority, pending, until, parked_until, held, ordered
    )
    select
      queen.delivery_id(p_consumer.partition_id), p_consumer.group_id, p_consumer.partition_id, p_consumer.priority,
      int8multirange(int8range(p_consumer.claimed, p_offset)),
      case when w.is_parked then 'infinity' else v_due end,
      case when w.is_parked then v_due end,
      false, v_queue.in_order
    -- Parked behind the delivery that is leased.
    from (select v_queue.in_order and p_consumer.held as is_parked) w;
  end if;
  v_is_held := p_consumer.held or (v_queue.in_order and not v_is_empty);
  update queen.consumers c
  set
    version = c.version + 1,
    claimed = p_offset + 1,
    held = v_is_held,
    parked = c.parked + (v_queue.in_order and c.held and not v_is_empty)::integer,
    ready_at = case when not v_is_held then coalesce(c.ready_at, p_now) end,
    idle_at = null
  where c.partition_id = p_consumer.partition_id
    and c.group_id = p_consumer.group_id
    and c.version = p_consumer.version;
end
$$;
