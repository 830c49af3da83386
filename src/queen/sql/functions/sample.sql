-- Measure queues with an id above p_after, at most p_limit of them: depth, oldest age, what is out, dead, not due yet.
--
-- Visits what has something to give or something out, and of each group no more than p_most partitions: where more
-- have work, the depth is estimated from these, and is_exact is false. Answers and keeps a row for each queue
-- (group_id 0; its depth is what the slowest group has not settled, or all that is stored where nobody reads) and for
-- each group. Locks: the rows that it keeps; one process samples at a time.
create or replace function queen.sample (p_after bigint, p_limit integer, p_most integer)
  returns table (
    queue_id bigint, group_id bigint, queue text, "group" text, is_paused boolean, depth bigint,
    oldest_age_seconds double precision, deliveries bigint, dead_letters bigint, scheduled bigint, is_exact boolean
  )
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  c_counted    constant integer := 10000;
  v_now        timestamptz := queen.now();
  v_queue      record;
  v_group      record;
  -- Of the slowest group.
  v_messages   bigint;
  v_oldest_at  timestamptz;
  v_deliveries bigint;
  v_is_exact   boolean;
begin
  for v_queue in
    select q.id, q.name, q.levels, q.paused
    from queen.queues q
    where q.id > p_after and q.deleted_at is null
    order by q.id
    limit p_limit
  loop
    queue_id := v_queue.id;
    queue := v_queue.name;
    is_paused := v_queue.paused;
    scheduled := (
      select count(*) from (
        select 1 from queen.scheduled s where s.queue_id = v_queue.id limit c_counted
      ) s
    );
    dead_letters := (
      select count(*) from (
        select 1 from queen.dead_letters l where l.queue_id = v_queue.id limit c_counted
      ) l
    );
    v_messages := null;
    for v_group in
      select g.id, g.name, l.*
      from queen.groups g
      cross join lateral queen.lag_of(g.id, v_queue.levels, p_most) l
      where g.queue_id = v_queue.id and g.deleted_at is null
      order by g.id
      limit p_limit
    loop
      group_id := v_group.id;
      "group" := v_group.name;
      depth := v_group.messages;
      oldest_age_seconds := extract(epoch from v_now - v_group.oldest_at);
      deliveries := v_group.deliveries;
      is_exact := v_group.is_exact;
      if v_messages is null or v_group.messages > v_messages then
        v_messages := v_group.messages;
        v_oldest_at := v_group.oldest_at;
        v_deliveries := v_group.deliveries;
        v_is_exact := v_group.is_exact;
      end if;
      perform queen.keep_sample(v_now, queue_id, group_id, depth, oldest_age_seconds, deliveries, 0, 0, is_exact);
      return next;
    end loop;
    if v_messages is null then
      select s.messages, s.oldest_at, 0, s.is_exact into v_messages, v_oldest_at, v_deliveries, v_is_exact
      from queen.stored_in(v_queue.id, p_most) s;
    end if;
    group_id := 0;
    "group" := null;
    depth := v_messages + scheduled;
    oldest_age_seconds := extract(epoch from v_now - v_oldest_at);
    deliveries := v_deliveries;
    is_exact := v_is_exact;
    perform queen.keep_sample(
      v_now, queue_id, 0, depth, oldest_age_seconds, deliveries, dead_letters, scheduled, is_exact
    );
    return next;
  end loop;
end
$$;

-- What a group has not settled: how many messages, since when the oldest, in how many deliveries.
create or replace function queen.lag_of (p_group_id bigint, p_levels integer[], p_most integer)
  returns table (messages bigint, oldest_at timestamptz, deliveries bigint, is_exact boolean)
  language plpgsql
  stable
as $$
#variable_conflict use_column
declare
  v_ready  record;
  v_out    record;
  v_all    bigint;
  v_filled boolean;
begin
  select g.filled_to is null into v_filled from queen.groups g where g.id = p_group_id;
  select
    count(*) as partitions,
    coalesce(sum(n.next_offset - c.claimed), 0) as messages,
    min(h.created_at) filter (where n.next_offset > c.claimed) as oldest_at
  into v_ready
  from (
    select c.partition_id, c.claimed
    from queen.consumers c
    where c.group_id = p_group_id and c.priority = any (p_levels) and c.ready_at is not null
    limit p_most
  ) c
  cross join lateral (
    select s.base_offset + s.message_count as next_offset
    from queen.segments s
    where s.partition_id = c.partition_id
    order by s.base_offset desc
    limit 1
  ) n
  left join lateral (
    select s.created_at
    from queen.segments s
    where s.partition_id = c.partition_id and s.base_offset <= c.claimed
    order by s.base_offset desc
    limit 1
  ) h on true;
  v_all := v_ready.partitions;
  if v_ready.partitions >= p_most then
    select count(*) into v_all
    from (
      select 1
      from queen.consumers c
      where c.group_id = p_group_id and c.priority = any (p_levels) and c.ready_at is not null
      limit p_most * 100
    ) c;
  end if;
  -- What is out, and on an ordered queue what waits behind it.
  select
    count(*) as deliveries,
    coalesce(sum(queen.count_of(d.pending) + case when d.ordered and d.until < 'infinity' then h.behind else 0 end), 0)
      as messages,
    min(o.created_at) as oldest_at
  into v_out
  from (
    select d.* from queen.deliveries d
    where d.group_id = p_group_id and d.priority = any (p_levels)
    limit p_most
  ) d
  left join lateral (
    select greatest(n.next_offset - c.claimed, 0) as behind
    from (
      select c.claimed
      from queen.consumers c
      where c.partition_id = d.partition_id and c.group_id = d.group_id
      order by c.version desc
      limit 1
    ) c
    cross join lateral (
      select s.base_offset + s.message_count as next_offset
      from queen.segments s
      where s.partition_id = d.partition_id
      order by s.base_offset desc
      limit 1
    ) n
  ) h on d.ordered
  left join lateral (
    select coalesce(d.created_at, s.created_at) as created_at
    from queen.segments s
    where s.partition_id = d.partition_id and s.base_offset <= lower(d.pending)
    order by s.base_offset desc
    limit 1
  ) o on true;
  messages := (v_ready.messages * (v_all::double precision / greatest(v_ready.partitions, 1)))::bigint + v_out.messages;
  oldest_at := least(v_ready.oldest_at, v_out.oldest_at);
  deliveries := v_out.deliveries;
  is_exact := v_filled and v_all = v_ready.partitions and v_out.deliveries < p_most;
  return next;
end
$$;

-- What a queue that nobody reads holds, by at most p_most of its partitions.
create or replace function queen.stored_in (p_queue_id bigint, p_most integer)
  returns table (messages bigint, oldest_at timestamptz, is_exact boolean)
  language plpgsql
  stable
as $$
#variable_conflict use_column
begin
  return query
  select
    coalesce(sum(n.next_offset - f.first_offset), 0)::bigint, min(f.created_at) filter (where n.next_offset > f.first_offset),
    count(*) < p_most
  from (select p.id from queen.partitions p where p.queue_id = p_queue_id limit p_most) p
  cross join lateral (
    select s.base_offset + s.message_count as next_offset
    from queen.segments s where s.partition_id = p.id order by s.base_offset desc limit 1
  ) n
  cross join lateral (
    select
      s.created_at, case when s.body is null then s.base_offset + s.message_count else s.base_offset end as first_offset
    from queen.segments s where s.partition_id = p.id order by s.base_offset limit 1
  ) f;
end
$$;

-- Keep what was measured; the last of a minute counts.
create or replace function queen.keep_sample (
  p_now                timestamptz,
  p_queue_id           bigint,
  p_group_id           bigint,
  p_depth              bigint,
  p_oldest_age_seconds double precision,
  p_deliveries         bigint,
  p_dead_letters       bigint,
  p_scheduled          bigint,
  p_is_exact           boolean
)
  returns void
  language plpgsql
  volatile
as $$
begin
  insert into queen.samples (
    minute, queue_id, group_id, sampled_at, depth, oldest_age_seconds, deliveries, dead_letters, scheduled, is_exact
  ) values (
    date_trunc('minute', p_now, 'UTC'), p_queue_id, p_group_id, p_now, p_depth, p_oldest_age_seconds, p_deliveries,
    p_dead_letters, p_scheduled, p_is_exact
  )
  on conflict (queue_id, minute, group_id) do update
  set
    sampled_at = excluded.sampled_at, depth = excluded.depth, oldest_age_seconds = excluded.oldest_age_seconds,
    deliveries = excluded.deliveries, dead_letters = excluded.dead_letters, scheduled = excluded.scheduled,
    is_exact = excluded.is_exact;
end
$$;

-- Become or stay the one process that samples, until p_seconds from now; false while another one is.
create or replace function queen.lead_sampling (p_holder bigint, p_seconds double precision)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := queen.now();
begin
  -- Most find that they are not it, and write nothing.
  if exists (select 1 from queen.sampler s where s.holder <> p_holder and s.until > v_now) then
    return false;
  end if;
  insert into queen.sampler as s (holder, until)
  values (p_holder, v_now + make_interval(secs => p_seconds))
  on conflict (is_only) do update
  set holder = excluded.holder, until = excluded.until
  where s.holder = excluded.holder or s.until <= v_now;
  return found;
end
$$;
