-- Record the keys of a push. If any of them is known, record none and return the known ones.
create or replace function queen.push_keys (
  p_keys          bytea,
  p_key_entries   integer[],
  p_key_places    integer[],
  p_key_counts    integer[],
  p_partition_ids bigint[],
  p_counts        integer[],
  p_now           timestamptz
)
  returns table (kind text, ordinal integer, "offset" bigint, created_at timestamptz, xid bigint, code text)
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_bases       bigint[];
  v_windows     interval[];
  v_generations smallint[];
  v_searched    smallint[];
  v_generation  smallint;
  v_is_known    boolean := false;
begin
  select
    array_agg(e.base_offset order by e.ordinal),
    array_agg(e.dedup_window order by e.ordinal),
    array_agg(e.generation order by e.ordinal)
  into v_bases, v_windows, v_generations
  from (
    select
      t.ordinal,
      coalesce(n.next_offset, 0)
        + sum(coalesce(t.message_count, 0)) over (partition by t.partition_id order by t.ordinal)
        - coalesce(t.message_count, 0) as base_offset,
      make_interval(secs => q.dedup_seconds) as dedup_window,
      queen.dedup_generation(queen.dedup_class(q.dedup_seconds), p_now, 0) as generation
    from unnest(p_partition_ids, p_counts) with ordinality t (partition_id, message_count, ordinal)
    cross join lateral (
      select p.queue_id from queen.partitions p where p.id = t.partition_id offset 0
    ) p
    cross join lateral (
      select q.dedup_seconds from queen.queues q where q.id = p.queue_id offset 0
    ) q
    left join lateral (
      select s.base_offset + s.message_count as next_offset
      from queen.segments s
      where s.partition_id = t.partition_id
      order by s.base_offset desc
      limit 1
    ) n on true
  ) e;

  -- Search the two newest generations of the current class, and of former classes that are still valid.
  v_searched := array(
    select distinct g.generation
    from (
      select distinct p.queue_id
      from queen.partitions p
      where p.id = any (p_partition_ids)
    ) p
    cross join lateral (
      select q.dedup_seconds, q.old_dedup_untils
      from queen.queues q
      where q.id = p.queue_id
      offset 0
    ) q
    cross join (values (0), (1)) b (back)
    cross join lateral (
      select queen.dedup_generation(queen.dedup_class(q.dedup_seconds), p_now, b.back)
      union all
      select queen.dedup_generation(o.class::integer - 1, p_now, b.back)
      from unnest(q.old_dedup_untils) with ordinality o (until, class)
      where o.until > p_now
    ) g (generation)
  );
  foreach v_generation in array v_searched loop
    return query
    select 'duplicate', k.ordinal, d."offset", d.at, null::bigint, null::text
    from queen.keys_of(p_keys, p_key_entries, p_key_places, p_key_counts) k
    cross join lateral (
      select d."offset", d.at
      from queen.dedup d
      where d.generation = v_generation and d.key = k.key and d.at > p_now - v_windows[k.entry]
      limit 1
    ) d;
    v_is_known := v_is_known or found;
  end loop;
  if v_is_known then
    return;
  end if;

  insert into queen.dedup (generation, key, "offset", at)
  select v_generations[k.entry], k.key, v_bases[k.entry] + k.place, p_now
  from queen.keys_of(p_keys, p_key_entries, p_key_places, p_key_counts) k;
end
$$;

-- The keys of a push, one row each: its number, its entry, and the index of its message in that entry.
create or replace function queen.keys_of (
  p_keys        bytea,
  p_key_entries integer[],
  p_key_places  integer[],
  p_key_counts  integer[]
)
  returns table (ordinal integer, key bytea, entry integer, place integer)
  language sql
  immutable
as $$
  select
    (r.before + i.n)::integer,
    substr(p_keys, ((r.before + i.n - 1) * 16 + 1)::integer, 16),
    r.entry,
    r.place + i.n - 1
  from (
    select u.entry, u.place, u.count, sum(u.count) over (order by u.ordinal) - u.count as before
    from unnest(p_key_entries, p_key_places, p_key_counts) with ordinality u (entry, place, count, ordinal)
  ) r
  cross join lateral generate_series(1, r.count) i (n)
$$;
