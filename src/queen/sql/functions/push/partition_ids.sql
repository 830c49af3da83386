-- Find the named partitions, and create those that are missing, with their position in every group.
--
-- p_create: create missing queues too, with the defaults in p_defaults.
-- Returns one row per name, in request order: the ids of queue and partition. Both are null if the queue does not exist.
-- Raises QN018 for a slot that another database owns, and while a partition is pinned or unpinned.
-- Locks: slots; an advisory lock per queue, shared, against groups and pins that change at the same time.
create or replace function queen.partition_ids (
  p_queues     text[],
  p_partitions text[],
  p_levels     smallint[],
  p_create     boolean,
  p_defaults   jsonb
)
  returns table (ordinal bigint, queue_id bigint, partition_id bigint)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_now   timestamptz;
  v_slots smallint[];
begin
  if p_create and exists (
    select 1 from unnest(p_queues) n (name)
    where not exists (select 1 from queen.queues q where q.name = n.name and q.deleted_at is null offset 0)
  ) then
    insert into queen.queues overriding system value
    select r.*
    from (
      select distinct n.name
      from unnest(p_queues) n (name)
      where not exists (select 1 from queen.queues q where q.name = n.name and q.deleted_at is null offset 0)
      order by n.name
    ) n
    cross join lateral queen.new_queue(n.name, null, p_defaults) r
    on conflict (name) where deleted_at is null do nothing;
  end if;

  if exists (
    select 1
    from unnest(p_queues, p_partitions, p_levels) n (queue, partition, level)
    cross join lateral (
      select q.id from queen.queues q where q.name = n.queue and q.deleted_at is null offset 0
    ) q
    where not exists (
      select 1 from queen.partitions p
      where p.queue_id = q.id and p.name = n.partition and p.level = n.level
      offset 0
    )
  ) then
    v_slots := queen.slots_of_names(p_queues, p_partitions);
    perform queen.enter(array(select s::bigint << 53 from unnest(v_slots) s));
    -- A group is created under the exclusive form of this lock: either it sees all partitions, or they see the group.
    perform pg_advisory_xact_lock_shared(hashtextextended('queen.queue', q.id))
    from (
      select distinct q.id
      from unnest(p_queues) n (name)
      cross join lateral (
        select q.id from queen.queues q where q.name = n.name and q.deleted_at is null offset 0
      ) q
      order by q.id
    ) q;
    -- A pin changes under the exclusive form of that lock.
    if (959 < any (v_slots) or exists (select 1 from queen.pins)) and queen.slots_of_names(p_queues, p_partitions) <> v_slots then
      raise exception 'a partition was pinned or unpinned' using errcode = '40001';
    end if;
    v_now := queen.now();
    with made as (
      insert into queen.partitions (id, queue_id, name, level, priority) overriding system value
      select queen.partition_id(coalesce(n.slot, queen.partition_slot(n.id, n.partition))), n.id, n.partition, n.level, n.priority
      from (
        select q.slot, q.id, n.partition, n.level, coalesce(
          (select max(p.priority) from queen.partitions p where p.queue_id = q.id and p.name = n.partition), 0
        ) as priority
        from (
          select distinct n.queue, n.partition, n.level
          from unnest(p_queues, p_partitions, p_levels) n (queue, partition, level)
        ) n
        cross join lateral (
          select q.id, q.slot from queen.queues q where q.name = n.queue and q.deleted_at is null offset 0
        ) q
        where not exists (
          select 1 from queen.partitions p
          where p.queue_id = q.id and p.name = n.partition and p.level = n.level
          offset 0
        )
        order by q.id, n.partition, n.level
        offset 0
      ) n
      on conflict on constraint partitions_are_named_once do nothing
      returning partitions.id, partitions.queue_id, partitions.level, partitions.priority
    ), entered as (
      insert into queen.consumers (partition_id, group_id, claimed, idle_at, priority)
      select m.id, g.id, 0, v_now, m.priority * 10 + m.level
      from made m
      cross join lateral (
        select g.id from queen.groups g where g.queue_id = m.queue_id and g.deleted_at is null offset 0
      ) g
    )
    update queen.queues q
    set levels = array(select distinct l from unnest(q.levels || l.levels) l order by l desc)
    from (
      select m.queue_id, array_agg(distinct m.priority * 10 + m.level) as levels
      from made m
      group by m.queue_id
    ) l
    where q.id = l.queue_id and not (q.levels @> l.levels);
  end if;

  return query
  select n.ordinal, q.id, p.id
  from unnest(p_queues, p_partitions, p_levels) with ordinality n (queue, partition, level, ordinal)
  left join lateral (
    select q.id from queen.queues q where q.name = n.queue and q.deleted_at is null offset 0
  ) q on true
  left join lateral (
    select p.id
    from queen.partitions p
    where p.queue_id = q.id and p.name = n.partition and p.level = n.level
    offset 0
  ) p on true;
end
$$;

-- The slots of partitions by name, in order. Queues that don't exist have none.
create or replace function queen.slots_of_names (p_queues text[], p_partitions text[])
  returns smallint[]
  language plpgsql
  stable
as $$
begin
  return array(
    select distinct coalesce(q.slot, queen.partition_slot(q.id, n.partition))
    from unnest(p_queues, p_partitions) n (queue, partition)
    cross join lateral (
      select q.id, q.slot from queen.queues q where q.name = n.queue and q.deleted_at is null offset 0
    ) q
    order by 1
  );
end
$$;
