-- The archive with this name. Creates it from the start of the queue's log if it does not exist.
--
-- An archive without a batch in the lake moves to the given format and location, so that a wrong location can be corrected. Its
-- planned batch is dropped: a process that still writes to the former lake can't record that batch. An archive that has batches
-- stays in its lake, and any archive may belong to another queue: the caller checks. Raises QN001, QN018.
-- Locks: the slot, the archive.
create or replace function queen.open_archive (p_name text, p_queue text, p_format text, p_location text)
  returns table (queue_id bigint, archive_queue_id bigint, format text, location text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_queue_id bigint := (queen.whole_queue_named(p_queue)).id;
begin
  perform queen.enter_queue(v_queue_id);
  insert into queen.archives (name, queue_id, format, location, created_at, since_xid)
  values (p_name, v_queue_id, p_format, p_location, queen.now(), pg_current_xact_id())
  on conflict (name) do nothing;
  if not found then
    update queen.archives a
    set format = p_format, location = p_location
    where a.name = p_name and a.queue_id = v_queue_id and a.batch = 0 and (a.format, a.location) <> (p_format, p_location);
    if found then
      delete from queen.archive_batches b where b.archive = p_name;
    end if;
  end if;
  return query
  select v_queue_id, a.queue_id, a.format, a.location from queen.archives a where a.name = p_name;
end
$$;

-- Delete an archive and its hold. The lake keeps its data. Returns false if there was none. Locks: the archive.
create or replace function queen.drop_archive (p_name text)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint;
begin
  delete from queen.archives a where a.name = p_name returning a.queue_id into v_queue_id;
  if not found then
    return false;
  end if;
  delete from queen.archive_batches b where b.archive = p_name;
  delete from queen.holds h where h.queue_id = v_queue_id and h.name = 'archive:' || p_name;
  return true;
end
$$;
