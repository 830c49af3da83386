-- Move segments that a recall has read from a lake to the start of these partitions.
--
-- p_starts: where the log of each started when the lake was read. p_counts: how many messages were read.
-- Messages that the lake does not have become expired ones without payloads, so that the log has no gap. Groups before the
-- recalled messages move behind them first, so only a seek delivers them. Recalled segments have the transaction number 0:
-- streams that are running don't read them again. Retention visits these partitions again.
-- Returns how many messages were moved. Stops with is_changed at a partition in which messages were erased, removed, or in part
-- returned to the log since then, or if a crash has emptied the table of segments.
-- It runs with the rights of its owner, because pipelines must not move groups or delete segments.
-- Locks: the slot, partitions by id, consumers, laggards.
create or replace function queen.recall (
  p_recall_id     uuid,
  p_queue_id      bigint,
  p_partition_ids bigint[],
  p_starts        bigint[],
  p_counts        bigint[],
  out messages    bigint,
  out is_changed  boolean
)
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_part  record;
  v_moved bigint;
begin
  perform queen.enter(p_partition_ids);
  -- The process reports the messages as recalled when this is committed.
  if current_setting('synchronous_commit') in ('off', 'local') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  messages := 0;
  is_changed := false;
  -- All at once, before anything else is locked.
  perform 1
  from (
    select p.id
    from queen.partitions p
    where p.id = any (p_partition_ids) and p.queue_id = p_queue_id
    order by p.id
    for no key update
  ) l;
  for v_part in
    select p.id, u.start_offset, u.messages
    from unnest(p_partition_ids, p_starts, p_counts) u (id, start_offset, messages)
    join queen.partitions p on p.id = u.id and p.queue_id = p_queue_id
    order by p.id
  loop
    v_moved := queen.recall_partition(p_recall_id, p_queue_id, v_part.id, v_part.start_offset, v_part.messages);
    is_changed := v_moved is null;
    exit when is_changed;
    messages := messages + v_moved;
  end loop;
  insert into queen.laggards (queue_id, kind, partition_id, look_at)
  select p_queue_id, k.kind, p.id, queen.now()
  from queen.partitions p
  cross join unnest(array['age', 'completed']) k (kind)
  where p.id = any (p_partition_ids) and p.queue_id = p_queue_id
  order by p.id, k.kind
  on conflict on constraint laggards_pkey do update set look_at = excluded.look_at, looks = 0;
end
$$;

-- The same for one partition. Returns how many messages were moved, or null if it has changed. The caller has locked the
-- partition.
create or replace function queen.recall_partition (
  p_recall_id uuid, p_queue_id bigint, p_partition_id bigint, p_start bigint, p_count bigint
)
  returns bigint
  language plpgsql
  volatile
as $$
declare
  c_most     constant integer := 10000;
  v_start    bigint;
  v_messages bigint;
begin
  v_start := queen.log_start(p_partition_id);
  if v_start > p_start or p_count <> (
    select coalesce(sum(r.message_count), 0)
    from queen.recalled r
    where r.recall_id = p_recall_id and r.partition_id = p_partition_id
  ) then
    return null;
  end if;
  -- Another recall has moved these.
  delete from queen.recalled r
  where r.recall_id = p_recall_id and r.partition_id = p_partition_id and r.base_offset >= coalesce(v_start, 0);
  if not exists (select 1 from queen.recalled r where r.recall_id = p_recall_id and r.partition_id = p_partition_id) then
    return 0;
  end if;
  if exists (
    select 1
    from queen.recalled r
    where r.recall_id = p_recall_id and r.partition_id = p_partition_id and r.base_offset + r.message_count > v_start
  ) or exists (
    select 1
    from queen.redactions e
    where e.partition_id = p_partition_id
      and exists (
        select 1
        from queen.recalled r
        where r.recall_id = p_recall_id and r.partition_id = p_partition_id
          and e."offset" between r.base_offset and r.base_offset + r.message_count - 1
      )
  ) then
    return null;
  end if;
  perform 1
  from (
    select c.group_id
    from queen.consumers c
    where c.partition_id = p_partition_id and c.claimed < v_start
    order by c.group_id
    for no key update
  ) l;
  perform queen.move_up(p_partition_id, v_start);
  insert into queen.rewrites (partition_id)
  select p_partition_id from queen.slots s where s.slot = p_partition_id >> 53 and s.copied_to is not null;
  delete from queen.segments s
  where s.partition_id = p_partition_id and s.base_offset < v_start and s.body is null;
  with moved as (
    insert into queen.segments (
      partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends, extras
    )
    select p_partition_id, r.base_offset, r.message_count, r.created_at, p_queue_id, '0', r.body, r.ends, r.extras
    from queen.recalled r
    where r.recall_id = p_recall_id and r.partition_id = p_partition_id
    returning message_count
  )
  select coalesce(sum(m.message_count), 0) into v_messages from moved m;
  insert into queen.segments (partition_id, base_offset, message_count, created_at, queue_id, xid, expires_at, body, ends)
  select
    p_partition_id, f.first_offset, f.message_count, g.created_at, p_queue_id, '0', '-infinity', '',
    decode(repeat('00000000', f.message_count + 1), 'hex')
  from (
    select
      r.created_at, r.base_offset + r.message_count as first_offset,
      lead(r.base_offset, 1, v_start) over (order by r.base_offset) as end_offset
    from queen.recalled r
    where r.recall_id = p_recall_id and r.partition_id = p_partition_id
  ) g
  cross join lateral (
    select f.first_offset, least(c_most, g.end_offset - f.first_offset)::integer as message_count
    from generate_series(g.first_offset, g.end_offset - 1, c_most) f (first_offset)
  ) f;
  delete from queen.recalled r where r.recall_id = p_recall_id and r.partition_id = p_partition_id;
  return v_messages;
end
$$;

-- The first offset that the log of a partition has. Without messages: the next offset, or null before the first push.
create or replace function queen.log_start (p_partition_id bigint)
  returns bigint
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  -- Retention leaves the row of the newest segment without a body.
  return coalesce(
    (
      select s.base_offset
      from queen.segments s
      where s.partition_id = p_partition_id and s.body is not null
      order by s.base_offset
      limit 1
    ),
    (
      select s.base_offset + s.message_count
      from queen.segments s
      where s.partition_id = p_partition_id
      order by s.base_offset desc
      limit 1
    )
  );
end
$$;

-- Keep recalled messages of a queue, and all later ones, regardless of retention for at least p_seconds. Raises QN001, QN018.
-- Locks: as queen.hold.
create or replace function queen.hold_recalled (p_queue text, p_name text, p_seconds double precision)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue_id bigint := (queen.queue_named(p_queue)).id;
  v_until    timestamptz := queen.now() + make_interval(secs => p_seconds);
begin
  perform queen.enter_queue(v_queue_id);
  perform 1 from queen.duties d where d.name = 'retention' for no key update;
  select greatest(v_until, h.expires_at) into v_until
  from (select) n
  left join queen.holds h on h.queue_id = v_queue_id and h.name = p_name;
  perform queen.hold(p_queue, p_name, '0');
  update queen.holds h set expires_at = v_until where h.queue_id = v_queue_id and h.name = p_name;
end
$$;

-- Delete segments that were read from a lake p_seconds ago or earlier and never moved, at most p_limit. Returns how many.
create or replace function queen.forget_recalled (p_seconds double precision, p_limit integer)
  returns integer
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  delete from queen.recalled r
  where r.ctid = any (array(
    select o.ctid from queen.recalled o
    where o.read_at < queen.now() - make_interval(secs => p_seconds)
    order by o.read_at
    limit p_limit
  ));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
