-- Let a queue be gone: a push of its name makes a new one. Its rows are erased in steps. Raises QN001.
create or replace function queen.delete_queue (p_queue text)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_id bigint;
begin
  update queen.queues q
  set deleted_at = queen.now(), version = q.version + 1
  where q.name = p_queue and q.deleted_at is null
  returning q.id into v_id;
  if not found then
    raise exception 'there is no queue %', p_queue using errcode = 'QN001';
  end if;
  update queen.groups g set deleted_at = queen.now() where g.queue_id = v_id and g.deleted_at is null;
  return v_id;
end
$$;

-- Let a group of a queue be gone: the next pop makes it anew. Its rows are erased in steps. Raises QN001, QN003.
create or replace function queen.delete_group (p_queue text, p_group text)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint;
  v_id       bigint;
begin
  select q.id into v_queue_id from queen.queues q where q.name = p_queue and q.deleted_at is null;
  if not found then
    raise exception 'there is no queue %', p_queue using errcode = 'QN001';
  end if;
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

-- Erase rows of deleted queues and groups, of at most p_limit partitions; true when nothing is left to erase.
-- Locks: the queue or group row, so that one eraser is at it.
create or replace function queen.erase (p_limit integer)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_id       bigint;
  v_group    queen.groups;
  v_ids      bigint[];
begin
  select q.id into v_id
  from queen.queues q where q.deleted_at is not null order by q.id limit 1 for update skip locked;
  if found then
    v_ids := array(
      select p.id from queen.partitions p where p.queue_id = v_id order by p.id limit p_limit for update
    );
    delete from queen.deliveries d
    using queen.groups g
    where g.queue_id = v_id and d.group_id = g.id and d.partition_id = any (v_ids);
    delete from queen.consumers c where c.partition_id = any (v_ids);
    delete from queen.segments s where s.partition_id = any (v_ids);
    delete from queen.scheduled s where s.queue_id = v_id and s.partition_id = any (v_ids);
    delete from queen.partitions p where p.id = any (v_ids);
    if cardinality(v_ids) < p_limit then
      delete from queen.limits l using queen.groups g where g.queue_id = v_id and l.group_id = g.id;
      delete from queen.groups g where g.queue_id = v_id;
      delete from queen.queues q where q.id = v_id;
    end if;
    return false;
  end if;

  select g.* into v_group
  from queen.groups g where g.deleted_at is not null order by g.id limit 1 for update skip locked;
  if not found then
    return true;
  end if;
  -- The cursor of filling counts on from the start again, this time erasing.
  v_ids := array(
    select p.id
    from queen.partitions p
    where p.queue_id = v_group.queue_id and p.id > coalesce(-nullif(v_group.fill_end, abs(v_group.fill_end)), 0)
    order by p.id
    limit p_limit
  );
  delete from queen.deliveries d where d.group_id = v_group.id and d.partition_id = any (v_ids);
  delete from queen.consumers c where c.group_id = v_group.id and c.partition_id = any (v_ids);
  if cardinality(v_ids) < p_limit then
    delete from queen.limits l where l.group_id = v_group.id;
    delete from queen.groups g where g.id = v_group.id;
  else
    update queen.groups g set fill_end = -v_ids[p_limit] where g.id = v_group.id;
  end if;
  return false;
end
$$;
