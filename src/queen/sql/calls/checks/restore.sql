-- Checks and repairs of a restored database, before servers start on it.

-- name: check_segments
-- Segments that do not follow the one before, and segments whose payloads do not match their positions.
select
  count(*) as segments,
  count(*) filter (where s.base_offset <> s.expected) as gaps,
  count(*) filter (
    where s.body_bytes is not null and (
      s.ends_bytes <> 4 * (s.message_count + 1) or s.body_bytes <> s.last_end
    )
  ) as torn
from (
  select
    s.base_offset, s.message_count, octet_length(s.body) as body_bytes, octet_length(s.ends) as ends_bytes,
    lag(s.base_offset + s.message_count, 1, s.base_offset) over (partition by s.partition_id order by s.base_offset) as expected,
    case when octet_length(s.ends) >= 4 then
      get_byte(s.ends, octet_length(s.ends) - 4) + 256 * get_byte(s.ends, octet_length(s.ends) - 3)
      + 65536 * get_byte(s.ends, octet_length(s.ends) - 2) + 16777216 * get_byte(s.ends, octet_length(s.ends) - 1)
    end as last_end
  from queen.segments s
) s;

-- name: check_positions
-- Pairs that claimed more than is stored, and segments and pairs without a partition.
select
  (
    select count(*)
    from (
      select distinct on (c.partition_id, c.group_id) c.partition_id, c.claimed
      from queen.consumers c
      order by c.partition_id, c.group_id, c.version desc
    ) c
    where c.claimed > coalesce((
      select s.base_offset + s.message_count
      from queen.segments s
      where s.partition_id = c.partition_id
      order by s.base_offset desc
      limit 1
    ), 0)
  ) as ahead,
  (
    select count(*)
    from (select distinct s.partition_id from queen.segments s) s
    where not exists (select 1 from queen.partitions p where p.id = s.partition_id)
  ) as orphans;

-- name: check_numbers
-- Sequences below numbers in use, and how far transaction numbers are ahead of this server's. The number of a partition or
-- delivery is in the lower 53 bits of its id.
select
  array_remove(array[
    case when (select coalesce(max(d.id & 9007199254740991), 0) from queen.deliveries d)
      > coalesce(pg_sequence_last_value('queen.delivery_ids'), 0) then 'deliveries' end,
    case when (select coalesce(max(p.id & 9007199254740991), 0) from queen.partitions p)
      > coalesce(pg_sequence_last_value(pg_get_serial_sequence('queen.partitions', 'id')::regclass), 0) then 'partitions' end,
    case when (select coalesce(max(q.id), 0) from queen.queues q)
      > coalesce(pg_sequence_last_value(pg_get_serial_sequence('queen.queues', 'id')::regclass), 0) then 'queues' end,
    case when (select coalesce(max(g.id), 0) from queen.groups g)
      > coalesce(pg_sequence_last_value(pg_get_serial_sequence('queen.groups', 'id')::regclass), 0) then 'groups' end
  ], null) as behind,
  greatest(
    (select coalesce(max(s.xid::text::bigint), 0) from queen.segments s),
    (select coalesce(max(h.xid::text::bigint), 0) from queen.holds h),
    (select coalesce(max(w.xid::text::bigint), 0) from queen.sweeps w),
    (select coalesce(max(o.xid::text::bigint), 0) from queen.outbox o),
    (select coalesce(max(a.xid::text::bigint), 0) from queen.archives a),
    (select coalesce(max(b.end_xid::text::bigint), 0) from queen.archive_batches b where b.state = 'planned')
  ) - pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1 as xids_ahead;

-- name: check_alive
-- Work that continues when a server starts on this database: leases, schedules, the outbox.
select
  (select count(*) from queen.deliveries d where d.held) as held,
  (select count(*) from queen.schedules s where s.next_at is not null) as schedules,
  (select count(*) from queen.outbox o where o.error is null) + (select count(*) from queen.forwards) as outbox;

-- name: void_deliveries
-- End all leases without counting an attempt, because their consumers belong to another time.
select r.ordinal
from (
  select array_agg(d.id) as ids, array_agg(d.token) as tokens
  from (select d.id, d.token from queen.deliveries d where d.held limit $1) d
) a
cross join lateral queen.release(a.ids, a.tokens) r;

-- name: renumber
-- Lower transaction numbers that this server has not reached yet, in the same order.
select queen.renumber() as is_renumbered;
