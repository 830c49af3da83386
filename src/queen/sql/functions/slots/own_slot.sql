-- A slot arrives in this database.

-- Begin to receive a slot, or continue for another process: the former one cannot change the copy any more.
--
-- p_source: the former owner and the servers of both databases. With another one, the copy begins again.
-- Locks: the arrival, so a running transaction of the former process ends before. Raises QN018 if this database owns the slot.
create or replace function queen.receive_slot (p_slot smallint, p_source text, p_copier uuid)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  insert into queen.arrivals as a (slot, source, copier)
  values (p_slot, p_source, p_copier)
  on conflict (slot) do update
  set
    source = p_source, copier = p_copier,
    copied = case when a.source = p_source then a.copied else -1 end,
    since = case when a.source = p_source then a.since else 0 end;
  if exists (select 1 from queen.slots s where s.slot = p_slot and s.state <> 'gone') then
    raise exception 'slot % is in this database', p_slot using errcode = 'QN018';
  end if;
end
$$;

-- The ids that this database creates from now on are above these.
--
-- Locks: both sequences, because a value that another session takes meanwhile must not be taken again. An exclusive lock needs
-- a change, so the function sets what is set already.
create or replace function queen.pass_ids (p_partition_id bigint, p_delivery_id bigint)
  returns void
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform set_config('lock_timeout', '300ms', true);
  if p_partition_id >= (select s.last_value from queen.partitions_id_seq s) then
    alter sequence queen.partitions_id_seq cache 1;
    perform setval('queen.partitions_id_seq', greatest(p_partition_id, s.last_value)) from queen.partitions_id_seq s;
  end if;
  if p_delivery_id >= (select s.last_value from queen.delivery_ids s) then
    alter sequence queen.delivery_ids cache 1;
    perform setval('queen.delivery_ids', greatest(p_delivery_id, s.last_value)) from queen.delivery_ids s;
  end if;
end
$$;

-- Record a move in the transaction that makes this database the owner. p_fence: a number above those of all transactions of
-- the source that used the slot.
create or replace function queen.record_move (p_slot smallint, p_epoch bigint, p_source integer, p_fence xid8)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  insert into queen.moves (slot, epoch, source, target, fence, first, moved_at)
  values (p_slot, p_epoch, p_source, queen.birthplace(), p_fence, pg_snapshot_xmin(pg_current_snapshot()), queen.now())
  on conflict (slot, epoch) do nothing;
end
$$;

-- Own a slot whose rows are all here. Raises QN018 if another process copies it now.
--
-- A server of an earlier release does not record the move, so readers could return messages twice: it can't end a move.
-- Locks: the arrival; partitions by id; limits by group.
create or replace function queen.own_slot (p_slot smallint, p_copier uuid, p_epoch bigint)
  returns void
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  delete from queen.arrivals a where a.slot = p_slot and a.copier = p_copier;
  if not found then
    raise exception 'another process moves slot %', p_slot using errcode = 'QN018';
  end if;
  if not exists (select 1 from queen.moves m where m.slot = p_slot and m.epoch = p_epoch) then
    raise exception 'this process has not recorded the move of slot %', p_slot using errcode = 'QN018';
  end if;
  update queen.slots s
  set state = 'owned', moved_to = null, epoch = p_epoch, copied_to = null, copier = null
  where s.slot = p_slot and s.state = 'gone' and s.epoch < p_epoch;
  if not found then
    raise exception 'slot % has a newer owner', p_slot using errcode = 'QN018';
  end if;
  perform queen.adopt_partitions(p_slot);
  perform queen.receive_leases(p_slot);
  perform queen.wake_slot(p_slot);
end
$$;

-- Record the owner of a slot in the first database, which lists all of them.
create or replace function queen.record_owner (p_slot smallint, p_owner text, p_epoch bigint)
  returns void
  language sql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  update queen.slots s set moved_to = p_owner, epoch = p_epoch where s.slot = p_slot and s.state = 'gone' and s.epoch < p_epoch
$$;
