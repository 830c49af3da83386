-- Store segments and scheduled messages: either all of them, or none and the reasons.
--
-- p_partition_ids … p_ttls: an entry is one segment. Entries of a partition keep their order.
-- p_keys: the 16-byte hashes of transactionIds of queues that deduplicate, concatenated. A run has p_key_counts keys and
-- belongs to messages of entry p_key_entries, from index p_key_places on. Entries after the segments are the scheduled
-- messages, which have no offset yet.
-- p_producers, p_sequences: the sequences of idempotent producers, or null. A producer is its id, U+001F and its scope.
-- Servers of releases before scopes send only the id. p_digests … p_base_entries: the outcomes of their requests, which
-- repeated requests return (record_producers).
-- p_scheduled_…: messages that are delivered later.
-- p_known_offsets, p_known_ats, p_known_seconds: per entry, the newest block of keys that the caller knows, with the window for
-- which it has the keys (dedup_blocks.sql). p_in_blocks: whether the keys of an entry are stored as a block.
-- p_hits, p_hit_entries, p_hit_offsets: the keys that the caller has seen, and where.
--
-- Returns one `stored` row per entry, then one `gap` row per entry whose partition has blocks that the caller does not know. If
-- any message is rejected, stores nothing and returns only rejections:
-- `plain` QN017: an entry is not encrypted but its queue is (not checked if p_max_delay is null: accepted before that);
-- `duplicate`: a key is known (offset null while that message is scheduled);
-- `behind`: newer blocks of keys with more than p_gap_bytes exist, or other ones. The caller reads them first;
-- `producer`: QN009 if the sequence is stale, null if it was stored before;
-- `partition` QN004: the partition of an entry was removed;
-- `scheduled` QN014: a message is due more than p_max_delay seconds from now.
-- The caller removes those entries and calls again, because many requests share this transaction.
-- Locks: the slots, partitions by id, producers by id, then consumers that were idle.
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
  p_max_delay               double precision default null,
  p_known_offsets           bigint[] default null,
  p_known_ats               timestamptz[] default null,
  p_known_seconds           double precision[] default null,
  p_in_blocks               boolean[] default null,
  p_hits                    integer[] default null,
  p_hit_entries             integer[] default null,
  p_hit_offsets             bigint[] default null,
  p_gap_bytes               bigint default 0,
  p_digests                 bytea[] default null,
  p_outcomes                bytea[] default null,
  p_base_producers          integer[] default null,
  p_base_entries            integer[] default null
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
  v_now          timestamptz;
  v_wanted       bigint[] := p_partition_ids || p_scheduled_partition_ids;
  v_found        bigint[];
  v_is_encrypted boolean;
  v_states       text[];
  v_spans        interval[];
  v_searched     smallint[];
  v_xid          xid8;
begin
  perform queen.enter(v_wanted);
  select array_agg(p.id), bool_or(q.encrypted) into v_found, v_is_encrypted
  from (
    select p.id, p.queue_id from queen.partitions p where p.id = any (v_wanted) order by p.id for no key update
  ) p
  cross join lateral (
    select q.encrypted from queen.queues q where q.id = p.queue_id and q.deleted_at is null offset 0
  ) q;
  -- Read the clock after the last lock wait. Otherwise times could run against the offsets.
  v_now := queen.now();

  -- Fewer than the entries if partitions are missing, or if entries have the same partition.
  if coalesce(cardinality(v_found), 0) < cardinality(v_wanted) then
    return query
    select 'partition', w.ordinal::integer, w.id, null::timestamptz, null::bigint, 'QN004'
    from unnest(v_wanted) with ordinality w (id, ordinal)
    where v_found is null or w.id <> all (v_found);
    if found then
      return;
    end if;
  end if;

  if p_max_delay is not null and v_is_encrypted then
    return query
    select 'plain', e.ordinal::integer, null::bigint, null::timestamptz, null::bigint, 'QN017'
    from unnest(v_wanted) with ordinality e (partition_id, ordinal)
    cross join lateral (select p.queue_id from queen.partitions p where p.id = e.partition_id offset 0) p
    cross join lateral (select q.encrypted from queen.queues q where q.id = p.queue_id offset 0) q
    where q.encrypted
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
    v_spans := queen.dedup_windows(v_wanted);
    v_searched := queen.dedup_generations(v_wanted, v_now);
    v_states := queen.compare_blocks(
      v_wanted, p_known_offsets, p_known_ats, p_known_seconds, p_gap_bytes, v_spans, v_searched, v_now
    );
    return query
    select k.*
    from queen.push_keys(
      p_keys, p_key_entries, p_key_places, p_key_counts, v_wanted, p_counts, v_now, p_known_offsets, p_in_blocks, p_hits,
      p_hit_entries, p_hit_offsets, v_states, v_spans, v_searched
    ) k;
    if found then
      return;
    end if;
  end if;
  if p_producers is not null then
    perform queen.record_producers(
      p_producers, p_sequences, v_now, p_digests, p_outcomes, p_base_producers, p_base_entries,
      case when p_digests is not null then queen.next_offsets(p_partition_ids, p_counts) end
    );
  end if;

  if cardinality(p_scheduled_partition_ids) > 0 then
    insert into queen.scheduled (queue_id, partition_id, due_at, ttl_seconds, key, payload, extras)
    select
      p.queue_id,
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
    cross join lateral (select p.queue_id from queen.partitions p where p.id = s.partition_id offset 0) p
    left join queen.keys_of(p_keys, p_key_entries, p_key_places, p_key_counts) k
      on k.entry = cardinality(p_partition_ids) + s.ordinal
    order by s.ordinal;
    -- If all of these messages are cancelled, only this row leads to the empty partition.
    insert into queen.laggards (queue_id, kind, partition_id, look_at)
    select p.queue_id, 'unused', s.partition_id, v_now
    from (select distinct u.partition_id from unnest(p_scheduled_partition_ids) u (partition_id)) s
    cross join lateral (select p.queue_id from queen.partitions p where p.id = s.partition_id offset 0) p
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
      coalesce(n.next_offset, 0)
        + sum(e.message_count) over (partition by e.partition_id order by e.ordinal)
        - e.message_count as base_offset,
      row_number() over (partition by e.partition_id order by e.ordinal) = 1 as is_first,
      greatest(v_now, n.created_at) as created_at,
      coalesce(n.created_at, '-infinity') as last_at,
      -- Never below the xid of the segment before. Transactions that waited for each other's locks can have numbers that run
      -- against the offsets, and a reader by xid would read the partition out of order.
      greatest(v_xid, n.xid) as xid,
      q.id as queue_id,
      case
        when coalesce(e.ttl, q.ttl_seconds) > 0 then q.delay_seconds + coalesce(e.ttl, q.ttl_seconds)
      end as ttl,
      greatest(q.delay_seconds, q.window_seconds) as wait_seconds
    from unnest(p_partition_ids, p_counts, p_ttls)
      with ordinality e (partition_id, message_count, ttl, ordinal)
    cross join lateral (select p.queue_id from queen.partitions p where p.id = e.partition_id offset 0) p
    cross join lateral (
      select q.id, q.ttl_seconds, q.delay_seconds, q.window_seconds from queen.queues q where q.id = p.queue_id offset 0
    ) q
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
      p.partition_id, p.base_offset, p.message_count, p.created_at, p.queue_id, p.xid,
      p.created_at + make_interval(secs => p.ttl),
      p_bodies[p.ordinal], p_ends[p.ordinal], p_extras[p.ordinal]
    from placed p
  ),
  -- Every push wakes all idle pairs, so pairs that are idle now became idle after the newest segment.
  woken as (
    update queen.consumers c
    set version = c.version + 1, idle_at = null, ready_at = w.created_at + make_interval(secs => w.wait_seconds)
    from (
      select i.ctid, p.created_at, p.wait_seconds
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
  if 'gap' = any (v_states) then
    return query
    select 'gap', s.ordinal::integer, null::bigint, null::timestamptz, null::bigint, null
    from unnest(v_states) with ordinality s (state, ordinal)
    where s.state = 'gap';
  end if;
end
$$;
