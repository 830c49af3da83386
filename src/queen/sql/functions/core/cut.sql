-- Helpers that remove segments from the start of a partition.

-- Remove segments that end at or before p_end from the start of a partition, at most p_most. Record it in queen.removals.
--
-- The row of the newest segment stays without a body, because the next offset is read from it. Null p_end removes nothing.
-- A record never spans the position of an archive or the end of its planned batch, so each batch can count the messages that
-- it has missed. The caller has locked the partition.
create or replace function queen.cut (
  p_partition_id bigint,
  p_queue_id     bigint,
  p_end          bigint,
  p_most         integer,
  p_reason       text,
  out messages   bigint,
  out segments   integer
)
  language plpgsql
  volatile
as $$
declare
  v_newest record;
  v_edges  xid8[];
begin
  v_edges := array(
    select a.xid from queen.archives a where a.queue_id = p_queue_id
    union
    select b.end_xid
    from queen.archives a
    cross join lateral (
      select b.end_xid from queen.archive_batches b where b.archive = a.name and b.batch = a.batch + 1 offset 0
    ) b
    where a.queue_id = p_queue_id
    order by 1
  );
  select s.base_offset, s.base_offset + s.message_count as next_offset into v_newest
  from queen.segments s
  where s.partition_id = p_partition_id
  order by s.base_offset desc
  limit 1;
  with gone as (
    delete from queen.segments s
    using (
      select s.ctid
      from queen.segments s
      where s.partition_id = p_partition_id
        and s.base_offset < least(p_end, v_newest.base_offset)
        and s.base_offset + s.message_count <= p_end
      order by s.base_offset
      limit p_most
    ) k
    where s.ctid = k.ctid
    returning s.base_offset, s.message_count, s.xid, s.born_in, s.born_xid, s.body is not null as had_body
  ),
  emptied as (
    update queen.segments s
    set body = null, ends = null, extras = null
    where s.partition_id = p_partition_id
      and s.base_offset = v_newest.base_offset
      and v_newest.next_offset <= p_end
      and s.body is not null
      -- Otherwise the limit was reached and more segments are before it.
      and (select count(*) from gone) < p_most
    returning s.base_offset, s.message_count, s.xid, s.born_in, s.born_xid, true as had_body
  ),
  removed as (
    select g.base_offset, g.message_count, g.xid, g.born_in, g.born_xid, g.had_body from gone g
    union all
    select e.base_offset, e.message_count, e.xid, e.born_in, e.born_xid, e.had_body from emptied e
  ),
  logged as (
    insert into queen.removals (queue_id, partition_id, first_offset, end_offset, reason, removed_at, xid, born_in, born_xid)
    select
      p_queue_id, p_partition_id, min(r.base_offset), max(r.base_offset + r.message_count), p_reason, queen.now(),
      -- The xid never falls as offsets rise.
      (array_agg(r.xid order by r.base_offset desc))[1],
      (array_agg(r.born_in order by r.base_offset desc))[1],
      (array_agg(r.born_xid order by r.base_offset desc))[1]
    from removed r
    where r.had_body
    group by width_bucket(r.xid, v_edges)
  )
  select coalesce(sum(r.message_count) filter (where r.had_body), 0), count(*) into messages, segments
  from removed r;
end
$$;

-- Move every group of a partition that is before p_end to p_end. Messages that it claimed stay claimed.
-- The caller has locked the partition and those consumers.
create or replace function queen.move_up (p_partition_id bigint, p_end bigint)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_now timestamptz := queen.now();
begin
  update queen.consumers c
  set
    version = c.version + 1,
    claimed = p_end,
    ready_at = case
      when c.held then null
      when p_end < n.next_offset then greatest(v_now, c.ready_at)
    end,
    idle_at = case when not c.held and p_end >= n.next_offset then greatest(v_now, n.created_at) end
  from (
    select s.base_offset + s.message_count as next_offset, s.created_at
    from queen.segments s
    where s.partition_id = p_partition_id
    order by s.base_offset desc
    limit 1
  ) n
  where c.partition_id = p_partition_id and c.claimed < p_end;
end
$$;

-- The offset up to which every group has acknowledged the start of a partition, at most p_end. Null while the position of some
-- group is missing. The caller has locked the partition, so no group is moved back meanwhile.
create or replace function queen.settled_to (p_partition_id bigint, p_queue_id bigint, p_end bigint)
  returns bigint
  language plpgsql
  stable
as $$
declare
  v_settled bigint;
begin
  select min(least(c.claimed, (
    select min(lower(d.pending))
    from queen.deliveries d
    where d.group_id = c.group_id and d.partition_id = p_partition_id and d.payload is null
  ))) into v_settled
  from queen.consumers c
  cross join lateral (
    select g.id from queen.groups g where g.id = c.group_id and g.deleted_at is null offset 0
  ) g
  where c.partition_id = p_partition_id;
  if exists (
    select 1 from queen.groups g
    where g.queue_id = p_queue_id and g.deleted_at is null
      and g.filled_to < p_partition_id and g.fill_end >= p_partition_id
  ) then
    return null;
  end if;
  -- Without a group, no message is settled.
  return case when v_settled is not null then least(p_end, v_settled) end;
end
$$;
