-- Statistics of a queue, without visiting all of its partitions. A value that would need more than p_most partitions with
-- work, or more than p_most rows, is null.
create or replace function queen.queue_figures (p_queue_id bigint, p_most integer)
  returns table (
    partitions bigint, groups bigint, pending bigint, oldest_at timestamptz, held bigint, waiting bigint,
    scheduled bigint, dead_letters bigint
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
begin
  select nullif(count(*), p_most + 1) into partitions
  from (select 1 from queen.partitions p where p.queue_id = p_queue_id limit p_most + 1) p;
  select nullif(count(*), p_most + 1) into scheduled
  from (select 1 from queen.scheduled s where s.queue_id = p_queue_id limit p_most + 1) s;
  select nullif(count(*), p_most + 1) into dead_letters
  from (select 1 from queen.dead_letters l where l.queue_id = p_queue_id limit p_most + 1) l;
  select
    count(*),
    case when count(f.lag) = count(*) then max(f.lag) end,
    case when count(f.lag) = count(*) then min(f.oldest_at) end,
    case when count(f.held) = count(*) then sum(f.held) end,
    case when count(f.waiting) = count(*) then sum(f.waiting) end
  into groups, pending, oldest_at, held, waiting
  from queen.groups g
  cross join lateral queen.group_figures(g.id, p_most) f
  where g.queue_id = p_queue_id and g.deleted_at is null;
  if groups = 0 then
    held := 0;
    waiting := 0;
    if partitions is not null then
      -- The queue has no group, so all stored messages are pending.
      select coalesce(sum(n.next_offset - f.first_offset), 0), min(f.created_at) filter (where n.next_offset > f.first_offset)
      into pending, oldest_at
      from queen.partitions p
      cross join lateral (
        select s.base_offset + s.message_count as next_offset
        from queen.segments s where s.partition_id = p.id order by s.base_offset desc limit 1
      ) n
      cross join lateral (
        select
          case when s.body is null then s.base_offset + s.message_count else s.base_offset end as first_offset,
          s.created_at
        from queen.segments s where s.partition_id = p.id order by s.base_offset limit 1
      ) f
      where p.queue_id = p_queue_id;
    end if;
  end if;
  return next;
end
$$;

-- How far a group is behind: its unsettled messages, the age of the oldest, and how many are leased or waiting for a retry.
-- Visits only pairs with messages and deliveries. Null if there are more than p_most, or if the group is not filled yet.
create or replace function queen.group_figures (p_group_id bigint, p_most integer)
  returns table (lag bigint, oldest_at timestamptz, held bigint, waiting bigint)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
  v_now       timestamptz := queen.now();
  v_filled    boolean;
  v_ready     bigint;
  v_behind    bigint;
  v_ready_at  timestamptz;
  v_out       bigint;
  v_rows      bigint;
  v_out_at    timestamptz;
begin
  select g.filled_to is null into v_filled from queen.groups g where g.id = p_group_id;
  -- Count the rows to visit first. If there are too many, visit none.
  select count(*), count(*) filter (where d.held and d.until > v_now) into v_rows, held
  from (select d.held, d.until from queen.deliveries d where d.group_id = p_group_id limit p_most + 1) d;
  if v_rows > p_most then
    held := null;
    return next;
    return;
  end if;
  waiting := v_rows - held;
  select count(*) into v_ready
  from (select 1 from queen.consumers c where c.group_id = p_group_id and c.ready_at is not null limit p_most + 1) c;
  if v_ready > p_most or not v_filled then
    return next;
    return;
  end if;

  select coalesce(sum(greatest(0, n.next_offset - c.claimed)), 0), min(a.created_at) filter (where n.next_offset > c.claimed)
  into v_behind, v_ready_at
  from (
    select c.partition_id, c.claimed
    from queen.consumers c
    where c.group_id = p_group_id and c.ready_at is not null
  ) c
  cross join lateral (
    select s.base_offset + s.message_count as next_offset
    from queen.segments s where s.partition_id = c.partition_id order by s.base_offset desc limit 1
  ) n
  left join lateral queen.stored_at(c.partition_id, c.claimed) a (created_at) on true;

  select coalesce(sum(queen.count_of(d.pending) + coalesce(h.behind, 0)), 0), min(coalesce(d.created_at, a.created_at))
  into v_out, v_out_at
  from (select d.* from queen.deliveries d where d.group_id = p_group_id) d
  left join lateral queen.stored_at(d.partition_id, lower(d.pending)) a (created_at) on true
  left join lateral (
    -- The messages behind the delivery of an ordered pair. Parked deliveries are behind the same one.
    select greatest(0, n.next_offset - c.claimed) as behind
    from (
      select c.claimed
      from queen.consumers c
      where c.partition_id = d.partition_id and c.group_id = d.group_id
      order by c.version desc
      limit 1
    ) c
    cross join lateral (
      select s.base_offset + s.message_count as next_offset
      from queen.segments s where s.partition_id = d.partition_id order by s.base_offset desc limit 1
    ) n
    where d.ordered and d.until < 'infinity'
  ) h on true;
  lag := v_behind + v_out;
  oldest_at := least(v_ready_at, v_out_at);
  return next;
end
$$;

-- When the message at an offset, or the next stored one, was stored.
create or replace function queen.stored_at (p_partition_id bigint, p_offset bigint)
  returns timestamptz
  language plpgsql
  stable
as $$
begin
  return queen.head_ready(p_partition_id, p_offset, 0, '-infinity');
end
$$;
