-- A slot is copied to another database while it is in use. Segments don't change, but some are removed: these are noted.

-- Begin to copy a slot. It can be repeated. From now on, partitions whose segments are removed or changed are noted.
--
-- Locks: the slot, exclusive, so that calls that don't note their changes end before. Raises QN018, QN025.
create or replace function queen.copy_slot (p_slot smallint, p_to text, p_copier uuid)
  returns void
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform queen.lock_slot(p_slot);
  perform queen.check_movable(p_slot);
  delete from queen.rewrites r where r.partition_id >> 53 = p_slot;
  update queen.slots s set copied_to = p_to, copier = p_copier where s.slot = p_slot and s.state = 'owned';
  if not found then
    raise exception 'slot % is in another database now', p_slot using errcode = 'QN018';
  end if;
end
$$;

-- Stop copying a slot to a database, because the move was cancelled. It can be repeated.
create or replace function queen.forget_copy (p_slot smallint, p_to text)
  returns void
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  update queen.slots s
  set copied_to = null, copier = null
  where s.slot = p_slot and s.state = 'owned' and s.copied_to = p_to;
  if found then
    delete from queen.rewrites r where r.partition_id >> 53 = p_slot;
  end if;
end
$$;

-- Lock a slot. Later calls wait, so the lock must be free soon. Raises 55P03 after 300 ms.
--
-- The other database relies on the change that follows, so a crash must not undo it.
create or replace function queen.lock_slot (p_slot smallint)
  returns void
  language plpgsql
  volatile
as $$
declare
  c_class constant integer := hashtext('queen.slot');
  c_all   constant integer := 1024;
begin
  if current_setting('synchronous_commit') in ('off', 'local') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  perform set_config('lock_timeout', '300ms', true);
  perform pg_advisory_xact_lock(c_class, p_slot);
  perform pg_advisory_xact_lock(c_class, c_all);
end
$$;

-- Raise QN025 if something uses the slot that works only in this database.
create or replace function queen.check_movable (p_slot smallint)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_reason text;
begin
  v_reason := (select h.reason from queen.hindrances(p_slot) h limit 1);
  if v_reason is not null then
    raise exception '%', v_reason using errcode = 'QN025';
  end if;
end
$$;

-- What must end before a slot can move.
create or replace function queen.hindrances (p_slot smallint)
  returns table (reason text)
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select format('archive %s reads queue %s', a.name, q.name)
  from queen.queues q
  join queen.archives a on a.queue_id = q.id
  where q.slot = p_slot
  union all
  select format('operation %s (%s) works on queue %s', o.id, o.kind, q.name)
  from queen.operations o
  join queen.queues q on q.name = o.queue and (q.slot = p_slot or q.id in (select queen.spread_in(p_slot)))
  where o.state = 'running'
$$;

-- Note partitions whose segments change while their slot is copied.
create or replace function queen.note_rewrites ()
  returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select 1 from queen.slots s where s.copied_to is not null) then
    insert into queen.rewrites (partition_id)
    select distinct o.partition_id
    from old_segments o
    join queen.slots s on s.slot = o.partition_id >> 53
    where s.copied_to is not null;
  end if;
  return null;
end
$$;

-- Whether a row was changed by a transaction from p_since on, as its 32 bits tell. With 0, all rows count. The function has no
-- settings, so that PostgreSQL inlines it.
create or replace function queen.is_newer (p_xmin xid, p_since bigint)
  returns boolean
  language sql
  stable
as $$
  select p_since = 0 or age(p_xmin) <= age((p_since & 4294967295)::text::xid)
$$;
