-- The end of a batch that starts at a position: after the last segment before p_end, or where more would exceed
-- p_max_messages messages or p_max_bytes bytes of payloads. No row if there is nothing.
--
-- A batch contains at least one segment. It ends inside a transaction only if a single transaction exceeds the limits, and
-- never with p_is_whole. It ends at a segment, not at p_end: after a crash PostgreSQL reuses the numbers of transactions that
-- left no trace on disk (aborted, or committed asynchronously), and a reader after them would miss messages stored under them.
create or replace function queen.plan_batch (
  p_queue_id     bigint,
  p_xid          xid8,
  p_partition_id bigint,
  p_offset       bigint,
  p_end          xid8,
  p_max_messages bigint default null,
  p_max_bytes    bigint default null,
  p_is_whole     boolean default false
)
  returns table (xid xid8, partition_id bigint, end_offset bigint, stored_at timestamptz, is_split boolean)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_row      record;
  -- The last segment of the batch, and the last one of its last complete transaction.
  v_last     record;
  v_whole    record;
  v_is_over  boolean;
  v_is_split boolean := false;
  v_messages bigint := 0;
  v_bytes    bigint := 0;
begin
  if p_max_messages is null and p_max_bytes is null then
    return query
    select s.xid, s.partition_id, s.base_offset + s.message_count, s.created_at, false
    from queen.segments s
    where s.queue_id = p_queue_id and s.xid >= p_xid and s.xid < p_end and s.body is not null
      and (s.xid, s.partition_id, s.base_offset) >= (p_xid, p_partition_id, p_offset)
    order by s.xid desc, s.partition_id desc, s.base_offset desc
    limit 1;
    return;
  end if;
  select null::xid8 as xid into v_last;
  v_whole := v_last;
  for v_row in
    select
      s.xid, s.partition_id, s.base_offset + s.message_count as end_offset, s.created_at as stored_at, s.message_count,
      octet_length(s.body) as bytes
    from queen.segments s
    where s.queue_id = p_queue_id and s.xid >= p_xid and s.xid < p_end and s.body is not null
      and (s.xid, s.partition_id, s.base_offset) >= (p_xid, p_partition_id, p_offset)
    order by s.xid, s.partition_id, s.base_offset
  loop
    v_is_over := v_messages > 0
      and (v_messages + v_row.message_count > p_max_messages or v_bytes + v_row.bytes > p_max_bytes);
    if v_row.xid <> v_last.xid then
      exit when v_is_over;
      v_whole := v_last;
    elsif v_is_over and v_whole.xid is not null then
      v_last := v_whole;
      exit;
    elsif v_is_over and not p_is_whole then
      v_is_split := true;
      exit;
    end if;
    v_last := v_row;
    v_messages := v_messages + v_row.message_count;
    v_bytes := v_bytes + v_row.bytes;
  end loop;
  if v_messages > 0 then
    return query select v_last.xid, v_last.partition_id, v_last.end_offset, v_last.stored_at, v_is_split;
  end if;
end
$$;

-- Split the range between two positions into at most p_tasks parts of about the same size, with at least p_least messages
-- each. Returns where each part starts. A transaction is split only if it is larger than a part.
create or replace function queen.split_batch (
  p_queue_id         bigint,
  p_xid              xid8,
  p_partition_id     bigint,
  p_offset           bigint,
  p_end              xid8,
  p_end_partition_id bigint,
  p_end_offset       bigint,
  p_tasks            integer,
  p_least            bigint
)
  returns table (xid xid8, partition_id bigint, base_offset bigint)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  return query
  with by_xid as (
    select s.xid, sum(s.message_count) as messages, sum(octet_length(s.body) + 64 * s.message_count) as bytes
    from queen.segments s
    where s.queue_id = p_queue_id and s.xid >= p_xid and s.xid <= p_end and s.body is not null
      and (s.xid, s.partition_id, s.base_offset) >= (p_xid, p_partition_id, p_offset)
      and (s.xid, s.partition_id, s.base_offset) < (p_end, p_end_partition_id, p_end_offset)
    group by s.xid
  ),
  part as (
    select ceil(sum(x.bytes) / greatest(least(p_tasks, div(sum(x.messages), p_least)), 1)) as bytes from by_xid x
  ),
  summed as (
    select x.xid, x.bytes, sum(x.bytes) over (order by x.xid) - x.bytes as before from by_xid x
  ),
  placed as (
    select u.xid, 0::bigint as partition_id, 0::bigint as base_offset, u.before
    from summed u
    cross join part t
    where u.bytes <= t.bytes
    union all
    select
      s.xid, s.partition_id, s.base_offset,
      u.before - s.bytes + sum(s.bytes) over (partition by s.xid order by s.partition_id, s.base_offset)
    from summed u
    cross join part t
    cross join lateral (
      select s.xid, s.partition_id, s.base_offset, octet_length(s.body) + 64 * s.message_count as bytes
      from queen.segments s
      where s.queue_id = p_queue_id and s.xid = u.xid and s.body is not null
        and (s.xid, s.partition_id, s.base_offset) >= (p_xid, p_partition_id, p_offset)
        and (s.xid, s.partition_id, s.base_offset) < (p_end, p_end_partition_id, p_end_offset)
    ) s
    where u.bytes > t.bytes
  )
  select distinct on (m.task) m.xid, m.partition_id, m.base_offset
  from (select d.xid, d.partition_id, d.base_offset, div(d.before, t.bytes) as task from placed d cross join part t) m
  order by m.task, m.xid, m.partition_id, m.base_offset;
end
$$;

-- The first transaction of a queue from which on all messages were stored at p_at or later, by binary search.
--
-- Numbers and times of transactions agree except for the duration of a transaction. The caller asks for one hour earlier
-- and checks the times of the messages that it reads.
create or replace function queen.xid_at (p_queue_id bigint, p_at timestamptz, p_is_start boolean default true)
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
  -- Recalled messages of all times have the number 0. A range that ends at p_at contains it too.
  if p_is_start and exists (
    select 1 from queen.segments s
    where s.queue_id = p_queue_id and s.xid = '0' and s.body is not null and s.created_at >= p_at
  ) then
    return 0;
  end if;
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
  return case when p_is_start then v_low else greatest(v_low, 1) end;
end
$$;
