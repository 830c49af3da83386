-- Soft-delete a queue. A push to the same name creates a new one. Its rows are erased in steps. Raises QN001, also for a spread
-- queue in another database than the first.
-- Locks: the slot; the queue's advisory lock, exclusive, so that partitions and groups are created before or fail to find the
-- queue.
create or replace function queen.delete_queue (p_queue text)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_id bigint;
begin
  select q.id into v_id
  from queen.queues q
  where q.name = p_queue and q.deleted_at is null and (q.slot is not null or queen.is_first());
  perform queen.enter_queue(v_id);
  perform pg_advisory_xact_lock(hashtextextended('queen.queue', v_id));
  update queen.queues q
  set deleted_at = queen.now(), version = q.version + 1
  where q.id = v_id and q.deleted_at is null;
  if not found then
    raise exception 'queue % does not exist', p_queue using errcode = 'QN001';
  end if;
  update queen.groups g set deleted_at = queen.now() where g.queue_id = v_id and g.deleted_at is null;
  return v_id;
end
$$;

-- Soft-delete a group of a queue. The next pop creates a new one. Its rows are erased in steps. Raises QN001, QN003.
-- Locks: the slot; the queue's advisory lock, exclusive, so that new partitions get no position for this group.
create or replace function queen.delete_group (p_queue text, p_group text)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue_id bigint := (queen.queue_named(p_queue)).id;
  v_id       bigint;
begin
  perform queen.enter_queue(v_queue_id);
  perform pg_advisory_xact_lock(hashtextextended('queen.queue', v_queue_id));
  update queen.groups g
  set deleted_at = queen.now()
  where g.queue_id = v_queue_id and g.name = p_group and g.deleted_at is null
  returning g.id into v_id;
  if not found then
    raise exception 'queue % has no group %', p_queue, p_group using errcode = 'QN003';
  end if;
  return v_id;
end
$$;

-- Erase rows of deleted queues and groups: at most p_limit partitions and 2,000 segments or scheduled messages per call.
-- Returns true at the end. Queues in slots that have left are not erased here. Raises QN018 if only queues in slots that are
-- leaving remain, because they may stay.
-- Locks: the queue or group row, so that one process erases it; then the slot, partitions by id, consumers, deliveries.
create or replace function queen.erase (p_limit integer)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_id    bigint;
  v_group queen.groups;
  v_ids   bigint[];
begin
  select q.id into v_id
  from queen.queues q
  where q.deleted_at is not null and queen.owns_slot(q.slot)
  order by q.id
  limit 1
  for update skip locked;
  if found then
    perform queen.enter_queue(v_id);
    v_ids := array(
      select p.id from queen.partitions p where p.queue_id = v_id order by p.id limit p_limit for update
    );
    perform queen.erase_places(v_ids, null);
    if not queen.erase_messages(v_id, v_ids) then
      return false;
    end if;
    delete from queen.laggards l where l.partition_id = any (v_ids);
    delete from queen.partitions p where p.id = any (v_ids);
    if cardinality(v_ids) < p_limit then
      if queen.erase_history(v_id) then
        return false;
      end if;
      delete from queen.limits l using queen.groups g where g.queue_id = v_id and l.group_id = g.id;
      delete from queen.shares s using queen.groups g where g.queue_id = v_id and s.group_id = g.id;
      delete from queen.groups g where g.queue_id = v_id;
      delete from queen.sweeps w where w.queue_id = v_id;
      delete from queen.holds h where h.queue_id = v_id;
      delete from queen.forgotten_removals f where f.queue_id = v_id;
      delete from queen.pins p where p.queue_id = v_id;
      delete from queen.plans p where p.queue_id = v_id;
      delete from queen.publications p where p.queue_id = v_id;
      delete from queen.data_keys k
      where k.queue_id = v_id and not exists (select 1 from queen.dead_letters l where l.queue_id = v_id);
      delete from queen.queues q where q.id = v_id;
    end if;
    return false;
  end if;

  select g.* into v_group
  from queen.groups g
  where g.deleted_at is not null
    and exists (select 1 from queen.queues q where q.id = g.queue_id and queen.owns_slot(q.slot))
  order by g.id
  limit 1
  for update skip locked;
  if not found then
    perform queen.enter(array(
      select q.slot::bigint << 53
      from queen.queues q
      where (
        q.deleted_at is not null
        or exists (select 1 from queen.groups g where g.queue_id = q.id and g.deleted_at is not null)
      ) and exists (select 1 from queen.slots s where s.slot = q.slot and s.state = 'leaving')
    ));
    return true;
  end if;
  perform queen.enter_queue(v_group.queue_id);
  -- Erasing uses the cursor of filling, starting again from zero.
  v_ids := array(
    select p.id
    from queen.partitions p
    where p.queue_id = v_group.queue_id and p.id > coalesce(-nullif(v_group.fill_end, abs(v_group.fill_end)), 0)
    order by p.id
    limit p_limit
  );
  perform queen.erase_places(v_ids, v_group.id);
  if cardinality(v_ids) < p_limit then
    delete from queen.limits l where l.group_id = v_group.id;
    delete from queen.shares s where s.group_id = v_group.id;
    delete from queen.groups g where g.id = v_group.id;
  else
    update queen.groups g set fill_end = -v_ids[p_limit] where g.id = v_group.id;
  end if;
  return false;
end
$$;

-- Erase 2,000 rows of a queue's history. Returns true if there may be more.
create or replace function queen.erase_history (p_queue_id bigint)
  returns boolean
  language plpgsql
  volatile
as $$
declare
  v_removed bigint;
begin
  delete from queen.rollups r
  where r.ctid = any (array(select o.ctid from queen.rollups o where o.queue_id = p_queue_id limit 2000));
  get diagnostics v_removed = row_count;
  return v_removed = 2000;
end
$$;

-- Erase the positions and deliveries of a group in partitions, or of every group.
-- Each row is locked before it is searched, so that running claims and acks finish first and their rows are found.
create or replace function queen.erase_places (p_partition_ids bigint[], p_group_id bigint)
  returns void
  language plpgsql
  volatile
as $$
begin
  perform 1
  from (
    select c.partition_id
    from queen.consumers c
    where c.partition_id = any (p_partition_ids) and c.group_id = coalesce(p_group_id, c.group_id)
    order by c.partition_id, c.group_id
    for update
  ) l;
  delete from queen.consumers c
  where c.partition_id = any (p_partition_ids) and c.group_id = coalesce(p_group_id, c.group_id);
  perform 1
  from (
    select d.id
    from queen.deliveries d
    where d.partition_id = any (p_partition_ids) and d.group_id = coalesce(p_group_id, d.group_id)
    order by d.id
    for update
  ) l;
  delete from queen.deliveries d
  where d.partition_id = any (p_partition_ids) and d.group_id = coalesce(p_group_id, d.group_id);
end
$$;

-- Erase a bounded number of messages of partitions that the caller has locked. Returns true at the end.
create or replace function queen.erase_messages (p_queue_id bigint, p_partition_ids bigint[])
  returns boolean
  language plpgsql
  volatile
as $$
declare
  c_rows constant integer := 2000;
  v_rows integer;
begin
  delete from queen.segments s
  using (
    select s.ctid
    from unnest(p_partition_ids) p (id)
    cross join lateral (
      select s.ctid from queen.segments s where s.partition_id = p.id limit c_rows
    ) s
    limit c_rows
  ) k
  where s.ctid = k.ctid;
  get diagnostics v_rows = row_count;
  if v_rows = c_rows then
    return false;
  end if;
  delete from queen.scheduled s
  using (
    select s.ctid
    from queen.scheduled s
    where s.queue_id = p_queue_id and s.partition_id = any (p_partition_ids)
    limit c_rows
  ) k
  where s.ctid = k.ctid;
  get diagnostics v_rows = row_count;
  return v_rows < c_rows;
end
$$;
