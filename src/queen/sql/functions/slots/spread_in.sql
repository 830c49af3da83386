-- Partitions of spread queues in a slot that moves.

-- The spread queues that have partitions in a slot.
create or replace function queen.spread_in (p_slot integer)
  returns setof bigint
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select distinct p.queue_id
  from queen.partitions p
  where p.id between p_slot::bigint << 53 and p_slot::bigint << 53 | 9007199254740991
    and p.queue_id in (select q.id from queen.queues q where q.slot is null)
$$;

-- Make partitions of spread queues, which have arrived with a slot, equal to the others of their queues in this database.
--
-- The queues know the priorities of the partitions. A group that was created here, but not at the former owner, gets a position
-- in each. Positions of groups that were deleted here are deleted. All groups of the former owner are known here. Retention
-- visits the partitions again, because its sweeps may have passed messages that were on their way.
-- Locks: partitions by id, laggards.
create or replace function queen.adopt_partitions (p_slot smallint)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_low   constant bigint := p_slot::bigint << 53;
  v_high  constant bigint := p_slot::bigint << 53 | 9007199254740991;
  v_queue queen.queues;
  v_group queen.groups;
  v_ids   bigint[];
begin
  for v_queue in
    select q.* from queen.queues q where q.id in (select queen.spread_in(p_slot)) order by q.id
  loop
    v_ids := array(
      select p.id
      from queen.partitions p
      where p.queue_id = v_queue.id and p.id between v_low and v_high
      order by p.id
      for no key update
    );
    update queen.queues q
    set levels = array(select distinct l from unnest(q.levels || n.levels) l order by l desc)
    from (
      select array_agg(distinct p.priority * 10 + p.level) as levels from queen.partitions p where p.id = any (v_ids)
    ) n
    where q.id = v_queue.id and not (q.levels @> n.levels);
    for v_group in
      select g.* from queen.groups g where g.queue_id = v_queue.id and g.deleted_at is null order by g.id
    loop
      perform queen.add_positions(v_group, v_queue, array(
        select k.id
        from unnest(v_ids) k (id)
        where not exists (select 1 from queen.consumers c where c.partition_id = k.id and c.group_id = v_group.id)
      ));
    end loop;
    insert into queen.laggards (queue_id, kind, partition_id, look_at)
    select v_queue.id, n.kind, k.id, queen.now()
    from unnest(v_ids) k (id)
    cross join (values
      ('age', v_queue.retention_enabled and v_queue.retention_seconds > 0),
      ('completed', v_queue.retention_enabled and v_queue.completed_retention_seconds > 0),
      ('eviction', v_queue.max_wait_seconds > 0)
    ) n (kind, is_set)
    where n.is_set
    on conflict do nothing;
    delete from queen.consumers c
    where c.partition_id = any (v_ids)
      and not exists (select 1 from queen.groups g where g.id = c.group_id and g.deleted_at is null);
    delete from queen.deliveries d
    where d.partition_id = any (v_ids)
      and not exists (select 1 from queen.groups g where g.id = d.group_id and g.deleted_at is null);
  end loop;
end
$$;
