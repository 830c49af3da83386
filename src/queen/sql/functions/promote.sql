-- Put scheduled messages whose time has come into their partitions; answers how many.
--
-- Called by pops, so it never waits: messages of a partition that a push has locked stay for the next call.
-- At most p_limit messages and 16 MiB a call. Locks: scheduled and partitions, skipping what is locked.
create or replace function queen.promote (p_queue_id bigint, p_limit integer)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
declare
  v_now    timestamptz := queen.now();
  v_ids    bigint[];
  v_locked bigint[];
  v_count  bigint;
begin
  if not exists (select 1 from queen.scheduled s where s.queue_id = p_queue_id and s.due_at <= v_now) then
    return 0;
  end if;
  select array_agg(d.id) into v_ids
  from (
    select d.id, sum(d.bytes) over (order by d.due_at, d.id) - d.bytes as bytes_before
    from (
      select s.id, s.due_at, length(s.payload) + coalesce(length(s.extras), 0) as bytes
      from queen.scheduled s
      where s.queue_id = p_queue_id and s.due_at <= v_now
      order by s.due_at, s.id
      limit p_limit
      for update skip locked
    ) d
  ) d
  where d.bytes_before < 16 * 1024 * 1024;
  v_locked := array(
    select p.id
    from queen.partitions p
    where p.id in (select s.partition_id from queen.scheduled s where s.id = any (v_ids))
    order by p.id
    for no key update skip locked
  );

  with due as (
    delete from queen.scheduled s
    where s.id = any (v_ids) and s.partition_id = any (v_locked)
    returning s.id, s.partition_id, s.due_at, s.ttl_seconds, s.key, s.payload, s.extras
  ),
  entry as materialized (
    select
      row_number() over (order by d.partition_id, d.ttl_seconds nulls first) as ordinal,
      d.partition_id,
      d.ttl_seconds,
      count(*)::integer as message_count,
      array_agg(d.payload order by d.due_at, d.id) as payloads,
      array_agg(d.extras order by d.due_at, d.id) as extras,
      array_agg(d.key order by d.due_at, d.id) as keys
    from due d
    group by d.partition_id, d.ttl_seconds
  ),
  stored as materialized (
    select p.*
    from (
      select
        array_agg(e.partition_id order by e.ordinal) as partition_ids,
        array_agg(e.message_count order by e.ordinal) as counts,
        array_agg((select string_agg(p, '' order by n) from unnest(e.payloads) with ordinality u (p, n)) order by e.ordinal)
          as bodies,
        array_agg(queen.ends_of(e.payloads) order by e.ordinal) as ends,
        array_agg(queen.join_extras(e.extras) order by e.ordinal) as extras,
        array_agg(e.ttl_seconds order by e.ordinal) as ttls
      from entry e
      having count(*) > 0
    ) a
    cross join lateral queen.push(a.partition_ids, a.counts, a.bodies, a.ends, a.extras, a.ttls) p
  ),
  -- A duplicate that comes later is told where the first one went.
  placed as (
    update queen.dedup d
    set "offset" = s."offset" + k.n - 1
    from stored s
    join entry e on e.ordinal = s.ordinal
    cross join lateral unnest(e.keys) with ordinality k (key, n)
    where d.partition_id = e.partition_id and d.key = k.key and d."offset" is null
  )
  select coalesce(sum(e.message_count), 0) into v_count from entry e;
  return v_count;
end
$$;
