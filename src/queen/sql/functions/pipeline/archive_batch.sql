-- The next batch of an archive. Plans it up to p_end if there is none. No transaction before p_end may be open.
--
-- Returns the current plan of any process. No row if the archive or its queue does not exist, or if no batch is
-- planned and p_end is not after the archived position. Restores the hold on the log if it was dropped. The hold of a first
-- batch expires after an hour: if that batch never reaches the lake, retention continues.
-- Locks: the archive, the slot, the task.
create or replace function queen.plan_archive (p_name text, p_end xid8)
  returns table (batch bigint, token bigint, start_xid bigint, end_xid bigint)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  c_first constant interval := '1 hour';
  v_archive queen.archives;
  v_queue   text;
begin
  select a.* into v_archive from queen.archives a where a.name = p_name for no key update;
  select q.name into v_queue from queen.queues q where q.id = v_archive.queue_id and q.deleted_at is null;
  if v_queue is null then
    return;
  end if;
  if p_end > v_archive.xid and p_end <= pg_snapshot_xmin(pg_current_snapshot()) then
    insert into queen.archive_batches (archive, batch, token, start_xid, end_xid, planned_at)
    values (
      p_name, v_archive.batch + 1,
      ('x' || left(replace(gen_random_uuid()::text, '-', ''), 15))::bit(60)::bigint,
      v_archive.xid, p_end, queen.now()
    )
    on conflict (archive, batch) do nothing;
  end if;
  if exists (select 1 from queen.archive_batches b where b.archive = p_name and b.batch = v_archive.batch + 1)
    and not exists (
      select 1 from queen.holds h
      where h.queue_id = v_archive.queue_id and h.name = 'archive:' || p_name and h.xid <= v_archive.xid and h.expires_at is null
    )
  then
    perform queen.hold(v_queue, 'archive:' || p_name, v_archive.xid);
    if v_archive.batch = 0 then
      update queen.holds h
      set expires_at = queen.now() + c_first
      where h.queue_id = v_archive.queue_id and h.name = 'archive:' || p_name;
    end if;
  end if;
  return query
  select b.batch, b.token, b.start_xid::text::bigint, b.end_xid::text::bigint
  from queen.archive_batches b
  where b.archive = p_name and b.batch = v_archive.batch + 1;
end
$$;

-- Record that the lake has a batch. The position of the archive and its hold move to the end of the batch.
--
-- p_missed: how many messages were removed before the batch could read them. p_gaps: some of the removed ranges, as JSON.
-- p_misfits: how many of its messages don't fit the schema of the queue.
-- Returns false if that was recorded before, or if the batch was planned again since. Keeps the last 1,000 batches.
-- Locks: the archive, the slot, the task.
create or replace function queen.archive_batch (
  p_name     text,
  p_batch    bigint,
  p_token    bigint,
  p_files    bigint,
  p_messages bigint,
  p_bytes    bigint,
  p_missed   bigint default 0,
  p_gaps     text default null,
  p_misfits  bigint default 0
)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  c_kept constant bigint := 1000;
  v_archive queen.archives;
  v_queue   text;
  v_end     xid8;
begin
  select a.* into v_archive from queen.archives a where a.name = p_name for no key update;
  if v_archive.batch is distinct from p_batch - 1 then
    return false;
  end if;
  update queen.archive_batches b
  set
    state = 'archived', archived_at = queen.now(),
    files = p_files, messages = p_messages, bytes = p_bytes, missed_messages = p_missed, missed = p_gaps::jsonb,
    misfit_messages = p_misfits
  where b.archive = p_name and b.batch = p_batch and b.token = p_token
  returning b.end_xid into v_end;
  if not found then
    return false;
  end if;
  update queen.archives a
  set
    xid = v_end, batch = p_batch,
    missed_messages = a.missed_messages + p_missed, misfit_messages = a.misfit_messages + p_misfits
  where a.name = p_name;
  select q.name into v_queue from queen.queues q where q.id = v_archive.queue_id and q.deleted_at is null;
  if found then
    perform queen.hold(v_queue, 'archive:' || p_name, v_end);
  end if;
  delete from queen.archive_batches b where b.archive = p_name and b.batch <= p_batch - c_kept;
  return true;
end
$$;
