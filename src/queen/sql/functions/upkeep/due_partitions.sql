-- Partitions of a queue with segments that became older than p_cut since the last call, in the order of transactions, and
-- partitions whose retry is due.
--
-- Each segment is visited once. The sweep stops at the first segment that is too young. Transactions overlap, so an older
-- segment behind it is visited together with it. The sweep never passes p_before or a transaction that may be open.
-- A partition may be returned twice. The caller processes all of them, or passes the rest to queen.look_again.
-- Locks: the sweep.
create or replace function queen.due_partitions (
  p_queue_id bigint,
  p_kind     text,
  p_cut      timestamptz,
  p_before   xid8,
  p_limit    integer,
  p_now      timestamptz,
  out partition_ids bigint[],
  out is_over       boolean,
  out lag_seconds   double precision
)
  language plpgsql
  volatile
  -- By index and in parts: a full sort would read all remaining segments of a queue.
  set enable_sort = off
as $$
declare
  v_xid    xid8 := '0';
  v_id     bigint := 0;
  v_before xid8 := least(p_before, pg_snapshot_xmin(pg_current_snapshot()));
  v_row    record;
  v_count  integer := 0;
  v_late   bigint[];
begin
  insert into queen.sweeps (queue_id, kind, xid, partition_id)
  select p_queue_id, p_kind, '0', 0
  where not exists (select 1 from queen.sweeps w where w.queue_id = p_queue_id and w.kind = p_kind)
  on conflict do nothing;
  select w.xid, w.partition_id into v_xid, v_id
  from queen.sweeps w
  where w.queue_id = p_queue_id and w.kind = p_kind
  for no key update;
  partition_ids := '{}';
  is_over := true;
  lag_seconds := 0;
  for v_row in
    select s.xid, s.partition_id, s.created_at
    from queen.segments s
    where s.queue_id = p_queue_id
      and s.xid >= v_xid
      and s.xid < v_before
      and s.body is not null
      and (s.xid > v_xid or s.partition_id > v_id)
    order by s.xid, s.partition_id
    limit p_limit
  loop
    exit when v_row.created_at >= p_cut;
    v_count := v_count + 1;
    partition_ids := partition_ids || v_row.partition_id;
    lag_seconds := greatest(lag_seconds, extract(epoch from p_cut - v_row.created_at));
    v_xid := v_row.xid;
    v_id := v_row.partition_id;
  end loop;
  if v_count > 0 then
    update queen.sweeps w
    set xid = v_xid, partition_id = v_id
    where w.queue_id = p_queue_id and w.kind = p_kind;
  end if;
  v_late := array(
    select l.partition_id
    from queen.laggards l
    where l.queue_id = p_queue_id and l.kind = p_kind and l.look_at <= p_now
    order by l.look_at
    limit p_limit
  );
  if v_count < p_limit then
    lag_seconds := 0;
  end if;
  is_over := v_count < p_limit and cardinality(v_late) < p_limit;
  partition_ids := partition_ids || v_late;
end
$$;

-- Record which of the due partitions must be visited again: p_locked, which were locked, and p_lagging, where messages
-- could not be removed yet. The others are finished. Locks: laggards.
create or replace function queen.look_again (
  p_queue_id bigint,
  p_kind     text,
  p_ids      bigint[],
  p_locked   bigint[],
  p_lagging  bigint[],
  p_again    double precision,
  p_now      timestamptz
)
  returns void
  language plpgsql
  volatile
as $$
begin
  delete from queen.laggards l
  using unnest(p_ids) u (id)
  where l.partition_id = u.id and l.kind = p_kind and u.id <> all (p_locked) and u.id <> all (p_lagging);
  insert into queen.laggards as l (queue_id, kind, partition_id, look_at)
  select p_queue_id, p_kind, u.id, p_now + interval '1 second'
  from (select u.id from unnest(p_locked) u (id) order by u.id) u
  on conflict (partition_id, kind) do update set look_at = excluded.look_at;
  insert into queen.laggards as l (queue_id, kind, partition_id, look_at)
  select p_queue_id, p_kind, u.id, p_now + make_interval(secs => p_again)
  from (select u.id from unnest(p_lagging) u (id) order by u.id) u
  on conflict (partition_id, kind) do update
  set
    -- Later each time, so that a backlog without consumers is not scanned too often.
    look_at = p_now + make_interval(secs => p_again * 2 ^ least(l.looks + 1, 5)),
    looks = l.looks + 1;
end
$$;
