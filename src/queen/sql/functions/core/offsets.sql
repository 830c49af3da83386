-- Helpers that look up and count offsets of a partition.

-- When the message at p_offset, or the next stored one, can be claimed. Null if there is none.
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

-- The first offset of a partition that was stored after p_at, by binary search: created_at rises with the offset.
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
  -- All messages below v_low were stored at or before p_at, all from v_high on after it.
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

-- The number of offsets in a set.
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
