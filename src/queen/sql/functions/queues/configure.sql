-- Create a queue, or change the given options. Returns the queue as it is now.
--
-- p_options: column names to values, null for the default. Missing options are kept, or reset to their default if p_replace
-- is set. p_namespace, p_task: null keeps the value. p_version: raises QN007 if the queue has another version,
-- and 0 raises it if the queue exists.
-- Raises QN006 for an unknown option. A value out of range violates a check constraint.
create or replace function queen.configure (
  p_name      text,
  p_namespace text,
  p_task      text,
  p_options   jsonb,
  p_replace   boolean,
  p_version   bigint,
  p_defaults  jsonb
)
  returns setof queen.queues
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_defaults jsonb := queen.default_options() || coalesce(p_defaults, '{}');
  v_unknown  text;
  v_old      queen.queues;
  v_new      queen.queues;
  v_is_new   boolean;
begin
  select k into v_unknown from jsonb_object_keys(p_options) k where not queen.default_options() ? k limit 1;
  if v_unknown is not null then
    raise exception 'option % does not exist', v_unknown using errcode = 'QN006';
  end if;

  insert into queen.queues overriding system value
  select r.*
  from queen.new_queue(p_name, p_namespace, coalesce(p_defaults, '{}') || queen.chosen_placement(p_options)) r
  where not exists (select 1 from queen.queues q where q.name = p_name and q.deleted_at is null)
  on conflict (name) where deleted_at is null do nothing;
  v_is_new := found;
  -- A push may have created the queue before it had a namespace. Without partitions it can still change its slot.
  perform pg_advisory_xact_lock(hashtextextended('queen.queue', q.id))
  from queen.queues q
  where q.name = p_name and q.deleted_at is null and q.namespace <> p_namespace;
  select q.* into v_old
  from queen.queues q
  where q.name = p_name and q.deleted_at is null
  for no key update;
  if p_version = 0 and not v_is_new then
    raise exception 'queue % exists, at version %', p_name, v_old.version using errcode = 'QN007';
  end if;
  if p_version <> 0 and v_is_new then
    raise exception 'queue % does not exist, so it is not at version %', p_name, p_version using errcode = 'QN007';
  end if;
  if p_version <> 0 and v_old.version <> p_version then
    raise exception 'queue % is at version %, not %', p_name, v_old.version, p_version using errcode = 'QN007';
  end if;

  begin
    v_new := jsonb_populate_record(
      v_old,
      case when p_replace then v_defaults else '{}' end || (
        select coalesce(jsonb_object_agg(o.key, case when o.value = 'null' then v_defaults -> o.key else o.value end), '{}')
        from jsonb_each(p_options) o
      )
    );
  exception when invalid_text_representation or numeric_value_out_of_range then
    raise exception 'an option has an invalid value: %', sqlerrm using errcode = 'QN006';
  end;
  if p_options ? 'placement' and v_new.placement <> v_old.placement then
    raise exception 'queue % has placement %, which is fixed when a queue is created', p_name, v_old.placement
      using errcode = 'QN006';
  end if;
  perform queen.enter(array[v_old.slot::bigint << 53]);
  if v_old.namespace <> p_namespace and v_old.slot is not null
    and not exists (select 1 from queen.partitions p where p.queue_id = v_old.id)
  then
    v_new.slot := queen.home_slot(p_name, p_namespace);
  end if;
  -- If no message is leased, there is nothing to wait for.
  if v_new.in_order <> v_new.ordered and not exists (
    select 1 from queen.groups g join queen.deliveries d on d.group_id = g.id where g.queue_id = v_old.id
  ) then
    v_new.in_order := v_new.ordered;
    -- A pop that is running may still claim without order.
    v_new.order_changed_at := case when not v_is_new then queen.now() end;
  end if;
  if v_new.delay_seconds < v_old.delay_seconds
    or v_new.window_seconds < v_old.window_seconds
    or (v_old.rate_per = 'partition'
        and (v_new.rate_max, v_new.rate_ms, v_new.rate_per) is distinct from (v_old.rate_max, v_old.rate_ms, v_old.rate_per))
  then
    v_new.shortened_at := queen.now();
  end if;
  if queen.dedup_class(v_new.dedup_seconds) <> queen.dedup_class(v_old.dedup_seconds) then
    v_new.old_dedup_untils := coalesce(v_old.old_dedup_untils, array_fill(null::timestamptz, array[4]));
    v_new.old_dedup_untils[queen.dedup_class(v_old.dedup_seconds) + 1] :=
      queen.now() + make_interval(secs => v_old.dedup_seconds);
  end if;

  return query
  update queen.queues q
  set
    slot = v_new.slot, namespace = coalesce(p_namespace, q.namespace), task = coalesce(p_task, q.task), version = q.version + 1,
    in_order = v_new.in_order, order_changed_at = v_new.order_changed_at, shortened_at = v_new.shortened_at,
    old_dedup_untils = v_new.old_dedup_untils,
    lease_seconds = v_new.lease_seconds, retry_limit = v_new.retry_limit, retry_delay_ms = v_new.retry_delay_ms,
    max_retry_delay_ms = v_new.max_retry_delay_ms, retry_backoff = v_new.retry_backoff, priority = v_new.priority,
    delay_seconds = v_new.delay_seconds, window_seconds = v_new.window_seconds, dead_letter = v_new.dead_letter,
    max_size = v_new.max_size, ttl_seconds = v_new.ttl_seconds, dedup_seconds = v_new.dedup_seconds,
    ordered = v_new.ordered, rate_max = v_new.rate_max, rate_ms = v_new.rate_ms, rate_per = v_new.rate_per,
    concurrency_limit = v_new.concurrency_limit, paused = v_new.paused,
    retention_enabled = v_new.retention_enabled, retention_seconds = v_new.retention_seconds,
    completed_retention_seconds = v_new.completed_retention_seconds,
    partition_retention_seconds = v_new.partition_retention_seconds, max_wait_seconds = v_new.max_wait_seconds,
    max_payload_bytes = v_new.max_payload_bytes, schema = nullif(v_new.schema, 'null'),
    encrypted = v_new.encrypted, managed_by = v_new.managed_by
  where q.id = v_old.id
  returning q.*;
end
$$;

-- The placement among the options of a request, if it is there.
create or replace function queen.chosen_placement (p_options jsonb)
  returns jsonb
  language sql
  immutable
as $$
  select case
    when p_options ? 'placement' then jsonb_build_object('placement', coalesce(p_options ->> 'placement', 'home'))
    else '{}'
  end
$$;

-- Set the priority of a partition in its queue, for stored and future messages. Raises QN001, QN004.
-- Locks: the slot, the queue's advisory lock, partitions, consumers.
create or replace function queen.configure_partition (p_queue text, p_partition text, p_priority integer)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue_id bigint := (queen.queue_named(p_queue)).id;
  v_ids      bigint[];
begin
  perform queen.enter_partitions(v_queue_id, p_partition);
  perform pg_advisory_xact_lock(hashtextextended('queen.queue', v_queue_id));
  select array_agg(l.id) into v_ids
  from (
    select p.id
    from queen.partitions p
    where p.queue_id = v_queue_id and p.name = p_partition
    order by p.id
    for no key update
  ) l;
  if v_ids is null then
    raise exception 'queue % has no partition %', p_queue, p_partition using errcode = 'QN004';
  end if;
  update queen.partitions p set priority = p_priority where p.id = any (v_ids);
  update queen.consumers c
  set version = c.version + 1, priority = p_priority * 10 + p.level
  from queen.partitions p
  where p.id = any (v_ids) and c.partition_id = p.id;
  update queen.deliveries d
  set priority = p_priority * 10 + p.level
  from queen.partitions p
  where p.id = any (v_ids) and d.partition_id = p.id;
  update queen.queues q
  set levels = array(
    select distinct l
    from unnest(q.levels || array(select p_priority * 10 + p.level from queen.partitions p where p.id = any (v_ids))) l
    order by l desc
  )
  where q.id = v_queue_id;
end
$$;
