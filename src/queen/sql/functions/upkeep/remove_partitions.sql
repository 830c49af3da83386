-- Remove partitions of a queue that are empty and had no push for p_seconds, or for the time that the queue sets, and whose
-- dedup window has passed.
--
-- A partition is empty if all its messages were removed, or if it never had any (a laggard of the kind `unused`: its scheduled
-- messages were cancelled or expired), and it has no deliveries, scheduled messages or dead letters. A push that still uses
-- a removed partition gets QN004 and creates a new one. p_after_at, p_after_id: continue after this position.
-- Returns how many were removed, the position to continue from, and whether that was the last. Raises QN016.
-- Locks: the task, the slot (without waiting, or else the queue is skipped), partitions by id (skips locked rows), consumers,
-- deliveries, laggards.
create or replace function queen.remove_partitions (
  p_epoch    bigint,
  p_queue_id bigint,
  p_seconds  double precision,
  p_after_at timestamptz,
  p_after_id bigint,
  p_limit    integer
)
  returns table (removed integer, after_at timestamptz, after_id bigint, is_over boolean, lag_seconds double precision)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_queue  queen.queues;
  v_now    timestamptz;
  v_cut    timestamptz;
  v_ids    bigint[];
  v_row    record;
  v_id     bigint;
  v_newest record;
begin
  perform queen.hold_duty('partitions', p_epoch);
  removed := 0;
  is_over := true;
  lag_seconds := 0;
  if queen.may_enter_queue(p_queue_id) then
    select q.* into v_queue from queen.queues q where q.id = p_queue_id and q.deleted_at is null;
  end if;
  v_now := queen.now();
  v_cut := v_now - make_interval(secs => greatest(
    coalesce(nullif(v_queue.partition_retention_seconds, 0), p_seconds),
    v_queue.dedup_seconds
  ));
  -- A former window still covers messages that were pushed under it.
  if v_queue.id is null or exists (select 1 from unnest(v_queue.old_dedup_untils) u where u > v_now) then
    return next;
    return;
  end if;
  for v_row in
    select l.partition_id, l.at
    from (
      (
        select s.partition_id, s.created_at as at
        from queen.segments s
        where s.queue_id = p_queue_id
          and s.body is null
          and s.created_at < v_cut
          and (s.created_at, s.partition_id) > (coalesce(p_after_at, '-infinity'), coalesce(p_after_id, 0))
        order by s.created_at, s.partition_id
        limit p_limit
      )
      union all
      (
        select u.partition_id, u.look_at
        from queen.laggards u
        where u.queue_id = p_queue_id
          and u.kind = 'unused'
          and u.look_at < v_cut
          and u.look_at >= coalesce(p_after_at, '-infinity')
          and (u.look_at, u.partition_id) > (coalesce(p_after_at, '-infinity'), coalesce(p_after_id, 0))
        order by u.look_at, u.partition_id
        limit p_limit
      )
    ) l
    order by l.at, l.partition_id
    limit p_limit
  loop
    v_ids := v_ids || v_row.partition_id;
    after_at := v_row.at;
    after_id := v_row.partition_id;
    lag_seconds := greatest(lag_seconds, extract(epoch from v_cut - v_row.at));
  end loop;
  is_over := coalesce(cardinality(v_ids), 0) < p_limit;
  if is_over then
    lag_seconds := 0;
  end if;
  v_ids := array(
    select p.id from queen.partitions p where p.id = any (v_ids) and queen.is_owned(p.id) order by p.id for update skip locked
  );
  foreach v_id in array v_ids loop
    perform 1
    from (
      select c.group_id from queen.consumers c where c.partition_id = v_id order by c.group_id for update
    ) l;
    select
      s.base_offset, s.base_offset + s.message_count as next_offset, s.body is null as is_empty, s.created_at
    into v_newest
    from queen.segments s
    where s.partition_id = v_id
    order by s.base_offset desc
    limit 1;
    if found then
      -- From now on it is found through its segments.
      delete from queen.laggards l where l.partition_id = v_id and l.kind = 'unused';
      continue when v_newest.created_at >= v_cut;
    end if;
    if not v_newest.is_empty then
      -- It was emptied and then pushed to. Only the empty row is left over.
      delete from queen.segments s where s.partition_id = v_id and s.body is null and s.base_offset < v_newest.base_offset;
      continue;
    end if;
    if exists (select 1 from queen.scheduled s where s.partition_id = v_id) then
      update queen.laggards l set look_at = v_now where l.partition_id = v_id and l.kind = 'unused';
      continue;
    end if;
    continue when exists (select 1 from queen.deliveries d where d.partition_id = v_id)
      or exists (select 1 from queen.dead_letters l where l.partition_id = v_id);
    delete from queen.consumers c where c.partition_id = v_id;
    delete from queen.segments s where s.partition_id = v_id;
    delete from queen.laggards l where l.partition_id = v_id;
    delete from queen.partitions p where p.id = v_id;
    insert into queen.removals (queue_id, partition_id, first_offset, end_offset, reason, removed_at)
    values (
      p_queue_id, v_id, coalesce(v_newest.next_offset, 0), coalesce(v_newest.next_offset, 0), 'partition', v_now
    );
    removed := removed + 1;
  end loop;
  return next;
end
$$;
