-- The given groups that have messages now, or that were deleted, or whose slot has moved. One call for all waiting pops: the
-- slow poll that backs up the wake-ups.
create or replace function queen.ready_groups (p_group_ids bigint[])
  returns table (group_id bigint)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  -- Read the clock once: a volatile function cannot be an index condition.
  v_now timestamptz := queen.now();
begin
  return query
  select k.id
  from unnest(p_group_ids) k (id)
  left join lateral (
    select g.* from queen.groups g where g.id = k.id and g.deleted_at is null offset 0
  ) g on true
  left join lateral (select q.* from queen.queues q where q.id = g.queue_id offset 0) q on true
  cross join lateral (
    select
      (
        select bool_or(c.is_ready)
        from unnest(q.levels) l (level)
        cross join lateral (
          select true as is_ready
          from queen.consumers c
          where c.group_id = g.id and c.priority = l.level and c.ready_at <= v_now
            and (q.slot is not null or queen.is_owned(c.partition_id))
          order by c.ready_at
          limit 1
        ) c
      ) as is_ready,
      (
        select bool_or(d.is_due)
        from unnest(q.levels) l (level)
        cross join lateral (
          select true as is_due
          from queen.deliveries d
          where d.group_id = g.id and d.priority = l.level and d.until <= v_now
            and (q.slot is not null or queen.is_owned(d.partition_id))
          order by d.until
          limit 1
        ) d
      ) as is_due,
      (
        select true
        from queen.scheduled s
        where s.queue_id = q.id and s.due_at <= v_now and (q.slot is not null or queen.is_owned(s.partition_id))
        order by s.due_at
        limit 1
      ) as is_scheduled
  ) h
  where g.id is null
    or q.id is null
    or exists (select 1 from queen.slots o where o.slot = q.slot and o.state <> 'owned')
    or (not q.paused and (g.filled_to is not null or h.is_ready or h.is_due or h.is_scheduled));
end
$$;
