-- Record the keys of a push. If any of them is known, record none and return the known ones.
--
-- p_known_offsets … p_gap_bytes: as for push. p_states: of compare_blocks. Keys of entries that p_in_blocks names are stored in
-- blocks, all others in rows. Returns `behind` for entries whose blocks the caller must read first.
create or replace function queen.push_keys (
  p_keys          bytea,
  p_key_entries   integer[],
  p_key_places    integer[],
  p_key_counts    integer[],
  p_partition_ids bigint[],
  p_counts        integer[],
  p_now           timestamptz,
  p_known_offsets bigint[],
  p_in_blocks     boolean[],
  p_hits          integer[],
  p_hit_entries   integer[],
  p_hit_offsets   bigint[],
  p_states        text[],
  p_windows       interval[],
  p_generations   smallint[]
)
  returns table (kind text, ordinal integer, "offset" bigint, created_at timestamptz, xid bigint, code text)
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_bases       bigint[];
  v_times       timestamptz[];
  v_generations smallint[];
  v_has_rows    boolean[];
  v_foreign     bigint[];
  v_generation  smallint;
  v_is_known    boolean := false;
begin
  if 'behind' = any (p_states) then
    return query
    select 'behind', s.ordinal::integer, p_partition_ids[s.ordinal], null::timestamptz, null::bigint, null::text
    from unnest(p_states) with ordinality s (state, ordinal)
    where s.state = 'behind';
    return;
  end if;
  v_foreign := array(
    select distinct p_partition_ids[e.entry] from unnest(p_key_entries) e (entry) where p_known_offsets[e.entry] is null
  );
  if cardinality(v_foreign) > 0 then
    perform queen.unpack_blocks(v_foreign, p_generations, p_now);
  end if;
  if cardinality(p_hits) > 0 or 'gap' = any (p_states) then
    return query
    select 'duplicate', b.ordinal, b."offset", b.at, null::bigint, null::text
    from queen.keys_in_blocks(
      p_keys, p_key_entries, p_key_places, p_key_counts, p_partition_ids, p_known_offsets, p_hits, p_hit_entries,
      p_hit_offsets, p_states, p_windows, p_generations, p_now
    ) b;
    v_is_known := found;
  end if;

  select
    array_agg(e.base_offset order by e.ordinal),
    array_agg(e.created_at order by e.ordinal),
    array_agg(e.generation order by e.ordinal),
    array_agg(e.has_rows order by e.ordinal)
  into v_bases, v_times, v_generations, v_has_rows
  from (
    select
      t.ordinal,
      coalesce(n.next_offset, 0)
        + sum(coalesce(t.message_count, 0)) over (partition by t.partition_id order by t.ordinal)
        - coalesce(t.message_count, 0) as base_offset,
      -- The time of its segment, by which servers recognise a block.
      greatest(p_now, n.created_at) as created_at,
      g.generation,
      exists (
        select 1 from queen.dedup_rows r where r.partition_id = t.partition_id and r.at > p_now - t.dedup_window offset 0
      ) as has_rows
    from unnest(p_partition_ids, p_counts, p_windows) with ordinality t (partition_id, message_count, dedup_window, ordinal)
    left join lateral (
      select s.base_offset + s.message_count as next_offset, s.created_at
      from queen.segments s
      where s.partition_id = t.partition_id
      order by s.base_offset desc
      limit 1
    ) n on true
    join (
      select w.dedup_window, queen.dedup_generation(queen.dedup_class(extract(epoch from w.dedup_window)), p_now, 0) as generation
      from (select distinct w.dedup_window from unnest(p_windows) w (dedup_window)) w
      offset 0
    ) g on g.dedup_window = t.dedup_window
  ) e;

  if true = any (v_has_rows) then
    foreach v_generation in array p_generations loop
      return query
      select 'duplicate', k.ordinal, d."offset", d.at, null::bigint, null::text
      from queen.keys_of(p_keys, p_key_entries, p_key_places, p_key_counts) k
      cross join lateral (
        select d."offset", d.at
        from queen.dedup d
        where d.generation = v_generation and d.key = k.key and d.at > p_now - p_windows[k.entry]
        limit 1
      ) d
      where v_has_rows[k.entry];
      v_is_known := v_is_known or found;
    end loop;
  end if;
  if v_is_known then
    return;
  end if;

  if true = any (p_in_blocks) then
    insert into queen.dedup_blocks (generation, partition_id, base_offset, at, keys)
    select
      v_generations[r.entry], p_partition_ids[r.entry], v_bases[r.entry] + r.place, v_times[r.entry],
      substr(p_keys, (r.before * 16 + 1)::integer, r.count * 16)
    from (
      select u.entry, u.place, u.count, sum(u.count) over (order by u.ordinal) - u.count as before
      from unnest(p_key_entries, p_key_places, p_key_counts) with ordinality u (entry, place, count, ordinal)
    ) r
    where p_in_blocks[r.entry] and r.place is not null;
  end if;
  v_foreign := array(
    select distinct p_partition_ids[r.entry]
    from unnest(p_key_entries, p_key_places) r (entry, place)
    where p_in_blocks[r.entry] is not true or r.place is null
  );
  if cardinality(v_foreign) > 0 then
    perform queen.record_rows(v_foreign, p_now);
    insert into queen.dedup (generation, key, "offset", at)
    select v_generations[k.entry], k.key, v_bases[k.entry] + k.place, p_now
    from queen.keys_of(p_keys, p_key_entries, p_key_places, p_key_counts) k
    where p_in_blocks[k.entry] is not true or k.place is null;
  end if;
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
