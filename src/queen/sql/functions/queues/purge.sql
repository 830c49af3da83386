-- Remove messages from the next partitions of a queue: all, or those that every group has acknowledged.
--
-- p_before: only segments stored before this time, or null for all. p_after: continue after this partition id. Returns the
-- last partition id that is finished and the number of messages removed, or no row if no partition is left. Removes at most
-- 2,000 segments per call. A purge of all messages moves the groups behind them and ends their leases. The row of the
-- newest segment stays without a body, because the next offset is read from it.
-- Raises QN001. Locks: the slot, partitions by id, consumers, deliveries.
create or replace function queen.purge (
  p_queue     text,
  p_partition text,
  p_completed boolean,
  p_before    timestamptz,
  p_after     bigint,
  p_limit     integer
)
  returns table (partition_id bigint, messages bigint)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_queue queen.queues := queen.queue_named(p_queue);
  v_ids   bigint[];
  v_id    bigint;
  v_end   bigint;
  v_count bigint := 0;
  v_cut   record;
  v_room  integer := 2000;
begin
  perform queen.enter_queue(v_queue.id);
  perform queen.enter_all_partitions(v_queue, p_partition);
  select array_agg(l.id) into v_ids
  from (
    select p.id
    from queen.partitions p
    where p.queue_id = v_queue.id
      and p.id > coalesce(p_after, 0)
      and (p_partition is null or p.name = p_partition)
      and (v_queue.slot is not null or queen.is_owned(p.id))
    order by p.id
    limit p_limit
    for no key update
  ) l;
  if v_ids is null then
    return;
  end if;
  if not p_completed then
    perform 1
    from (
      select c.partition_id
      from queen.consumers c
      where c.partition_id = any (v_ids)
      order by c.partition_id, c.group_id
      for no key update
    ) l;
    perform 1
    from (select d.id from queen.deliveries d where d.partition_id = any (v_ids) order by d.id for update) l;
  end if;
  if not p_completed and p_before is null then
    select count(*) into v_count from queen.scheduled s where s.partition_id = any (v_ids);
    perform queen.cancel_scheduled(v_queue.id, v_ids);
  end if;

  foreach v_id in array v_ids loop
    v_end := queen.purge_end(v_id, v_queue.id, p_completed, p_before);
    if not p_completed then
      perform queen.pass_over(v_id, v_end);
    end if;
    select c.* into v_cut from queen.cut(v_id, v_queue.id, v_end, v_room, 'purge') c;
    v_count := v_count + v_cut.messages;
    v_room := v_room - v_cut.segments;
    if v_room <= 0 then
      -- There may be more segments: the next call begins with this partition.
      return query select v_id - 1, v_count;
      return;
    end if;
  end loop;
  return query select v_ids[cardinality(v_ids)], v_count;
end
$$;

-- The offset before which a purge removes whole segments. Null: none.
create or replace function queen.purge_end (
  p_partition_id bigint,
  p_queue_id     bigint,
  p_completed    boolean,
  p_before       timestamptz
)
  returns bigint
  language plpgsql
  stable
as $$
declare
  v_end bigint;
begin
  v_end := case
    when p_before is null then (
      select s.base_offset + s.message_count
      from queen.segments s
      where s.partition_id = p_partition_id
      order by s.base_offset desc
      limit 1
    )
    -- The first message stored at that time or later.
    else queen.offset_after(p_partition_id, p_before - interval '1 microsecond')
  end;
  return case when p_completed then queen.settled_to(p_partition_id, p_queue_id, v_end) else v_end end;
end
$$;

-- How many messages queen.purge would remove or cancel now. Visits at most p_most partitions and p_most scheduled messages.
-- If there are more, is_complete is false and the number is a lower bound. Raises QN001. Locks: none.
create or replace function queen.count_purge (
  p_queue     text,
  p_partition text,
  p_completed boolean,
  p_before    timestamptz,
  p_most      integer
)
  returns table (messages bigint, is_complete boolean)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
  v_queue_id  bigint := (queen.queue_named(p_queue)).id;
  v_ids       bigint[];
  v_scheduled bigint := 0;
begin
  if p_partition is null then
    v_ids := array(
      select p.id from queen.partitions p where p.queue_id = v_queue_id order by p.id limit p_most + 1
    );
  else
    v_ids := array(select p.id from queen.partitions p where p.queue_id = v_queue_id and p.name = p_partition);
  end if;
  select coalesce(sum(greatest(0, e.end_offset - f.first_offset)), 0) into messages
  from unnest(v_ids[:p_most]) l (id)
  cross join lateral (
    select case when s.body is null then s.base_offset + s.message_count else s.base_offset end as first_offset
    from queen.segments s where s.partition_id = l.id order by s.base_offset limit 1
  ) f
  cross join lateral queen.purge_end(l.id, v_queue_id, p_completed, p_before) u (until)
  cross join lateral (
    -- A segment that is settled in part stays.
    select
      case
        when s.base_offset + s.message_count <= u.until then s.base_offset + s.message_count
        else s.base_offset
      end as end_offset
    from queen.segments s
    where s.partition_id = l.id and s.base_offset < u.until
    order by s.base_offset desc
    limit 1
  ) e;
  if not p_completed and p_before is null then
    if p_partition is null then
      select count(*) into v_scheduled
      from (select 1 from queen.scheduled s where s.queue_id = v_queue_id limit p_most + 1) s;
    else
      select count(*) into v_scheduled
      from (select 1 from queen.scheduled s where s.partition_id = any (v_ids) limit p_most + 1) s;
    end if;
  end if;
  messages := messages + least(v_scheduled, p_most);
  is_complete := cardinality(v_ids) <= p_most and v_scheduled <= p_most;
  return next;
end
$$;

-- Move every group of a partition to p_end, and remove the offsets below p_end from its deliveries.
-- The caller has locked the partition, its consumers and its deliveries.
create or replace function queen.pass_over (p_partition_id bigint, p_end bigint)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_now      timestamptz;
  v_delivery queen.deliveries;
  v_is_kept  boolean;
begin
  v_now := queen.now();
  perform queen.move_up(p_partition_id, p_end);
  for v_delivery in
    select d.*
    from queen.consumers c
    join queen.deliveries d on d.group_id = c.group_id and d.partition_id = c.partition_id
    where c.partition_id = p_partition_id and d.payload is null and lower(d.pending) < p_end
    order by d.until = 'infinity', d.id
    for no key update of d
  loop
    -- A waiting message keeps waiting, unless it was removed itself.
    v_is_kept := not v_delivery.held and coalesce(v_delivery.head >= p_end, true);
    -- A new id and token: the former lease must not settle the rest.
    update queen.deliveries d
    set
      id = queen.delivery_id(d.partition_id), token = gen_random_uuid(), held = false, out_end = null,
      until = case when v_is_kept or d.until = 'infinity' then d.until else v_now end
    where d.id = v_delivery.id
    returning d.* into v_delivery;
    perform queen.shrink(v_delivery, int8multirange(int8range(null, p_end)));
  end loop;
end
$$;

-- Delete scheduled messages of partitions, and their keys, because they never had an offset.
-- The caller has locked the partitions.
create or replace function queen.cancel_scheduled (p_queue_id bigint, p_partition_ids bigint[])
  returns void
  language plpgsql
  volatile
as $$
declare
  v_keys bytea[];
begin
  with gone as (
    delete from queen.scheduled s
    where s.queue_id = p_queue_id and s.partition_id = any (p_partition_ids)
    returning s.key
  )
  select array_agg(g.key) into v_keys from gone g where g.key is not null;
  perform queen.forget_keys(v_keys);
end
$$;
