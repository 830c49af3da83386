-- Databases join: the new one releases its slots, then gets empty ones of the first. Each step can be repeated.

-- The sequences of ids without a slot, which are unique in all databases, and the last value of each.
create or replace function queen.shared_sequences ()
  returns table (name regclass, last_value bigint)
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select 'queen.data_key_ids'::regclass, s.last_value from queen.data_key_ids s
  union all
  select 'queen.dead_letters_id_seq'::regclass, s.last_value from queen.dead_letters_id_seq s
  union all
  select 'queen.groups_id_seq'::regclass, s.last_value from queen.groups_id_seq s
  union all
  select 'queen.operations_id_seq'::regclass, s.last_value from queen.operations_id_seq s
  union all
  select 'queen.outbox_id_seq'::regclass, s.last_value from queen.outbox_id_seq s
  union all
  select 'queen.queues_id_seq'::regclass, s.last_value from queen.queues_id_seq s
  union all
  select 'queen.scheduled_id_seq'::regclass, s.last_value from queen.scheduled_id_seq s
  union all
  select 'queen.traces_id_seq'::regclass, s.last_value from queen.traces_id_seq s
  union all
  select 'queen.workflows_number_seq'::regclass, s.last_value from queen.workflows_number_seq s
$$;

-- Join this database with others. Ids without a slot are unique in all of them from now on.
--
-- p_number: 0 for the first database, which keeps its queues and slots. Another one must have no queues, and releases its
-- slots. p_first: the name of the first database. p_values: the last values of its shared sequences by name, or null in the
-- first.
-- Raises QN024 if the database cannot join.
create or replace function queen.join_databases (p_number smallint, p_name text, p_first text, p_values jsonb)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_here queen.databases;
begin
  -- Queues are created before, and have a home then, or find the row of this database.
  lock table queen.queues in share row exclusive mode;
  select d.* into v_here from queen.databases d where d.is_here;
  if v_here.name <> p_name or v_here.number <> p_number then
    raise exception 'this is database % with number %, not % with number %', v_here.name, v_here.number, p_name, p_number
      using errcode = 'QN024';
  end if;
  if v_here.name = p_name then
    return;
  end if;
  if p_number <> 0 and exists (select 1 from queen.queues) then
    raise exception 'it has queues already' using errcode = 'QN024';
  end if;
  if exists (select 1 from queen.queues q where q.slot is null and q.deleted_at is null and q.max_size > 0) then
    raise exception 'a queue with placement spread has maxSize' using errcode = 'QN024';
  end if;
  if exists (
    select 1
    from queen.queues q
    where q.slot is null and q.deleted_at is null and (
      exists (select 1 from queen.schedules s where s.queue = q.name)
      or exists (select 1 from queen.archives a where a.queue_id = q.id)
      or exists (select 1 from queen.holds h where h.queue_id = q.id)
    )
  ) then
    raise exception 'a queue with placement spread has schedules, archives or holds' using errcode = 'QN024';
  end if;
  insert into queen.databases (number, name, is_here) values (p_number, p_name, true);
  if p_number = 0 then
    insert into queen.definitions (queue_id, revision)
    select q.id, 1 from queen.queues q where q.slot is null
    on conflict do nothing;
    insert into queen.homes (name, slot)
    select distinct on (q.name) q.name, q.slot
    from queen.queues q
    order by q.name, q.deleted_at desc
    on conflict do nothing;
  else
    update queen.slots s set state = 'gone', moved_to = p_first where s.state = 'owned';
  end if;
  -- All servers can use every slot now.
  update queen.slots s set is_open = true where s.slot between 1 and 959 and not s.is_open;
  -- Each database takes the values with its number as the remainder, above all that the first one used before.
  alter sequence queen.data_key_ids increment by 1024;
  alter sequence queen.dead_letters_id_seq increment by 1024;
  alter sequence queen.groups_id_seq increment by 1024;
  alter sequence queen.operations_id_seq increment by 1024;
  alter sequence queen.outbox_id_seq increment by 1024;
  alter sequence queen.queues_id_seq increment by 1024;
  alter sequence queen.scheduled_id_seq increment by 1024;
  alter sequence queen.traces_id_seq increment by 1024;
  alter sequence queen.workflows_number_seq increment by 1024;
  perform setval(
    s.name, (greatest(s.last_value, (p_values ->> s.name::text)::bigint) / 1024 + 1) * 1024 + p_number, false
  )
  from queen.shared_sequences() s;
end
$$;

-- Remove a database from the list of the first one, because it could not join.
create or replace function queen.unlist_database (p_name text)
  returns void
  language sql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
  delete from queen.databases d where d.name = p_name and not d.is_here
$$;

-- List another database in the first one. Returns its number, which is never used again. Raises QN024 if it was removed.
create or replace function queen.list_database (p_name text)
  returns smallint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_row queen.databases;
begin
  lock table queen.databases in share row exclusive mode;
  insert into queen.databases (number, name, is_here)
  select coalesce(max(d.number), 0) + 1, p_name, false
  from queen.databases d
  on conflict (name) do nothing;
  select d.* into v_row from queen.databases d where d.name = p_name;
  if v_row.removed_at is not null then
    raise exception 'database % was removed', p_name using errcode = 'QN024';
  end if;
  return v_row.number;
end
$$;

-- Remove another database from those of the first one, or list it again because it is still in use. Returns false if it is
-- not listed.
create or replace function queen.remove_database (p_name text, p_is_removed boolean)
  returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  update queen.databases d
  set removed_at = case when p_is_removed then queen.now() end
  where d.name = p_name and not d.is_here and (d.removed_at is null) = p_is_removed;
  return found;
end
$$;

-- Begin to give slots without queues to another database: calls are rejected from now on. Returns those that are leaving.
--
-- Locks: the slots, exclusive.
create or replace function queen.leave_slots (p_slots smallint[], p_to text)
  returns setof smallint
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_class constant integer := hashtext('queen.slot');
  c_all   constant integer := 1024;
  v_slots smallint[];
begin
  -- Without a lock at first, because a lock of a slot in use makes its calls wait.
  select array_agg(s.slot) into v_slots
  from queen.slots s
  where s.slot = any (p_slots) and s.state = 'owned' and s.copied_to is null
    and queen.is_empty_slot(s.slot);
  -- A slot that is locked makes later calls wait.
  perform set_config('lock_timeout', '2s', true);
  perform pg_advisory_xact_lock(c_class, n.slot)
  from (select s as slot from unnest(v_slots || c_all::smallint) s order by s) n
  where v_slots is not null;
  update queen.slots s
  set state = 'leaving', moved_to = p_to
  where s.slot = any (v_slots) and s.state = 'owned' and s.copied_to is null
    and queen.is_empty_slot(s.slot);
  return query select s.slot from queen.slots s where s.state = 'leaving' and s.moved_to = p_to and s.copied_to is null;
end
$$;

-- Whether a slot has no queues, no names of queues, and no partitions of spread queues.
create or replace function queen.is_empty_slot (p_slot smallint)
  returns boolean
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select not exists (select 1 from queen.queues q where q.slot = p_slot)
    and not exists (select 1 from queen.homes h where h.slot = p_slot)
    and not exists (
      select 1 from queen.partitions p where p.id between p_slot::bigint << 53 and p_slot::bigint << 53 | 9007199254740991
    )
$$;

-- Own slots that are leaving another database, at the epoch after theirs.
create or replace function queen.own_slots (p_slots smallint[], p_epochs bigint[])
  returns void
  language sql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  update queen.slots s
  set state = 'owned', moved_to = null, epoch = n.epoch + 1
  from unnest(p_slots, p_epochs) n (slot, epoch)
  where s.slot = n.slot and s.state <> 'owned' and s.epoch <= n.epoch
$$;

-- Slots that were given are gone, because their new owner has them. Those that another process gives meanwhile are still leaving:
-- if it dies, no database would own them.
create or replace function queen.close_given_slots (p_slots smallint[], p_epochs bigint[], p_to text)
  returns void
  language sql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  update queen.slots s set state = 'gone', epoch = s.epoch + 1
  from unnest(p_slots, p_epochs) n (slot, epoch)
  where s.slot = n.slot and s.epoch = n.epoch and s.state = 'leaving' and s.moved_to = p_to and s.copied_to is null
$$;
