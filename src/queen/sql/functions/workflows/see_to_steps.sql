-- Check steps whose look_at is due. Fail steps that waited too long for a signal, and steps whose message is neither in the
-- outbox nor open in its queue: it was evicted, purged, dead-lettered, or settled without its step.
--
-- Checks at most p_limit steps. Runs that are locked, or with an open step whose queue is moving now, are left for later:
-- their messages may be in another database soon. Returns how many were checked, and the runs that ended.
-- Raises QN016. Locks: the task, workflows by id (skips locked rows), the slots (without waiting), their messages in the outbox.
create or replace function queen.see_to_steps (p_epoch bigint, p_limit integer)
  returns table (looked integer, ended text[])
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now   timestamptz;
  v_due   record;
  v_ended text[] := '{}';
  v_count integer := 0;
  v_is_moving boolean;
begin
  perform queen.hold_duty('workflows', p_epoch);
  v_is_moving := exists (select 1 from queen.slots s where s.state = 'leaving');
  for v_due in
    select w.id
    from (
      select distinct d.workflow_id
      from (
        select s.workflow_id
        from queen.workflow_steps s
        where s.look_at <= queen.now()
          and not (v_is_moving and exists (
            select 1
            from unnest(queen.open_queues(s.workflow_id)) o (name)
            join queen.slots t on t.slot = queen.slot_of(o.name) and t.state = 'leaving'
          ))
        order by s.look_at
        limit p_limit
      ) d
    ) d
    join queen.workflows w on w.id = d.workflow_id
    order by w.id
    for no key update of w skip locked
  loop
    -- Messages in other databases are not checked.
    continue when not queen.may_enter(array(
      select distinct s.slot
      from unnest(queen.open_queues(v_due.id)) o (name)
      join queen.slots s on s.slot = queen.slot_of(o.name) and s.state <> 'gone'
    ));
    v_now := queen.now();
    v_count := v_count + queen.see_to_workflow(v_due.id, p_limit, v_now);
    if exists (select 1 from queen.workflows w where w.id = v_due.id and w.ended_at is not null) then
      v_ended := v_ended || v_due.id;
    end if;
  end loop;
  return query select v_count, v_ended;
end
$$;

-- The queues to which the open steps of a run push.
create or replace function queen.open_queues (p_id text)
  returns text[]
  language plpgsql
  stable
as $$
begin
  return array(
    select distinct s.queue
    from queen.workflow_steps s
    where s.workflow_id = p_id and s.queue is not null and s.ended_at is null
  );
end
$$;

-- Check the steps of one run that the caller has locked. Returns how many.
create or replace function queen.see_to_workflow (p_id text, p_limit integer, p_now timestamptz)
  returns integer
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_step   queen.workflow_steps;
  v_error  text;
  v_count  integer := 0;
  v_failed integer;
begin
  for v_step in
    select s.* from queen.workflow_steps s where s.workflow_id = p_id and s.look_at <= p_now order by s.ordinal limit p_limit
  loop
    v_count := v_count + 1;
    if v_step.state = 'waiting' then
      perform queen.settle_steps(p_id, '{}', array[v_step.name], array['failed'], '{}', array[
        format('no signal %s arrived within %s s', v_step.signal, v_step.timeout_seconds)
      ], p_now);
      continue;
    end if;
    update queen.workflow_steps s
    set
      -- Later each time, up to an hour.
      look_at = case
        when s.state = 'active' then p_now + least(interval '1 hour', greatest(interval '1 minute', p_now - s.started_at))
      end,
      seen_at = case when queen.is_in_log(s) then coalesce(s.seen_at, p_now) end
    where s.workflow_id = p_id and s.name = v_step.name
    returning s.* into v_step;
    v_error := queen.loss_of(v_step);
    if v_error is null then
      continue;
    elsif v_step.kind = 'map' then
      update queen.workflow_parts p
      set state = 'failed', error = v_error, outbox_id = null, ended_at = p_now
      where p.workflow_id = p_id and p.step = v_step.name and p.state = 'active';
      get diagnostics v_failed = row_count;
      update queen.workflow_steps s
      set open_parts = 0, failed_parts = s.failed_parts + v_failed
      where s.workflow_id = p_id and s.name = v_step.name
      returning s.* into v_step;
      perform queen.settle_steps(p_id, '{}', array[v_step.name], array[r.state], array[r.result], array[r.error], p_now)
      from queen.reduce_parts(p_id, v_step.name, v_step.failed_parts) r;
    else
      perform queen.settle_steps(p_id, '{}', array[v_step.name], array['failed'], '{}', array[v_error], p_now);
    end if;
  end loop;
  return v_count;
end
$$;

-- Whether all messages of a step were moved from the outbox to the log, here or in another database, and are not scheduled here
-- any more.
create or replace function queen.is_in_log (p_step queen.workflow_steps)
  returns boolean
  language plpgsql
  stable
as $$
begin
  return not exists (
    select 1
    from (
      select p_step.outbox_id as id where p_step.kind <> 'map'
      union all
      select p.outbox_id
      from queen.workflow_parts p
      where p.workflow_id = p_step.workflow_id and p.step = p_step.name and p.state = 'active'
    ) m
    where exists (select 1 from queen.outbox o where o.id = m.id)
      or exists (select 1 from queen.forwards f where f.outbox_id = m.id)
  ) and (
    p_step.delay_seconds is null
    or not exists (
      select 1
      from queen.queues q
      join queen.partitions p on p.queue_id = q.id and p.name = p_step.partition
      join queen.scheduled d on d.partition_id = p.id
        and d.due_at <= p_step.started_at + make_interval(secs => p_step.delay_seconds + 1)
      where q.name = p_step.queue and q.deleted_at is null
    )
  );
end
$$;

-- Why an active step will never finish, or null: its message cannot be moved to the log, or is no longer open in it.
--
-- A message is open if it is unclaimed or in a delivery. If no message of its partition that was stored before the step's
-- message reached the log is open, neither is the step's. If an older one is still open, the check has to wait for it. Messages
-- in other databases can't be checked.
create or replace function queen.loss_of (p_step queen.workflow_steps)
  returns text
  language plpgsql
  stable
as $$
declare
  v_queue_id bigint;
  v_group_id bigint;
  v_error    text;
begin
  if p_step.state <> 'active' then
    return null;
  end if;
  if p_step.seen_at is null then
    select min(o.error) into v_error
    from (
      select p_step.outbox_id as id where p_step.kind <> 'map'
      union all
      select p.outbox_id
      from queen.workflow_parts p
      where p.workflow_id = p_step.workflow_id and p.step = p_step.name and p.state = 'active'
    ) m
    join queen.outbox o on o.id = m.id
    having bool_and(o.error is not null);
    return 'it could not be pushed: ' || v_error;
  end if;
  select q.id, (
    select g.id from queen.groups g where g.queue_id = q.id and g.name = '__QUEUE_MODE__' and g.deleted_at is null
  ) into v_queue_id, v_group_id
  from queen.queues q
  where q.name = p_step.queue and q.deleted_at is null;
  if v_queue_id is null and exists (select 1 from queen.databases) and not exists (
    select 1 from queen.homes h join queen.slots s on s.slot = h.slot and s.state = 'owned' where h.name = p_step.queue
  ) then
    return null;
  end if;
  if exists (
    select 1
    from queen.partitions p
    cross join lateral (
      select least(
        coalesce((
          select c.claimed
          from queen.consumers c
          where c.partition_id = p.id and c.group_id = v_group_id
          order by c.version desc
          limit 1
        ), 0),
        (select min(lower(d.pending)) from queen.deliveries d where d.partition_id = p.id and d.group_id = v_group_id)
      ) as "offset"
    ) o
    where p.queue_id = v_queue_id and p.name = p_step.partition
      and (
        exists (
          select 1
          from (
            (
              select s.created_at, s.body is not null and s.base_offset + s.message_count > o."offset" as is_open
              from queen.segments s
              where s.partition_id = p.id and s.base_offset <= o."offset"
              order by s.base_offset desc
              limit 1
            )
            union all
            (
              select s.created_at, s.body is not null
              from queen.segments s
              where s.partition_id = p.id and s.base_offset > o."offset"
              order by s.base_offset
              limit 1
            )
          ) s
          where s.is_open and s.created_at <= p_step.seen_at
        )
        or exists (
          select 1
          from queen.deliveries d
          where d.partition_id = p.id and d.group_id = v_group_id and d.payload is not null
            and d.created_at <= p_step.seen_at
        )
      )
  ) then
    return null;
  end if;
  return format('its message left queue %s without an outcome', p_step.queue);
end
$$;
