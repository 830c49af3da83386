-- Helpers that count messages against a rate limit. A history is an array of pairs: a time in microseconds, and the number
-- of messages claimed then.

-- A timestamp as microseconds since 1970.
create or replace function queen.microseconds (p_at timestamptz)
  returns bigint
  language plpgsql
  immutable
as $$
begin
  return (extract(epoch from p_at) * 1000000)::bigint;
end
$$;

-- How many messages a rate limit still allows. A pair of p_recent counts for one period after its time: docs/decisions/0005.
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

-- The history after p_count more messages, without pairs that no longer count.
--
-- Up to 64 times are stored exactly. Further times are rounded up to the next 64th of the period, so that there are never
-- more than 128 pairs.
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

-- The history that a rate limit per partition counts for one partition row: its own, which the caller has locked, and those
-- of the rows for other priorities, which are locked here. Null if another transaction holds one of these locks, because
-- it may be claiming.
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
  v_recent   bigint[] := coalesce(p_recent, '{}');
  v_other_id bigint;
  v_beside   bigint[];
begin
  if p_queue.in_order then
    return v_recent;  -- Messages of an ordered queue have no priorities.
  end if;
  for v_other_id in
    select o.id
    from queen.partitions p
    join queen.partitions o on o.queue_id = p.queue_id and o.name = p.name and o.id <> p.id
    where p.id = p_partition_id
  loop
    select c.recent into v_beside
    from queen.consumers c
    where c.partition_id = v_other_id and c.group_id = p_group_id
    order by c.version desc
    limit 1
    for no key update skip locked;
    if found then
      v_recent := v_recent || v_beside;
    elsif exists (select 1 from queen.consumers c where c.partition_id = v_other_id and c.group_id = p_group_id) then
      return null;
    end if;
  end loop;
  return v_recent;
end
$$;

-- When a rate limit allows a message again: now, or when the oldest pair that counts expires.
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
