-- The current delivery of a message for a group, for an ack that names no lease.
--
-- A message is named by partition and offset, or by the hash of its transactionId, in p_partition_id or, where that
-- is null, anywhere the group holds something. Answers a row for each match; more than one is for the caller to
-- refuse. No row: nothing is out.
create or replace function queen.find_delivery (
  p_queue        text,
  p_group        text,
  p_partition_id bigint,
  p_offset       bigint,
  p_key          uuid
)
  returns table (id bigint, token uuid, partition_id bigint, "offset" bigint)
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select d.id, d.token, d.partition_id, m."offset"
  from queen.groups g
  join queen.queues q on q.id = g.queue_id and q.deleted_at is null
  join queen.deliveries d on d.group_id = g.id and d.held
  cross join lateral (
    select p_offset as "offset" where p_key is null
    union
    select k."offset"
    from queen.dedup k
    where k.partition_id = d.partition_id
      and k.key = p_key
      and k.at > queen.now() - make_interval(secs => q.dedup_seconds)
  ) m
  where g.name = p_group
    and g.deleted_at is null
    and (p_queue is null or q.name = p_queue)
    and (p_partition_id is null or d.partition_id = p_partition_id)
    and queen.handed_out(d) @> m."offset"
  limit 2
$$;
