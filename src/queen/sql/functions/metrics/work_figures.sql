-- The work of a group in a queue, in messages: available, leased, not due yet (scheduled or waiting for a retry), and leased
-- under an expired lease. Null if that needs more than p_most rows.
create or replace function queen.work_figures (p_queue_id bigint, p_group text, p_most integer)
  returns table (waiting bigint, active bigint, delayed bigint, stalled bigint, dead bigint)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
  v_now       timestamptz := queen.now();
  v_group_id  bigint;
  v_scheduled bigint;
  v_rows      bigint;
  v_ready     bigint;
  v_behind    bigint;
  v_due       bigint;
begin
  select nullif(count(*), p_most + 1) into v_scheduled
  from (select 1 from queen.scheduled s where s.queue_id = p_queue_id limit p_most + 1) s;
  select nullif(count(*), p_most + 1) into dead
  from (select 1 from queen.dead_letters l where l.queue_id = p_queue_id limit p_most + 1) l;
  select g.id into v_group_id
  from queen.groups g
  where g.queue_id = p_queue_id and g.name = p_group and g.deleted_at is null;
  if v_group_id is null then
    select f.pending, 0, f.scheduled, 0 into waiting, active, delayed, stalled
    from queen.queue_figures(p_queue_id, p_most) f;
    return next;
    return;
  end if;
  select
    count(*),
    coalesce(sum(case when d.held and d.until > v_now then queen.count_of(queen.handed_out(d)) end), 0),
    coalesce(sum(case when d.held and d.until <= v_now then queen.count_of(queen.handed_out(d)) end), 0),
    coalesce(sum(case when not d.held and d.until > v_now then queen.count_of(d.pending) end), 0),
    coalesce(sum(case
      when d.held then queen.count_of(d.pending - queen.handed_out(d))
      when d.until <= v_now then queen.count_of(d.pending)
    end), 0)
  into v_rows, active, stalled, delayed, v_due
  from (select d.* from queen.deliveries d where d.group_id = v_group_id limit p_most + 1) d;
  delayed := delayed + v_scheduled;
  if v_rows > p_most then
    active := null;
    stalled := null;
    delayed := null;
    return next;
    return;
  end if;
  select count(*), coalesce(sum(greatest(0, n.next_offset - c.claimed)), 0)
  into v_ready, v_behind
  from (
    select c.partition_id, c.claimed
    from queen.consumers c
    where c.group_id = v_group_id and c.ready_at is not null
    limit p_most + 1
  ) c
  cross join lateral (
    select s.base_offset + s.message_count as next_offset
    from queen.segments s where s.partition_id = c.partition_id order by s.base_offset desc limit 1
  ) n;
  if v_ready <= p_most then
    waiting := v_behind + v_due;
  end if;
  return next;
end
$$;
