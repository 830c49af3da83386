-- The end of a batch by xid that starts at p_start: after the last segment before p_end, or where it reaches p_max_messages
-- messages or p_max_bytes bytes of payloads. Returns p_start if there is nothing.
--
-- A batch contains whole transactions, and at least one. It never ends at p_end itself: after a crash PostgreSQL reuses the
-- numbers of transactions that left no trace on disk (aborted, or committed asynchronously), and a reader positioned after
-- them would miss messages stored under them.
create or replace function queen.plan_batch (
  p_queue_id     bigint,
  p_start        xid8,
  p_end          xid8,
  p_max_messages bigint default null,
  p_max_bytes    bigint default null
)
  returns xid8
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_row      record;
  v_messages bigint := 0;
  v_bytes    bigint := 0;
  v_xid      xid8;
begin
  if p_max_messages is null and p_max_bytes is null then
    select s.xid into v_xid
    from queen.segments s
    where s.queue_id = p_queue_id and s.xid >= p_start and s.xid < p_end and s.body is not null
    order by s.xid desc
    limit 1;
    return coalesce((v_xid::text::bigint + 1)::text::xid8, p_start);
  end if;
  for v_row in
    select s.xid, s.message_count, octet_length(s.body) as bytes
    from queen.segments s
    where s.queue_id = p_queue_id and s.xid >= p_start and s.xid < p_end and s.body is not null
    order by s.xid
  loop
    if v_row.xid <> v_xid and (v_messages >= p_max_messages or v_bytes >= p_max_bytes) then
      return v_row.xid;
    end if;
    v_xid := v_row.xid;
    v_messages := v_messages + v_row.message_count;
    v_bytes := v_bytes + v_row.bytes;
  end loop;
  return coalesce((v_xid::text::bigint + 1)::text::xid8, p_start);
end
$$;

-- Split a batch into at most p_tasks ranges of transactions with about the same number of messages, at least p_least each.
create or replace function queen.split_batch (
  p_queue_id bigint, p_start xid8, p_end xid8, p_tasks integer, p_least bigint
)
  returns table (start_xid bigint, messages bigint)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  return query
  with by_xid as (
    select s.xid, sum(s.message_count) as messages
    from queen.segments s
    where s.queue_id = p_queue_id and s.xid >= p_start and s.xid < p_end and s.body is not null
    group by s.xid
  ),
  summed as (
    select x.xid, x.messages, sum(x.messages) over (order by x.xid) - x.messages as before, sum(x.messages) over () as total
    from by_xid x
  )
  select min(m.xid::text::bigint), sum(m.messages)::bigint
  from (
    select u.xid, u.messages, div(u.before, greatest(p_least, ceil(u.total / p_tasks))) as task from summed u
  ) m
  group by m.task
  order by m.task;
end
$$;

-- The first transaction of a queue from which on all messages were stored at p_at or later, by binary search.
--
-- Numbers and times of transactions agree except for the duration of a transaction. The caller asks for one hour earlier
-- and checks the times of the messages that it reads.
create or replace function queen.xid_at (p_queue_id bigint, p_at timestamptz)
  returns bigint
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
declare
  v_low  bigint := 0;
  v_high bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
  v_xid  bigint;
  v_at   timestamptz;
begin
  -- All segments before v_low are earlier than p_at, and none from v_high on.
  while v_low < v_high loop
    select s.xid::text::bigint, s.created_at into v_xid, v_at
    from queen.segments s
    where s.queue_id = p_queue_id
      and s.xid >= ((v_low + v_high) / 2)::text::xid8
      and s.xid < v_high::text::xid8
      and s.body is not null
    order by s.xid
    limit 1;
    if not found or v_at >= p_at then
      v_high := (v_low + v_high) / 2;
    else
      v_low := v_xid + 1;
    end if;
  end loop;
  return v_low;
end
$$;
