-- Move scheduled messages that are due into their partitions. Returns how many were moved, and how many had expired.
--
-- Pops call this, so it never waits: if a push has locked a partition, its messages stay for the next call. The messages of
-- a partition are taken under its lock from the first one on, so that they keep their order.
-- If messages were stored, the transaction commits synchronously, including that of a pop.
-- Moves at most p_limit messages and 16 MiB per call. Locks: partitions, consumers, scheduled; skips locked rows.
create or replace function queen.promote (
  p_queue_id bigint,
  p_limit    integer,
  out promoted bigint,
  out expired  bigint
)
  language plpgsql
  volatile
as $$
declare
  v_now        timestamptz := queen.now();
  v_ids        bigint[];
  v_mine       bigint[];
  v_locked     bigint[];
  v_pairs      bigint[];
  v_partitions bigint[];
  v_counts     integer[];
  v_bodies     bytea[];
  v_ends       bytea[];
  v_extras     bytea[];
  v_ttls       double precision[];
  v_keys       text[];
  v_dead_keys  bytea[];
  v_row        record;
begin
  promoted := 0;
  expired := 0;
  v_ids := array(
    select s.id
    from queen.scheduled s
    where s.queue_id = p_queue_id and s.due_at <= v_now
      -- Of a spread queue, some partitions may be on their way to another database.
      and queen.is_owned(s.partition_id)
    order by s.due_at, s.id
    limit p_limit
  );
  if cardinality(v_ids) = 0 then
    return;
  end if;
  v_locked := array(
    select p.id
    from queen.partitions p
    where p.id in (select s.partition_id from queen.scheduled s where s.id = any (v_ids))
    order by p.id
    for no key update skip locked
  );

  -- A push would wait for the pairs that it wakes, which a pop must not do.
  v_pairs := array(
    select c.partition_id
    from queen.consumers c
    where c.partition_id = any (v_locked) and c.idle_at is not null
    for no key update skip locked
  );
  v_locked := array(
    select l.id
    from unnest(v_locked) l (id)
    where (select count(*) from queen.consumers c where c.partition_id = l.id and c.idle_at is not null)
      = (select count(*) from unnest(v_pairs) k (id) where k.id = l.id)
  );

  -- From each partition, take messages up to the first one that is locked.
  v_mine := array(
    select s.id
    from queen.scheduled s
    where s.id = any (v_ids) and s.partition_id = any (v_locked)
    for update skip locked
  );
  select array_agg(d.id) into v_ids
  from (
    select
      d.id,
      bool_and(d.id = any (v_mine)) over (partition by d.partition_id order by d.due_at, d.id) as is_mine,
      sum(d.bytes) over (order by d.due_at, d.id) - d.bytes as bytes_before
    from (
      select s.id, s.partition_id, s.due_at, length(s.payload) + coalesce(length(s.extras), 0) as bytes
      from queen.scheduled s
      where s.id = any (v_ids) and s.partition_id = any (v_locked)
    ) d
  ) d
  where d.is_mine and d.bytes_before < 16 * 1024 * 1024;

  with due as (
    delete from queen.scheduled s
    where s.id = any (v_ids)
    returning s.id, s.partition_id, s.due_at, s.ttl_seconds, s.key, s.payload, s.extras
  ),
  alive as (
    -- The TTL counts from the due time, unless the message is promoted at about that time.
    select
      d.id, d.partition_id, d.due_at, d.key, d.payload, d.extras,
      t.seconds - case when v_now - d.due_at > interval '1 second' then extract(epoch from v_now - d.due_at) else 0 end
        as ttl_seconds
    from due d
    cross join lateral (
      select coalesce(d.ttl_seconds, (select nullif(q.ttl_seconds, 0) from queen.queues q where q.id = p_queue_id)) as seconds
    ) t
  ),
  run as (
    select
      d.*,
      row_number() over (partition by d.partition_id order by d.due_at, d.id) as place,
      row_number() over (partition by d.partition_id order by d.due_at, d.id)
        - row_number() over (partition by d.partition_id, d.ttl_seconds order by d.due_at, d.id) as run
    from alive d
    where coalesce(d.ttl_seconds > 0, true)
  ),
  entry as (
    -- A segment has one TTL, so each run of messages with the same TTL becomes a segment.
    select
      d.partition_id,
      d.ttl_seconds,
      count(*)::integer as message_count,
      array_agg(d.payload order by d.due_at, d.id) as payloads,
      array_agg(d.extras order by d.due_at, d.id) as extras,
      array_agg(d.key order by d.due_at, d.id) as keys,
      row_number() over (order by d.partition_id, min(d.place)) as ordinal
    from run d
    group by d.partition_id, d.ttl_seconds, d.run
  )
  select
    array_agg(e.partition_id order by e.ordinal),
    array_agg(e.message_count order by e.ordinal),
    array_agg(
      (select string_agg(u.payload, '' order by u.n) from unnest(e.payloads) with ordinality u (payload, n))
      order by e.ordinal
    ),
    array_agg(queen.ends_of(e.payloads) order by e.ordinal),
    array_agg(queen.join_extras(e.extras) order by e.ordinal),
    array_agg(e.ttl_seconds order by e.ordinal),
    array_agg(
      (select string_agg(coalesce(encode(u.key, 'hex'), ''), ',' order by u.n) from unnest(e.keys) with ordinality u (key, n))
      order by e.ordinal
    ),
    (select count(*) from alive d where d.ttl_seconds <= 0),
    (select array_agg(d.key) from alive d where d.ttl_seconds <= 0 and d.key is not null)
  into v_partitions, v_counts, v_bodies, v_ends, v_extras, v_ttls, v_keys, expired, v_dead_keys
  from entry e;
  if v_dead_keys is not null then
    perform queen.forget_keys(v_dead_keys);
  end if;
  if v_partitions is null then
    return;
  end if;

  -- The pop returns offsets that are assigned here. After a crash they must not be assigned to other messages.
  perform set_config('synchronous_commit', 'on', true);
  -- A separate statement: PostgreSQL might not run a call inside the statement above, whose result it does not need.
  for v_row in select p.* from queen.push(v_partitions, v_counts, v_bodies, v_ends, v_extras, v_ttls) p loop
    if v_row.kind = 'partition' then
      -- The partitions are locked and exist, so the queue was deleted, and these messages with it.
      return;
    end if;
    promoted := promoted + v_counts[v_row.ordinal];
    -- A later duplicate gets the offset of the first message.
    update queen.dedup d
    set "offset" = v_row."offset" + k.n - 1
    from unnest(string_to_array(v_keys[v_row.ordinal], ',')) with ordinality k (key, n)
    where k.key <> ''
      and d.key = decode(k.key, 'hex')
      and d."offset" is null;
  end loop;
end
$$;
