-- Remove a message from a group and record that it was cancelled. It is not delivered again, and its lease can no longer
-- settle it.
--
-- p_scheduled_id: a message that is not due yet. Otherwise p_partition_id and p_offset name the message.
-- Returns its former state, `scheduled`, `processing` or `pending`, and the group. Returns no row if the message has moved, or
-- if the group was not filled yet and one step has been done: the caller looks it up and calls again.
-- Raises QN003, QN004, and QN010 if the group has settled the message.
-- Locks: the slot; then scheduled; or partitions, consumers, deliveries; then results.
create or replace function queen.cancel (
  p_queue_id       bigint,
  p_transaction_id text,
  p_group          text,
  p_scheduled_id   bigint,
  p_partition_id   bigint,
  p_offset         bigint,
  p_seconds        double precision
)
  returns table (status text, group_id bigint)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_group_id bigint;
  v_consumer queen.consumers;
  v_delivery queen.deliveries;
  v_status   text;
  v_now      timestamptz;
begin
  perform queen.enter_queue(p_queue_id);
  perform queen.enter(array[p_partition_id]);
  if p_scheduled_id is not null then
    if not queen.withdraw(p_scheduled_id) then
      return;
    end if;
    v_status := 'scheduled';
  else
    v_group_id := queen.group_of(p_partition_id, p_group);
    if exists (select 1 from queen.groups g where g.id = v_group_id and g.filled_to is not null) then
      -- In a separate transaction, because filling locks partitions in a different order.
      perform queen.fill(v_group_id, 1000);
      return;
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
    v_status := 'pending';
    if v_delivery.id is not null then
      if v_delivery.held and v_delivery.until > v_now and queen.handed_out(v_delivery) @> p_offset then
        v_status := 'processing';
      end if;
      perform queen.shrink(v_delivery, int8multirange(int8range(p_offset, p_offset + 1)));
    elsif v_consumer.claimed is null or p_offset < v_consumer.claimed then
      raise exception 'group % has already finished this message', p_group using errcode = 'QN010';
    elsif not exists (
      select 1
      from queen.segments s
      where s.partition_id = p_partition_id
        and s.base_offset <= p_offset
        and s.base_offset + s.message_count > p_offset
        and s.body is not null
    ) then
      raise exception 'the message at offset % does not exist', p_offset using errcode = 'QN004';
    else
      perform queen.set_aside(v_consumer, p_offset, v_now);
    end if;
  end if;
  v_now := queen.now();
  insert into queen.results as r (
    queue_id, transaction_id, partition_id, "offset", settled_at, is_cancelled, expires_at
  )
  values (
    p_queue_id, p_transaction_id, p_partition_id, p_offset, v_now, true, v_now + make_interval(secs => p_seconds)
  )
  on conflict (queue_id, transaction_id) do update
  set
    partition_id = excluded.partition_id, "offset" = excluded."offset", result = null, progress = null,
    settled_at = excluded.settled_at, is_cancelled = true, expires_at = excluded.expires_at;
  return query select v_status, v_group_id;
end
$$;
