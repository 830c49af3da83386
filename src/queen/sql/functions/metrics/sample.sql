-- Measure queues of this database with an id above p_after, at most p_limit: depth, oldest age, leased, dead and scheduled messages.
--
-- Visits only pairs with messages and deliveries, and at most p_most partitions per group. If more have work, the depth is
-- estimated and is_exact is false. Stores and returns one row per queue (group_id 0) and one per group. The depth of a queue
-- is that of its slowest group, or all stored messages if it has no group.
-- Locks: the rows that it stores. One process samples at a time.
create or replace function queen.sample (p_after bigint, p_limit integer, p_most integer)
  returns table (
    queue_id bigint, group_id bigint, queue text, "group" text, paused boolean, depth bigint,
    oldest_age_seconds double precision, deliveries bigint, dead_letters bigint, scheduled bigint, bytes bigint,
    ready_partitions bigint, leased_partitions bigint, idle_partitions bigint, is_exact boolean
  )
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  c_counted constant integer := 10000;
  v_now     timestamptz := queen.now();
  v_minute  timestamptz := date_trunc('minute', v_now, 'UTC');
  v_queue   record;
  v_group   record;
  v_slowest record;
  v_mean    double precision;
begin
  for v_queue in
    select q.id, q.name, q.levels, q.paused
    from queen.queues q
    where q.id > p_after and q.deleted_at is null and queen.owns_slot(q.slot)
    order by q.id
    limit p_limit
  loop
    queue_id := v_queue.id;
    queue := v_queue.name;
    paused := v_queue.paused;
    dead_letters := 0;
    scheduled := 0;
    bytes := null;
    ready_partitions := null;
    leased_partitions := null;
    idle_partitions := null;
    v_slowest := null;
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
      if v_slowest is null then
        v_slowest := v_group;
      elsif v_group.messages > v_slowest.messages then
        v_slowest := v_group;
      end if;
      perform queen.keep_sample(row(
        v_minute, queue_id, group_id, v_now, depth, oldest_age_seconds, deliveries, dead_letters, scheduled, bytes,
        ready_partitions, leased_partitions, idle_partitions, is_exact, null
      )::queen.samples);
      return next;
    end loop;
    if v_slowest is null then
      select s.messages, s.oldest_at, 0::bigint as deliveries, s.is_exact into v_slowest
      from queen.stored_in(v_queue.id, p_most) s;
    end if;
    select count(*) into scheduled
    from (select 1 from queen.scheduled s where s.queue_id = v_queue.id limit c_counted) s;
    select count(*) into dead_letters
    from (select 1 from queen.dead_letters l where l.queue_id = v_queue.id limit c_counted) l;
    select t.ready, t.leased, t.idle into ready_partitions, leased_partitions, idle_partitions
    from queen.partition_states(v_queue.id, v_queue.levels, c_counted, v_now) t;
    group_id := 0;
    "group" := null;
    depth := v_slowest.messages + scheduled;
    v_mean := queen.mean_bytes(v_queue.id);
    bytes := depth * coalesce(v_mean, 0);
    oldest_age_seconds := extract(epoch from v_now - v_slowest.oldest_at);
    deliveries := v_slowest.deliveries;
    is_exact := v_slowest.is_exact;
    perform queen.keep_sample(row(
      v_minute, queue_id, group_id, v_now, depth, oldest_age_seconds, deliveries, dead_letters, scheduled, bytes,
      ready_partitions, leased_partitions, idle_partitions, is_exact, v_mean
    )::queen.samples);
    return next;
  end loop;
end
$$;

-- The unsettled messages of a group: their number, the age of the oldest, and in how many deliveries they are.
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
  -- Leased messages, and on an ordered queue the messages that wait behind them.
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

-- The messages stored in a queue without groups, counted in at most p_most of its partitions.
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

-- How many partitions of a queue are leased, have messages, or are idle. Visits at most p_most rows of each kind, and at
-- most p_most partitions in total.
create or replace function queen.partition_states (
  p_queue_id bigint, p_levels integer[], p_most integer, p_now timestamptz
)
  returns table (ready bigint, leased bigint, idle bigint)
  language plpgsql
  stable
as $$
#variable_conflict use_column
declare
  v_all bigint;
begin
  select count(*) into v_all
  from (select 1 from queen.partitions p where p.queue_id = p_queue_id limit p_most) p;
  if not exists (select 1 from queen.groups g where g.queue_id = p_queue_id and g.deleted_at is null) then
    -- The queue has no group, so every stored message is available.
    return query select v_all, 0::bigint, 0::bigint;
    return;
  end if;
  return query
  with leased as materialized (
    select distinct d.partition_id
    from (
      select d.partition_id, d.held
      from queen.groups g
      cross join lateral (
        select d.partition_id, d.held
        from queen.deliveries d
        where d.group_id = g.id and d.priority = any (p_levels) and d.until > p_now and d.until < 'infinity'
        limit p_most
      ) d
      where g.queue_id = p_queue_id and g.deleted_at is null
      limit p_most
    ) d
    where d.held
  ),
  ready as (
    select c.partition_id
    from (
      select c.partition_id
      from queen.groups g
      cross join lateral (
        select c.partition_id
        from queen.consumers c
        where c.group_id = g.id and c.priority = any (p_levels) and c.ready_at is not null
        limit p_most
      ) c
      where g.queue_id = p_queue_id and g.deleted_at is null
      limit p_most
    ) c
    except
    select l.partition_id from leased l
  ),
  counted as (select (select count(*) from ready) as ready, (select count(*) from leased) as leased)
  select c.ready, c.leased, greatest(0, v_all - c.ready - c.leased) from counted c;
end
$$;

-- The mean payload size of a queue's messages, from its newest 100 segments. Null if it has none.
create or replace function queen.mean_bytes (p_queue_id bigint)
  returns double precision
  language plpgsql
  stable
as $$
begin
  return sum(octet_length(s.body))::double precision / sum(s.message_count)
  from (
    select s.body, s.message_count
    from queen.segments s
    where s.queue_id = p_queue_id and s.body is not null
    order by s.xid desc
    limit 100
  ) s;
end
$$;

-- Store a sample. The last one of a minute replaces the others.
create or replace function queen.keep_sample (p_sample queen.samples)
  returns void
  language plpgsql
  volatile
as $$
begin
  insert into queen.samples
  select p_sample.*
  on conflict (queue_id, minute, group_id) do update
  set
    sampled_at = excluded.sampled_at, depth = excluded.depth, oldest_age_seconds = excluded.oldest_age_seconds,
    deliveries = excluded.deliveries, dead_letters = excluded.dead_letters, scheduled = excluded.scheduled,
    bytes = excluded.bytes, ready_partitions = excluded.ready_partitions,
    leased_partitions = excluded.leased_partitions, idle_partitions = excluded.idle_partitions,
    is_exact = excluded.is_exact, mean_bytes = excluded.mean_bytes;
end
$$;

-- Become or stay the leader that samples, until p_seconds from now. Returns false while another process is the leader.
create or replace function queen.lead_sampling (p_holder bigint, p_seconds double precision)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := queen.now();
begin
  -- Most processes are not the leader and must not write.
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
