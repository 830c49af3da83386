-- queen.push and its keys as they were before migration 0028.
-- Store segments and scheduled messages: either all of them, or none and the reasons.
--
-- p_partition_ids … p_ttls: an entry is one segment. Entries of a partition keep their order.
-- p_keys: the 16-byte hashes of transactionIds of queues that deduplicate, concatenated. A run has p_key_counts keys and
-- belongs to messages of entry p_key_entries, from index p_key_places on. Entries after the segments are the scheduled
-- messages, which have no offset yet.
-- p_producers, p_sequences: the sequences of idempotent producers, or null. A producer is its id, U+001F and its scope.
-- Servers of releases before scopes send only the id.
-- p_scheduled_…: messages that are delivered later.
--
-- Returns one `stored` row per entry. If any message is rejected, stores nothing and returns only rejections:
-- `plain` QN017: an entry is not encrypted but its queue is (not checked if p_max_delay is null: accepted before that);
-- `duplicate`: a key is known (offset null while that message is scheduled);
-- `producer`: QN009 if the sequence is stale, null if it was stored before;
-- `partition` QN004: the partition of an entry was removed;
-- `scheduled` QN014: a message is due more than p_max_delay seconds from now.
-- The caller removes those entries and calls again, because many requests share this transaction.
-- Locks: partitions by id, producers by id, then consumers that were idle.
create or replace function queen.push (
  p_partition_ids           bigint[],
  p_counts                  integer[],
  p_bodies                  bytea[],
  p_ends                    bytea[],
  p_extras                  bytea[],
  p_ttls                    double precision[],
  p_keys                    bytea default null,
  p_key_entries             integer[] default null,
  p_key_places              integer[] default null,
  p_key_counts              integer[] default null,
  p_producers               text[] default null,
  p_sequences               bigint[] default null,
  p_scheduled_partition_ids bigint[] default null,
  p_scheduled_delays        double precision[] default null,
  p_scheduled_dues          timestamptz[] default null,
  p_scheduled_payloads      bytea[] default null,
  p_scheduled_extras        bytea[] default null,
  p_scheduled_ttls          double precision[] default null,
  p_max_delay               double precision default null
)
  returns table (kind text, ordinal integer, "offset" bigint, created_at timestamptz, xid bigint, code text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now       timestamptz;
  v_wanted    bigint[] := p_partition_ids || p_scheduled_partition_ids;
  v_found     bigint[];
  v_queue_ids bigint[];
  v_ttls      double precision[];
  v_delays    double precision[];
  v_windows   double precision[];
  v_encrypted boolean[];
  v_xid       xid8;
begin
  -- One row per entry, even if two entries have the same partition.
  select
    array_agg(l.id),
    array_agg(l.queue_id),
    array_agg(l.ttl_seconds),
    array_agg(l.delay_seconds),
    array_agg(l.window_seconds),
    array_agg(l.encrypted)
  into v_found, v_queue_ids, v_ttls, v_delays, v_windows, v_encrypted
  from (
    select w.ordinal, p.id, p.queue_id, q.ttl_seconds, q.delay_seconds, q.window_seconds, q.encrypted
    from (select u.id, u.ordinal from unnest(v_wanted) with ordinality u (id, ordinal) order by u.id) w
    cross join lateral (
      select p.id, p.queue_id from queen.partitions p where p.id = w.id for no key update
    ) p
    cross join lateral (
      select q.ttl_seconds, q.delay_seconds, q.window_seconds, q.encrypted
      from queen.queues q
      where q.id = p.queue_id and q.deleted_at is null
      offset 0
    ) q
    order by w.ordinal
  ) l;
  -- Read the clock after the last lock wait. Otherwise times could run against the offsets.
  v_now := queen.now();

  if coalesce(cardinality(v_found), 0) < cardinality(v_wanted) then
    return query
    select 'partition', w.ordinal::integer, w.id, null::timestamptz, null::bigint, 'QN004'
    from unnest(v_wanted) with ordinality w (id, ordinal)
    where v_found is null or w.id <> all (v_found);
    return;
  end if;

  if p_max_delay is not null and true = any (v_encrypted) then
    return query
    select 'plain', e.ordinal, null::bigint, null::timestamptz, null::bigint, 'QN017'
    from generate_series(1, cardinality(v_wanted)) e (ordinal)
    where v_encrypted[e.ordinal]
      and substr(
        case
          when e.ordinal <= cardinality(p_partition_ids) then p_bodies[e.ordinal]
          else p_scheduled_payloads[e.ordinal - cardinality(p_partition_ids)]
        end, 1, 1
      ) <> '\x01';
    if found then
      return;
    end if;
  end if;
  if cardinality(p_scheduled_partition_ids) > 0 then
    return query
    select 'scheduled', s.ordinal::integer, null::bigint, null::timestamptz, null::bigint, 'QN014'
    from unnest(p_scheduled_dues) with ordinality s (due_at, ordinal)
    where s.due_at > v_now + make_interval(secs => p_max_delay);
    if found then
      return;
    end if;
  end if;
  if p_producers is not null then
    return query select p.* from queen.check_producers(p_producers, p_sequences, v_now) p;
    if found then
      return;
    end if;
  end if;

  if p_keys is not null then
    return query
    select k.*
    from queen.push_keys(p_keys, p_key_entries, p_key_places, p_key_counts, v_wanted, p_counts, v_now) k;
    if found then
      return;
    end if;
  end if;
  if p_producers is not null then
    perform queen.record_producers(p_producers, p_sequences, v_now);
  end if;

  if cardinality(p_scheduled_partition_ids) > 0 then
    insert into queen.scheduled (queue_id, partition_id, due_at, ttl_seconds, key, payload, extras)
    select
      v_queue_ids[cardinality(p_partition_ids) + s.ordinal],
      s.partition_id,
      coalesce(s.due_at, v_now + make_interval(secs => s.delay)),
      s.ttl,
      k.key,
      s.payload,
      s.extras
    from unnest(
      p_scheduled_partition_ids, p_scheduled_delays, p_scheduled_dues, p_scheduled_payloads,
      p_scheduled_extras, p_scheduled_ttls
    ) with ordinality s (partition_id, delay, due_at, payload, extras, ttl, ordinal)
    left join queen.keys_of(p_keys, p_key_entries, p_key_places, p_key_counts) k
      on k.entry = cardinality(p_partition_ids) + s.ordinal
    order by s.ordinal;
    -- If all of these messages are cancelled, only this row leads to the empty partition.
    insert into queen.laggards (queue_id, kind, partition_id, look_at)
    select distinct v_queue_ids[cardinality(p_partition_ids) + s.ordinal], 'unused', s.partition_id, v_now
    from unnest(p_scheduled_partition_ids) with ordinality s (partition_id, ordinal)
    where not exists (select 1 from queen.segments e where e.partition_id = s.partition_id)
    order by s.partition_id
    on conflict (partition_id, kind) do nothing;
  end if;

  if cardinality(p_partition_ids) = 0 then
    return;
  end if;

  v_xid := pg_current_xact_id();
  return query
  with placed as materialized (
    select
      e.ordinal::integer as ordinal,
      e.partition_id,
      e.message_count,
      e.ttl,
      coalesce(n.next_offset, 0)
        + sum(e.message_count) over (partition by e.partition_id order by e.ordinal)
        - e.message_count as base_offset,
      row_number() over (partition by e.partition_id order by e.ordinal) = 1 as is_first,
      greatest(v_now, n.created_at) as created_at,
      coalesce(n.created_at, '-infinity') as last_at,
      -- Never below the xid of the segment before. Transactions that waited for each other's locks can have numbers that run
      -- against the offsets, and a reader by xid would read the partition out of order.
      greatest(v_xid, n.xid) as xid
    from unnest(p_partition_ids, p_counts, p_ttls)
      with ordinality e (partition_id, message_count, ttl, ordinal)
    left join lateral (
      select s.base_offset + s.message_count as next_offset, s.created_at, s.xid
      from queen.segments s
      where s.partition_id = e.partition_id
      order by s.base_offset desc
      limit 1
    ) n on true
  ),
  stored as (
    insert into queen.segments (
      partition_id, base_offset, message_count, created_at, queue_id, xid, expires_at, body, ends, extras
    )
    select
      p.partition_id,
      p.base_offset,
      p.message_count,
      p.created_at,
      v_queue_ids[p.ordinal],
      p.xid,
      case
        when coalesce(p.ttl, v_ttls[p.ordinal]) > 0
        then p.created_at + make_interval(secs => v_delays[p.ordinal] + coalesce(p.ttl, v_ttls[p.ordinal]))
      end,
      p_bodies[p.ordinal],
      p_ends[p.ordinal],
      p_extras[p.ordinal]
    from placed p
  ),
  -- Every push wakes all idle pairs, so pairs that are idle now became idle after the newest segment.
  woken as (
    update queen.consumers c
    set
      version = c.version + 1,
      idle_at = null,
      ready_at = w.created_at + make_interval(secs => w.wait_seconds)
    from (
      select i.ctid, p.created_at, greatest(v_delays[p.ordinal], v_windows[p.ordinal]) as wait_seconds
      from placed p
      cross join lateral (
        select i.ctid
        from queen.consumers i
        where i.partition_id = p.partition_id and i.idle_at >= p.last_at
        offset 0
      ) i
      where p.is_first
    ) w
    -- Idle pairs change only under the partition's lock, so this row version is still the newest.
    where c.ctid = w.ctid
  )
  select 'stored', p.ordinal, p.base_offset::bigint, p.created_at, p.xid::text::bigint, null
  from placed p
  order by p.ordinal;
end
$$;
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
