-- Definitions: a spread queue, its options, its groups and its pins, which are equal in all databases.

-- Whether this database decides names and definitions: it is the first one, or the only one.
create or replace function queen.is_first ()
  returns boolean
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select not exists (select 1 from queen.databases d where d.is_here and d.number <> 0)
$$;

-- Count a change of a spread queue, its groups or its pins, and record which databases don't have it yet. Returns the new
-- revision, or null if there is only one database.
-- Locks: the queue's row of definitions, so a higher revision contains all lower ones.
create or replace function queen.note_definition (p_queue_id bigint)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_revision bigint;
begin
  if not exists (select 1 from queen.databases d where d.is_here and d.number = 0) then
    return null;
  end if;
  insert into queen.definitions as d (queue_id, revision)
  values (p_queue_id, 1)
  on conflict (queue_id) do update set revision = d.revision + 1
  returning d.revision into v_revision;
  insert into queen.outdated as o (database, queue_id, revision)
  select d.number, p_queue_id, v_revision
  from queen.databases d
  where not d.is_here and d.removed_at is null
  on conflict (database, queue_id) do update set revision = excluded.revision;
  return v_revision;
end
$$;

-- Note a change of a spread queue. Raises QN006 for an option that needs one database.
create or replace function queen.note_queue ()
  returns trigger
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  if new.max_size > 0 and exists (select 1 from queen.databases) then
    raise exception 'placement spread with several databases excludes maxSize' using errcode = 'QN006';
  end if;
  if tg_op = 'UPDATE' and new.ordered <> old.ordered and exists (select 1 from queen.databases) and not exists (
    -- Created by this transaction, which sets its options after that.
    select 1
    from queen.definitions d
    where d.queue_id = new.id and d.revision = 1 and d.xmin = pg_current_xact_id()::xid
  ) then
    raise exception 'placement spread with several databases fixes the option ordered when the queue is created'
      using errcode = 'QN006';
  end if;
  perform queen.note_definition(new.id);
  return null;
end
$$;

-- Note a change of a group, if its queue is spread.
create or replace function queen.note_group ()
  returns trigger
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select 1 from queen.queues q where q.id = new.queue_id and q.slot is null) then
    perform queen.note_definition(new.queue_id);
  end if;
  return null;
end
$$;

-- The definition of a spread queue in the first database. `queue` is null if the queue was deleted.
create or replace function queen.definition (p_queue_id bigint)
  returns jsonb
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select jsonb_build_object(
    'id', p_queue_id,
    'revision', coalesce((select d.revision from queen.definitions d where d.queue_id = p_queue_id), 0),
    'queue', (select to_jsonb(q) from queen.queues q where q.id = p_queue_id and q.deleted_at is null),
    'groups', coalesce(
      (select jsonb_agg(to_jsonb(g)) from queen.groups g where g.queue_id = p_queue_id and g.deleted_at is null), '[]'
    ),
    'pins', coalesce((select jsonb_agg(to_jsonb(p)) from queen.pins p where p.queue_id = p_queue_id), '[]')
  )
$$;

-- A digest of the options, groups and pins of a spread queue, which are equal in all databases.
create or replace function queen.definition_digest (p_queue_id bigint)
  returns text
  language sql
  stable
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
as $$
  select md5(jsonb_build_object(
    'queue', (
      select jsonb_build_array(q.name, q.namespace, q.task, jsonb_object_agg(k, to_jsonb(q) -> k))
      from queen.queues q
      cross join jsonb_object_keys(queen.default_options()) k
      where q.id = p_queue_id and q.deleted_at is null
      group by q.name, q.namespace, q.task
    ),
    'groups', (
      select jsonb_agg(jsonb_build_array(g.id, g.name, g.start_mode, g.start_at) order by g.id)
      from queen.groups g
      where g.queue_id = p_queue_id and g.deleted_at is null
    ),
    'pins', (
      select jsonb_agg(jsonb_build_array(p.partition, p.slot, p.is_ready) order by p.partition)
      from queen.pins p
      join queen.queues q on q.id = p.queue_id and q.deleted_at is null
      where p.queue_id = p_queue_id
    )
  )::text)
$$;

-- Make a spread queue, its groups and its pins equal to those of the first database. Returns false if this database has a later
-- definition. A new group starts at the time at which the first database created it.
-- Locks: the queue's advisory lock, exclusive; its row of definitions; the queue; then partitions, to fill new groups.
create or replace function queen.apply_definition (p_definition jsonb)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_id        bigint := (p_definition ->> 'id')::bigint;
  v_queue     queen.queues := jsonb_populate_record(null::queen.queues, nullif(p_definition -> 'queue', 'null'));
  v_group     bigint;
  v_has_ended boolean;
begin
  perform pg_advisory_xact_lock(hashtextextended('queen.queue', v_id));
  insert into queen.definitions as d (queue_id, revision)
  values (v_id, (p_definition ->> 'revision')::bigint)
  on conflict (queue_id) do update set revision = excluded.revision
  where d.revision < excluded.revision;
  if not found then
    return false;
  end if;
  delete from queen.pins p where p.queue_id = v_id;
  if v_queue.id is not null then
    insert into queen.pins (queue_id, partition, slot, is_ready, revision)
    select v_id, n.partition, n.slot, n.is_ready, n.revision
    from jsonb_populate_recordset(null::queen.pins, coalesce(p_definition -> 'pins', '[]')) n;
  end if;
  -- Also a former queue of this name, which was deleted in the first database.
  update queen.queues q
  set deleted_at = queen.now(), version = q.version + 1
  where q.deleted_at is null and ((v_queue.id is null and q.id = v_id) or (q.name = v_queue.name and q.id < v_id));
  v_has_ended := found;
  update queen.groups g
  set deleted_at = queen.now()
  from queen.queues q
  where q.id = g.queue_id and g.deleted_at is null and (
    (q.deleted_at is not null and (q.id = v_id or q.name = v_queue.name))
    or (q.id = v_id and not p_definition -> 'groups' @> jsonb_build_array(jsonb_build_object('id', g.id)))
  );
  if found or v_has_ended then
    -- Any process erases their rows, as after a request to delete them.
    insert into queen.operations (kind, queue, arguments, owner, seen_at, created_by, created_at)
    values ('delete', v_queue.name, '{}', '', queen.now() - interval '1 day', 'queen', queen.now());
  end if;
  if v_queue.id is null then
    return true;
  end if;
  perform queen.apply_queue(v_queue, p_definition -> 'queue');
  for v_group in
    insert into queen.groups (id, queue_id, name, start_mode, start_at, created_at, filled_to, fill_end)
      overriding system value
    select
      n.id, v_id, n.name, n.start_mode, n.start_at, n.created_at, 0,
      coalesce((select p.id from queen.partitions p where p.queue_id = v_id order by p.id desc limit 1), 0)
    from jsonb_populate_recordset(null::queen.groups, p_definition -> 'groups') n
    where exists (select 1 from queen.queues q where q.id = v_id and q.deleted_at is null)
      and not exists (select 1 from queen.groups g where g.id = n.id)
    returning id
  loop
    perform queen.fill(v_group, 1000);
    delete from queen.sweeps w where w.queue_id = v_id and w.kind = 'eviction';
  end loop;
  return true;
end
$$;

-- Create a spread queue with the id of the first database, or give it the same options.
create or replace function queen.apply_queue (p_queue queen.queues, p_values jsonb)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_queue queen.queues := p_queue;
begin
  insert into queen.homes (name, slot) values (p_queue.name, null) on conflict do nothing;
  v_queue.levels := array[0];
  v_queue.in_order := p_queue.ordered;
  v_queue.order_changed_at := null;
  v_queue.shortened_at := null;
  v_queue.old_dedup_untils := null;
  insert into queen.queues overriding system value select v_queue.* on conflict do nothing;
  if not found and exists (select 1 from queen.queues q where q.id = p_queue.id and q.deleted_at is null) then
    -- It changes what depends on messages in this database, too.
    perform queen.configure(
      p_queue.name, p_queue.namespace, p_queue.task,
      (select jsonb_object_agg(k, p_values -> k) from jsonb_object_keys(queen.default_options()) k), false, null, null
    );
    update queen.queues q set version = p_queue.version where q.id = p_queue.id;
  end if;
end
$$;
