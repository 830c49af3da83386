-- Deliver dead letters again to their group only, with attempts starting at zero.
--
-- Each becomes a delivery with its own copy, and its dead letter is deleted in the same transaction. On an ordered queue it
-- waits until its pair is free. Returns the ids that were redriven: those that exist and whose group exists.
-- Locks: the slots, partitions by id, consumers, dead letters. Another transaction that dead-letters a message may wait for a
-- letter that is deleted here, so this takes no lock after the first letter.
create or replace function queen.redrive (p_ids bigint[])
  returns table (id bigint, group_id bigint)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_letter   record;
  v_consumer queen.consumers;
  v_ordered  boolean;
  v_now      timestamptz;
begin
  perform queen.enter(array(select l.partition_id from queen.dead_letters l where l.id = any (p_ids)));
  perform 1
  from (
    select p.id
    from queen.partitions p
    where p.id = any (array(select l.partition_id from queen.dead_letters l where l.id = any (p_ids)))
    order by p.id
    for no key update
  ) l;
  perform 1
  from (
    select distinct l.partition_id, l.group_id
    from queen.dead_letters l
    where l.id = any (p_ids)
    order by l.partition_id, l.group_id
  ) k
  cross join lateral (
    select c.version
    from queen.consumers c
    where c.partition_id = k.partition_id and c.group_id = k.group_id
    order by c.version desc
    limit 1
    for no key update
  ) c;
  for v_letter in
    select l.*, q.in_order
    from queen.dead_letters l
    join queen.groups g on g.id = l.group_id and g.deleted_at is null
    join queen.queues q on q.id = g.queue_id and q.deleted_at is null
    where l.id = any (p_ids)
    order by l.partition_id, l.group_id, l."offset"
    for update of l
  loop
    select c.* into v_consumer
    from queen.consumers c
    where c.partition_id = v_letter.partition_id and c.group_id = v_letter.group_id
    order by c.version desc
    limit 1;
    if not found then
      continue;
    end if;
    -- A seek has already returned the message to its group. Only delete the letter.
    if v_letter."offset" >= v_consumer.claimed or exists (
      select 1
      from queen.deliveries d
      where d.partition_id = v_letter.partition_id
        and d.group_id = v_letter.group_id
        and d.pending @> v_letter."offset"
    ) then
      delete from queen.dead_letters l where l.id = v_letter.id;
      return query select v_letter.id, v_letter.group_id;
      continue;
    end if;
    v_now := queen.now();
    v_ordered := v_letter.in_order;
    insert into queen.deliveries (
      id, group_id, partition_id, priority, pending, until, held, ordered, payload, extras, created_at
    ) values (
      queen.delivery_id(v_letter.partition_id), v_letter.group_id, v_letter.partition_id, v_consumer.priority,
      int8multirange(int8range(v_letter."offset", v_letter."offset" + 1)),
      case when v_ordered and v_consumer.held then 'infinity' else v_now end, false, v_ordered,
      v_letter.payload, v_letter.extras, v_letter.created_at
    );
    if v_ordered then
      update queen.consumers c
      set
        version = c.version + 1,
        parked = c.parked + c.held::integer,
        held = true,
        ready_at = null,
        idle_at = null
      where c.partition_id = v_consumer.partition_id
        and c.group_id = v_consumer.group_id
        and c.version = v_consumer.version;
    end if;
    delete from queen.dead_letters l where l.id = v_letter.id;
    return query select v_letter.id, v_letter.group_id;
  end loop;
end
$$;
