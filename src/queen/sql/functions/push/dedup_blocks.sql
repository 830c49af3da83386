-- Deduplication by blocks: the keys of consecutive messages in one row, compared with new keys by the servers.
--
-- A server keeps the keys of a partition's blocks in memory, up to a newest block, and names this block in its push. Under the
-- partition's lock, queen.push finds blocks that are newer. If there are none, a key that the server does not know is new. A
-- key that it knows comes with the offset where the server has seen it, and is compared with the block there. A caller
-- without memory (an older server, a transaction, the outbox) makes the blocks of its partitions rows of queen.dedup first.

-- The generations that may contain valid keys of these partitions: the two newest of the current class, and of former classes
-- that are still valid.
create or replace function queen.dedup_generations (p_partition_ids bigint[], p_now timestamptz)
  returns smallint[]
  language plpgsql
  stable
as $$
begin
  return array(
    select distinct g.generation
    from (
      select distinct p.queue_id
      from unnest(p_partition_ids) w (id)
      cross join lateral (select p.queue_id from queen.partitions p where p.id = w.id offset 0) p
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
end
$$;

-- The dedup window of each partition's queue.
create or replace function queen.dedup_windows (p_partition_ids bigint[])
  returns interval[]
  language plpgsql
  stable
as $$
begin
  return array(
    select make_interval(secs => q.dedup_seconds)
    from unnest(p_partition_ids) with ordinality w (id, ordinal)
    cross join lateral (select p.queue_id from queen.partitions p where p.id = w.id offset 0) p
    cross join lateral (select q.dedup_seconds from queen.queues q where q.id = p.queue_id offset 0) q
    order by w.ordinal
  );
end
$$;

-- Compare the newest block that a server knows with the newest valid one, for each entry. The caller has locked the partitions.
--
-- p_known_offsets, p_known_ats: that block, or -1 if the server found none. Null for entries without keys or known blocks.
-- p_known_seconds: the window for which the server has the keys.
-- Returns one text per entry: null if the server knows all valid blocks; `gap` if newer blocks with at most p_gap_bytes exist,
-- which the push compares itself; or else `behind`.
create or replace function queen.compare_blocks (
  p_partition_ids bigint[],
  p_known_offsets bigint[],
  p_known_ats     timestamptz[],
  p_known_seconds double precision[],
  p_gap_bytes     bigint,
  p_windows       interval[],
  p_generations   smallint[],
  p_now           timestamptz
)
  returns text[]
  language plpgsql
  stable
as $$
begin
  return array(
    select
      case
        when n.at is null or n.at <= p_now - k.dedup_window then null
        when make_interval(secs => k.seconds) < k.dedup_window then 'behind'
        when n.base_offset = k.base_offset and n.at = k.at then null
        -- After a failover, other blocks may be at these offsets.
        when k.base_offset >= 0 and not exists (
          select 1
          from unnest(p_generations) g (generation)
          cross join lateral (
            select b.at
            from queen.dedup_blocks b
            where b.generation = g.generation and b.partition_id = k.id and b.base_offset = k.base_offset
            offset 0
          ) b
          where b.at = k.at
        ) then 'behind'
        when (
          select sum(octet_length(b.keys))
          from queen.blocks_after(k.id, k.base_offset, p_generations, p_now - k.dedup_window) b
        ) > p_gap_bytes then 'behind'
        else 'gap'
      end
    from unnest(p_partition_ids, p_known_offsets, p_known_ats, p_known_seconds, p_windows)
      with ordinality k (id, base_offset, at, seconds, dedup_window, ordinal)
    left join lateral (
      select n.base_offset, n.at
      from unnest(case when k.base_offset is not null then p_generations end) g (generation)
      cross join lateral (
        select b.base_offset, b.at
        from queen.dedup_blocks b
        where b.generation = g.generation and b.partition_id = k.id
        order by b.base_offset desc
        limit 1
      ) n
      order by n.base_offset desc
      limit 1
    ) n on true
    order by k.ordinal
  );
end
$$;

-- The valid blocks of a partition that begin after an offset.
create or replace function queen.blocks_after (
  p_partition_id bigint, p_offset bigint, p_generations smallint[], p_valid_from timestamptz
)
  returns table (base_offset bigint, at timestamptz, keys bytea)
  language plpgsql
  stable
as $$
#variable_conflict use_column
begin
  return query
  select b.base_offset, b.at, b.keys
  from unnest(p_generations) g (generation)
  cross join lateral (
    select b.base_offset, b.at, b.keys
    from queen.dedup_blocks b
    where b.generation = g.generation and b.partition_id = p_partition_id and b.base_offset > p_offset
    offset 0
  ) b
  where b.at > p_valid_from
  order by b.base_offset;
end
$$;

-- The newest message with a key in the valid blocks of a partition that begin after an offset. At most one row.
create or replace function queen.key_in_blocks (
  p_key bytea, p_partition_id bigint, p_offset bigint, p_generations smallint[], p_valid_from timestamptz
)
  returns table ("offset" bigint, at timestamptz)
  language plpgsql
  stable
as $$
#variable_conflict use_column
begin
  return query
  select b.base_offset + b.place / 16, b.at
  from (
    select b.base_offset, b.at, position(p_key in b.keys) - 1 as place
    from queen.blocks_after(p_partition_id, p_offset, p_generations, p_valid_from) b
  ) b
  where b.place >= 0 and b.place % 16 = 0
  order by b.base_offset desc
  limit 1;
end
$$;

-- The messages of a partition with a transactionId: those in rows, and the newest one in blocks.
create or replace function queen.offsets_of_key (p_partition_id bigint, p_transaction_id text)
  returns table ("offset" bigint, at timestamptz)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_key bytea := queen.dedup_key(p_partition_id, p_transaction_id);
begin
  return query
  select k."offset", k.at from queen.dedup k where k.key = v_key;
  return query
  select b.base_offset + b.place / 16, b.at
  from (
    select b.base_offset, b.at, position(v_key in b.keys) - 1 as place
    from queen.dedup_blocks b
    where b.partition_id = p_partition_id
    offset 0
  ) b
  where b.place >= 0 and b.place % 16 = 0
  order by b.base_offset desc
  limit 1;
end
$$;

-- The message with a transactionId in blocks that overlap a range of offsets.
create or replace function queen.key_in_range (
  p_partition_id bigint, p_transaction_id text, p_first bigint, p_end bigint
)
  returns table ("offset" bigint)
  language plpgsql
  stable
as $$
#variable_conflict use_column
declare
  v_key   bytea := queen.dedup_key(p_partition_id, p_transaction_id);
  v_first bigint;
begin
  select b.base_offset into v_first
  from queen.dedup_blocks b
  where b.partition_id = p_partition_id and b.base_offset <= p_first
  order by b.base_offset desc
  limit 1;
  return query
  select b.base_offset + b.place / 16
  from (
    select b.base_offset, position(v_key in b.keys) - 1 as place
    from queen.dedup_blocks b
    where b.partition_id = p_partition_id and b.base_offset >= coalesce(v_first, p_first) and b.base_offset < p_end
    offset 0
  ) b
  where b.place >= 0 and b.place % 16 = 0;
end
$$;

-- The keys of a push that are in blocks: those that the server has seen (p_hits), and those in blocks that it does not know.
--
-- p_hit_entries, p_hit_offsets: the entry of each known key, and where the server has seen it. p_states: of compare_blocks.
create or replace function queen.keys_in_blocks (
  p_keys          bytea,
  p_key_entries   integer[],
  p_key_places    integer[],
  p_key_counts    integer[],
  p_partition_ids bigint[],
  p_known_offsets bigint[],
  p_hits          integer[],
  p_hit_entries   integer[],
  p_hit_offsets   bigint[],
  p_states        text[],
  p_windows       interval[],
  p_generations   smallint[],
  p_now           timestamptz
)
  returns table (ordinal integer, "offset" bigint, at timestamptz)
  language plpgsql
  stable
as $$
#variable_conflict use_column
begin
  if cardinality(p_hits) > 0 then
    return query
    select h.ordinal, f."offset", f.at
    from (
      select
        h.ordinal, h."offset", substr(p_keys, (h.ordinal - 1) * 16 + 1, 16) as key, p_partition_ids[h.entry] as id,
        p_now - p_windows[h.entry] as valid_from
      from unnest(p_hits, p_hit_entries, p_hit_offsets) h (ordinal, entry, "offset")
    ) h
    left join lateral (
      select b.at, substr(b.keys, ((h."offset" - b.base_offset) * 16 + 1)::integer, 16) as key
      from unnest(p_generations) g (generation)
      cross join lateral (
        select b.base_offset, b.at, b.keys
        from queen.dedup_blocks b
        where b.generation = g.generation and b.partition_id = h.id and b.base_offset <= h."offset"
        order by b.base_offset desc
        limit 1
      ) b
      order by b.base_offset desc
      limit 1
    ) b on true
    cross join lateral (
      select h."offset", b.at where b.key = h.key
      union all
      -- The caller has seen it elsewhere.
      select o."offset", o.at
      from queen.key_in_blocks(h.key, h.id, -1, p_generations, h.valid_from) o
      where b.key is distinct from h.key
    ) f
    where f.at > h.valid_from;
  end if;
  if 'gap' = any (p_states) then
    return query
    select k.ordinal, o."offset", o.at
    from queen.keys_of(p_keys, p_key_entries, p_key_places, p_key_counts) k
    cross join lateral (
      select o."offset", o.at
      from queen.key_in_blocks(
        k.key, p_partition_ids[k.entry], p_known_offsets[k.entry], p_generations, p_now - p_windows[k.entry]
      ) o
      offset 0
    ) o
    where p_states[k.entry] = 'gap';
  end if;
end
$$;

-- Make the blocks of these partitions rows. The caller has locked them.
create or replace function queen.unpack_blocks (p_partition_ids bigint[], p_generations smallint[], p_now timestamptz)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_ids bigint[];
begin
  v_ids := array(
    select w.id
    from unnest(p_partition_ids) w (id)
    where exists (
      select 1
      from unnest(p_generations) g (generation)
      cross join lateral (
        select 1 from queen.dedup_blocks b where b.generation = g.generation and b.partition_id = w.id limit 1
      ) b
    )
  );
  if cardinality(v_ids) = 0 then
    return;
  end if;
  perform queen.record_rows(v_ids, p_now);
  with moved as (
    delete from queen.dedup_blocks b
    where b.generation = any (p_generations) and b.partition_id = any (v_ids)
    returning b.generation, b.base_offset, b.at, b.keys
  )
  insert into queen.dedup (generation, key, "offset", at)
  select m.generation, substr(m.keys, i.n * 16 + 1, 16), m.base_offset + i.n, m.at
  from moved m
  cross join lateral generate_series(0, octet_length(m.keys) / 16 - 1) i (n);
end
$$;

-- Record that rows are stored for these partitions, some time ahead so that few pushes have to.
create or replace function queen.record_rows (p_partition_ids bigint[], p_now timestamptz)
  returns void
  language plpgsql
  volatile
as $$
begin
  insert into queen.dedup_rows as r (partition_id, at)
  select distinct w.id, p_now + interval '1 minute' from unnest(p_partition_ids) w (id)
  order by w.id
  on conflict (partition_id) do update set at = excluded.at where r.at < p_now;
end
$$;

-- The blocks of partitions for the memory of a server, and the dedup window of their queues.
--
-- p_offsets: from which block on. Returns a row without a block for each partition first, with the bytes of its blocks. If
-- they are more than p_most_bytes, returns no blocks of that partition.
create or replace function queen.key_blocks (p_partition_ids bigint[], p_offsets bigint[], p_most_bytes bigint)
  returns table (partition_id bigint, seconds double precision, bytes bigint, base_offset bigint, at timestamptz, keys bytea)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now         timestamptz := queen.now();
  v_generations smallint[] := queen.dedup_generations(p_partition_ids, v_now);
  v_row         record;
begin
  for v_row in
    select
      w.id, w."offset", q.dedup_seconds, v_now - make_interval(secs => q.dedup_seconds) as valid_from, b.bytes
    from unnest(p_partition_ids, p_offsets) w (id, "offset")
    cross join lateral (select p.queue_id from queen.partitions p where p.id = w.id offset 0) p
    cross join lateral (select q.dedup_seconds from queen.queues q where q.id = p.queue_id offset 0) q
    cross join lateral (
      select coalesce(sum(octet_length(b.keys)), 0) as bytes
      from queen.blocks_after(w.id, w."offset" - 1, v_generations, v_now - make_interval(secs => q.dedup_seconds)) b
    ) b
  loop
    return query
    select v_row.id, v_row.dedup_seconds, v_row.bytes::bigint, null::bigint, null::timestamptz, null::bytea;
    if v_row.bytes > 0 and v_row.bytes <= p_most_bytes then
      return query
      select v_row.id, null::double precision, null::bigint, b.base_offset, b.at, b.keys
      from queen.blocks_after(v_row.id, v_row."offset" - 1, v_generations, v_row.valid_from) b;
    end if;
  end loop;
end
$$;
