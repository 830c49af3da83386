-- Helpers that decide in which order a pop searches groups and priority levels.

-- The levels of an unordered queue in the order of every fourth turn: it begins at another level each time.
create or replace function queen.levels_by_turn (p_levels integer[], p_turn integer)
  returns integer[]
  language sql
  immutable
as $$
  select array(
    select u.level
    from unnest(p_levels) with ordinality u (level, ordinal)
    order by (u.ordinal + p_turn / 4) % cardinality(p_levels)
  )
$$;

-- The order in which a pop visits groups: queue priority, then the longest-ready first partition.
create or replace function queen.by_readiness (p_group_ids bigint[], p_ready_since timestamptz[])
  returns integer[]
  language plpgsql
  stable
as $$
begin
  return array(
    select u.index::integer
    from unnest(p_group_ids, p_ready_since) with ordinality u (group_id, since, index)
    left join lateral (
      select q.priority, q.levels
      from queen.groups g
      cross join lateral (select q.priority, q.levels from queen.queues q where q.id = g.queue_id offset 0) q
      where g.id = u.group_id
      offset 0
    ) q on true
    left join lateral (
      select min(r.ready_at) as ready_at
      from unnest(q.levels) l (level)
      cross join lateral (
        select c.ready_at
        from queen.consumers c
        where c.group_id = u.group_id and c.priority = l.level and c.ready_at >= coalesce(u.since, '-infinity')
        order by c.ready_at
        limit 1
      ) r
    ) r on true
    order by q.priority desc nulls last, r.ready_at nulls last, u.index
  );
end
$$;
