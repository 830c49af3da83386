-- The number of unsettled messages of a queue's slowest group, counted up to p_most partitions with work.
--
-- Visits only pairs with messages and deliveries, at most p_most. Each has at least one message, so a size limit of p_most
-- is reached by then. For a queue without groups, counts all stored messages.
create or replace function queen.backlog (p_queue_id bigint, p_most bigint)
  returns bigint
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_group_id bigint;
  v_levels   integer[];
  v_count    bigint;
  v_largest  bigint := 0;
  v_has_group boolean := false;
begin
  select q.levels into v_levels from queen.queues q where q.id = p_queue_id;
  for v_group_id in
    select g.id from queen.groups g
    where g.queue_id = p_queue_id and g.deleted_at is null and g.filled_to is null
  loop
    v_has_group := true;
    select coalesce(sum(n.next_offset - c.claimed), 0) into v_count
    from (
      select c.partition_id, c.claimed
      from queen.consumers c
      where c.group_id = v_group_id and c.priority = any (v_levels) and c.ready_at is not null
      limit p_most
    ) c
    cross join lateral (
      select s.base_offset + s.message_count as next_offset
      from queen.segments s
      where s.partition_id = c.partition_id
      order by s.base_offset desc
      limit 1
    ) n;
    -- Leased messages, and on an ordered queue the messages that wait behind them.
    v_count := v_count + (
      select coalesce(sum(queen.count_of(d.pending) + case when d.ordered and d.until < 'infinity' then h.behind else 0 end), 0)
      from (
        select d.* from queen.deliveries d
        where d.group_id = v_group_id and d.priority = any (v_levels) limit p_most
      ) d
      left join lateral (
        select n.next_offset - c.claimed as behind
        from (
          select c.claimed
          from queen.consumers c
          where c.partition_id = d.partition_id and c.group_id = d.group_id
          order by c.version desc
          limit 1
        ) c
        cross join lateral (
          select s.base_offset + s.message_count as next_offset
          from queen.segments s
          where s.partition_id = d.partition_id
          order by s.base_offset desc
          limit 1
        ) n
      ) h on d.ordered
    );
    v_largest := greatest(v_largest, v_count);
  end loop;
  if not v_has_group then
    select coalesce(sum(n.next_offset - n.first_offset), 0) into v_largest
    from (select p.id from queen.partitions p where p.queue_id = p_queue_id limit p_most) p
    cross join lateral (
      select
        (
          select s.base_offset + s.message_count
          from queen.segments s where s.partition_id = p.id order by s.base_offset desc limit 1
        ) as next_offset,
        (
          select case when s.body is null then s.base_offset + s.message_count else s.base_offset end
          from queen.segments s where s.partition_id = p.id order by s.base_offset limit 1
        ) as first_offset
    ) n;
  end if;
  return v_largest + (select count(*) from (
    select 1 from queen.scheduled s where s.queue_id = p_queue_id limit p_most
  ) s);
end
$$;
