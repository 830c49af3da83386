-- Small questions about a place in a partition, and about rates.

-- When the message at p_offset, or the next one that exists, may be claimed; null if there is none.
create or replace function queen.head_ready (
  p_partition_id bigint,
  p_offset       bigint,
  p_seconds      double precision,
  p_now          timestamptz
)
  returns timestamptz
  language plpgsql
  stable
as $$
begin
  return (
    select greatest(p_now, s.created_at + make_interval(secs => p_seconds))
    from queen.segments s
    where s.partition_id = p_partition_id
      and s.base_offset >= coalesce(
        (
          select h.base_offset
          from queen.segments h
          where h.partition_id = p_partition_id and h.base_offset <= p_offset
          order by h.base_offset desc
          limit 1
        ),
        p_offset
      )
      and s.base_offset + s.message_count > p_offset
    order by s.base_offset
    limit 1
  );
end
$$;

-- The first offset of a partition that was stored after p_at: created_at rises with the offset, so halve.
create or replace function queen.offset_after (p_partition_id bigint, p_at timestamptz)
  returns bigint
  language plpgsql
  stable
as $$
declare
  v_low    bigint;
  v_high   bigint;
  v_middle record;
begin
  select s.base_offset into v_low
  from queen.segments s where s.partition_id = p_partition_id order by s.base_offset limit 1;
  if v_low is null then
    return 0;
  end if;
  select s.base_offset + s.message_count into v_high
  from queen.segments s where s.partition_id = p_partition_id order by s.base_offset desc limit 1;
  -- Everything below v_low is not after p_at, everything from v_high on is.
  while v_low < v_high loop
    select s.base_offset, s.base_offset + s.message_count as next, s.created_at into v_middle
    from queen.segments s
    where s.partition_id = p_partition_id and s.base_offset <= (v_low + v_high) / 2
    order by s.base_offset desc
    limit 1;
    if v_middle.created_at > p_at then
      v_high := v_middle.base_offset;
    else
      v_low := v_middle.next;
    end if;
  end loop;
  return v_low;
end
$$;

-- The first p_count offsets of a set.
create or replace function queen.first_of (p_offsets int8multirange, p_count bigint)
  returns int8multirange
  language plpgsql
  immutable
as $$
begin
  return (
    select coalesce(
      range_agg(int8range(r.low, least(r.high, r.low + p_count - r.before))) filter (where r.before < p_count),
      '{}'::int8multirange
    )
    from (
      select
        lower(u) as low,
        upper(u) as high,
        (sum(upper(u) - lower(u)) over (order by lower(u)))::bigint - (upper(u) - lower(u)) as before
      from unnest(p_offsets) as u
    ) r
  );
end
$$;

-- How many offsets a set has.
create or replace function queen.count_of (p_offsets int8multirange)
  returns bigint
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select coalesce(sum(upper(u) - lower(u)), 0)::bigint from unnest(p_offsets) as u
  );
end
$$;

-- The microseconds since 1970: what a rate limit counts in.
create or replace function queen.microseconds (p_at timestamptz)
  returns bigint
  language plpgsql
  immutable
as $$
begin
  return (extract(epoch from p_at) * 1000000)::bigint;
end
$$;

-- How many messages a rate limit still allows now. p_recent holds pairs of an instant and what was claimed by then, which
-- counts for a period after it: docs/decisions/0005.
create or replace function queen.allowance (p_recent bigint[], p_max integer, p_ms integer, p_now timestamptz)
  returns bigint
  language plpgsql
  immutable
as $$
declare
  v_since bigint := queen.microseconds(p_now) - p_ms * 1000::bigint;
begin
  return (
    select p_max - coalesce(sum(p_recent[i + 1]), 0)::bigint
    from generate_series(1, coalesce(cardinality(p_recent), 0), 2) as i
    where p_recent[i] >= v_since
  );
end
$$;

-- The same history after p_count more; what no longer matters is dropped. Sixty-four instants are kept as they are; beyond
-- them they are put off to the next sixty-fourth of the period, so that there are never more than twice as many.
create or replace function queen.spend (p_recent bigint[], p_ms integer, p_now timestamptz, p_count bigint)
  returns bigint[]
  language plpgsql
  immutable
as $$
declare
  v_now   bigint := queen.microseconds(p_now);
  v_since bigint := v_now - p_ms * 1000::bigint;
  v_slice bigint := p_ms * 1000::bigint / 64;
begin
  if cardinality(p_recent) >= 128 then
    v_now := (v_now / v_slice + 1) * v_slice;
  end if;
  return (
    select array_agg(v.value order by s.instant, v.ordinal)
    from (
      select h.instant, sum(h.count)::bigint as count
      from (
        select p_recent[i] as instant, p_recent[i + 1] as count
        from generate_series(1, coalesce(cardinality(p_recent), 0), 2) as i
        union all
        select v_now, p_count
      ) h
      where h.instant >= v_since
      group by h.instant
    ) s
    cross join lateral (values (1, s.instant), (2, s.count)) as v (ordinal, value)
  );
end
$$;

-- What a rate limit per partition counts for a lane of it: what was claimed from the lane, which the caller has locked, and from those of other
-- priorities, which are locked here. Null when somebody else has one of them now: he may be claiming.
create or replace function queen.recent_of (
  p_recent       bigint[],
  p_partition_id bigint,
  p_group_id     bigint,
  p_queue        queen.queues
)
  returns bigint[]
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_recent  bigint[] := coalesce(p_recent, '{}');
  v_lane_id bigint;
  v_beside  bigint[];
begin
  if p_queue.in_order then
    return v_recent;  -- Its messages have no priorities.
  end if;
  for v_lane_id in
    select l.id
    from queen.partitions p
    join queen.partitions l on l.queue_id = p.queue_id and l.name = p.name and l.id <> p.id
    where p.id = p_partition_id
  loop
    select c.recent into v_beside
    from queen.consumers c
    where c.partition_id = v_lane_id and c.group_id = p_group_id
    order by c.version desc
    limit 1
    for no key update skip locked;
    if found then
      v_recent := v_recent || v_beside;
    elsif exists (select 1 from queen.consumers c where c.partition_id = v_lane_id and c.group_id = p_group_id) then
      return null;
    end if;
  end loop;
  return v_recent;
end
$$;

-- The instant at which a rate limit allows something again: now, or when the oldest of what counts no longer does.
create or replace function queen.rate_opens_at (p_recent bigint[], p_max integer, p_ms integer, p_now timestamptz)
  returns timestamptz
  language plpgsql
  immutable
as $$
declare
  v_period bigint := p_ms * 1000::bigint;
begin
  return (
    select case
      when queen.allowance(p_recent, p_max, p_ms, p_now) > 0 then p_now
      else 'epoch'::timestamptz + (min(p_recent[i]) + v_period + 1) * interval '1 microsecond'
    end
    from generate_series(1, coalesce(cardinality(p_recent), 0), 2) as i
    where p_recent[i] >= queen.microseconds(p_now) - v_period
  );
end
$$;

-- How long a message waits after p_attempts failures: exponential, capped, up to a fifth shorter by chance.
create or replace function queen.backoff (p_queue queen.queues, p_attempts integer)
  returns interval
  language plpgsql
  volatile
as $$
begin
  return (
    select make_interval(secs => least(
      p_queue.max_retry_delay_ms,
      p_queue.retry_delay_ms * power(p_queue.retry_backoff, least(p_attempts, 31) - 1)
    ) * (0.8 + 0.2 * random()) / 1000.0)
  );
end
$$;
