-- Retry a message now: a waiting message becomes due, a dead letter is redriven.
--
-- Returns the group, or no row if the message is neither. Raises QN003.
-- Locks: the slot, partitions (to redrive), dead letters, consumers, deliveries.
create or replace function queen.retry (p_partition_id bigint, p_offset bigint, p_group text)
  returns table (group_id bigint)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_group_id  bigint := queen.group_of(p_partition_id, p_group);
  v_letter_id bigint;
begin
  perform queen.enter(array[p_partition_id]);
  update queen.deliveries d
  set
    until = case when d.until < 'infinity' then least(d.until, queen.now()) else d.until end,
    -- If it is parked behind another delivery, it is due when that one ends.
    parked_until = null
  where d.id = (
    select w.id
    from queen.deliveries w
    where w.partition_id = p_partition_id
      and w.group_id = v_group_id
      and not w.held
      and w.head = p_offset
      and (w.until < 'infinity' or w.parked_until is not null)
    for no key update
  );
  if found then
    return query select v_group_id;
    return;
  end if;
  select l.id into v_letter_id
  from queen.dead_letters l
  where l.partition_id = p_partition_id and l."offset" = p_offset and l.group_id = v_group_id;
  if found then
    return query select r.group_id from queen.redrive(array[v_letter_id]) r;
  end if;
end
$$;
