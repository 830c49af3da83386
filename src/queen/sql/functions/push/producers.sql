-- The last request of a producer in a scope: its sequence, its digest if known, and where its messages were stored.
--
-- Returns no row if it has none. A caller relies on the answer "stored before". So the row's lock waits for a running
-- request, and the commit waits for the same standbys as the commit of a push. Rows that servers of releases before scopes
-- stored count too, as in queen.check_producers.
-- Locks: producers.
create or replace function queen.last_request (p_producer_id text, p_scope text)
  returns table (sequence bigint, digest bytea, outcome bytea, bases bigint[], stale integer[])
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  perform 1
  from (
    select p.scope
    from queen.producers p
    where p.producer_id = p_producer_id and p.scope = any (array['', p_scope])
    order by p.scope
    for no key update
  ) l;
  return query
  select p.sequence, p.digest, p.outcome, p.bases, p.stale
  from queen.producers p
  where p.producer_id = p_producer_id and p.scope = any (array['', p_scope])
  order by p.sequence desc, p.scope desc
  limit 1;
end
$$;

-- Lock producers. Return those whose sequence was stored before (code null) or is stale (QN009).
--
-- A producer with a scope is checked against rows of that scope and of '', which servers of releases before scopes write.
-- A producer without a scope comes from such a server and is checked against all scopes: until that server is replaced, a
-- repeated request may reach it or its successor.
-- Locks: an advisory lock per new producer id, then producers by (id, scope).
create or replace function queen.check_producers (p_producers text[], p_sequences bigint[], p_now timestamptz)
  returns table (kind text, ordinal integer, "offset" bigint, created_at timestamptz, xid bigint, code text)
  language plpgsql
  volatile
as $$
#variable_conflict use_column
begin
  loop
    -- Lock the rows if all producers have one.
    perform 1
    from (
      select distinct n.producer_id, s.scope
      from queen.named_producers(p_producers) n
      cross join unnest(n.scopes) s (scope)
      order by n.producer_id, s.scope
    ) n
    cross join lateral (
      select p.sequence
      from queen.producers p
      where p.producer_id = n.producer_id and p.scope = n.scope
      for no key update
    ) l
    where not exists (
      select 1
      from queen.named_producers(p_producers) n
      where not exists (select 1 from queen.producers p where p.producer_id = n.producer_id and p.scope = n.scope)
    );
    exit when found or cardinality(p_producers) = 0;

    -- The first requests of a producer wait for each other, with and without a scope.
    perform pg_advisory_xact_lock(n.lock)
    from (
      select distinct hashtextextended('queen.producer', hashtextextended(n.producer_id, 0)) as lock
      from queen.named_producers(p_producers) n
      where not exists (select 1 from queen.producers p where p.producer_id = n.producer_id and p.scope = n.scope)
      order by lock
    ) n;
    insert into queen.producers (producer_id, scope, sequence, at)
    select distinct n.producer_id, n.scope, -1, p_now
    from queen.named_producers(p_producers) n
    where not exists (select 1 from queen.producers p where p.producer_id = n.producer_id and p.scope = n.scope)
    order by n.producer_id, n.scope;
  end loop;

  return query
  select
    'producer', n.ordinal::integer, null::bigint, null::timestamptz, null::bigint,
    case when p_sequences[n.ordinal] < l.sequence then 'QN009' end
  from queen.named_producers(p_producers) n
  cross join lateral (
    select max(p.sequence) as sequence
    from unnest(n.scopes) s (scope)
    cross join lateral (
      select p.sequence
      from queen.producers p
      where p.producer_id = n.producer_id and p.scope = s.scope
      offset 0
    ) p
  ) l
  where p_sequences[n.ordinal] <= l.sequence;
end
$$;

-- Split producers into id and scope: the scope that each is recorded under, and the scopes that it is checked against.
create or replace function queen.named_producers (p_producers text[])
  returns table (ordinal bigint, producer_id text, scope text, scopes text[])
  language sql
  stable
  rows 10
as $$
  select
    n.ordinal, i.producer_id, split_part(n.producer, e'\x1f', 2),
    case
      when i.producer_id <> n.producer then array['', split_part(n.producer, e'\x1f', 2)]
      else array(select p.scope from queen.producers p where p.producer_id = i.producer_id)
    end
  from unnest(p_producers) with ordinality n (producer, ordinal)
  cross join lateral (select split_part(n.producer, e'\x1f', 1) as producer_id) i
$$;

-- Record the last requests of producers that the caller has checked, with the outcomes that repeated requests return.
--
-- p_digests: null for requests that are never repeated. p_outcomes: bytes of the engine. p_base_producers, p_base_entries: the
-- offsets that those bytes are relative to, as numbers of producer and entry. p_offsets: the first offset of each entry.
-- p_stale: which advances were too late. Raises 40001 if a producer was forgotten after the check.
create or replace function queen.record_producers (
  p_producers      text[],
  p_sequences      bigint[],
  p_now            timestamptz,
  p_digests        bytea[] default null,
  p_outcomes       bytea[] default null,
  p_base_producers integer[] default null,
  p_base_entries   integer[] default null,
  p_offsets        bigint[] default null,
  p_stale          integer[] default null
)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_firsts   integer[];
  v_lasts    integer[];
  v_recorded integer;
begin
  -- Entries of a producer are adjacent. Note where they begin and end: a search for each would be quadratic.
  v_firsts := array_fill(null::integer, array[cardinality(p_producers)]);
  v_lasts := v_firsts;
  for v_place in 1 .. coalesce(cardinality(p_base_producers), 0) loop
    v_firsts[p_base_producers[v_place]] := coalesce(v_firsts[p_base_producers[v_place]], v_place);
    v_lasts[p_base_producers[v_place]] := v_place;
  end loop;
  update queen.producers p
  set
    sequence = n.sequence,
    at = p_now,
    digest = n.digest,
    outcome = n.outcome,
    bases = case
      when n.digest is not null then array(
        select p_offsets[p_base_entries[i.place]]
        from generate_series(v_firsts[n.ordinal], v_lasts[n.ordinal]) i (place)
      )
    end,
    stale = case when n.digest is not null then p_stale end
  from (
    select distinct on (n.producer)
      n.ordinal, split_part(n.producer, e'\x1f', 1) as producer_id, split_part(n.producer, e'\x1f', 2) as scope,
      n.sequence, n.digest, n.outcome
    from unnest(p_producers, p_sequences, p_digests, p_outcomes)
      with ordinality n (producer, sequence, digest, outcome, ordinal)
    order by n.producer, n.sequence desc
  ) n
  where p.producer_id = n.producer_id and p.scope = n.scope;
  get diagnostics v_recorded = row_count;
  -- A row that was deleted while the caller waited for its lock. The caller repeats the whole call.
  if v_recorded < (select count(distinct n.producer) from unnest(p_producers) n (producer)) then
    raise exception 'a producer was forgotten during its request' using errcode = '40001';
  end if;
end
$$;

-- Record the outcome of a transaction's request that was just stored, so that a repeated request returns it.
--
-- p_kinds, p_ordinals, p_offsets: the rows that transact returned. The others are those of record_producers. Returns no row, because
-- it runs next to transact in one statement.
create or replace function queen.record_outcomes (
  p_producers      text[],
  p_sequences      bigint[],
  p_digests        bytea[],
  p_outcomes       bytea[],
  p_base_producers integer[],
  p_base_entries   integer[],
  p_kinds          text[],
  p_ordinals       integer[],
  p_offsets        bigint[]
)
  returns setof text
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_stale integer[];
begin
  if not queen.is_applied(p_kinds) then
    return;
  end if;
  if 'stale' = any (p_kinds) then
    v_stale := array(
      select r.ordinal - 1 from unnest(p_kinds, p_ordinals) r (kind, ordinal) where r.kind = 'stale' order by r.ordinal
    );
  end if;
  perform queen.record_producers(
    p_producers, p_sequences, queen.now(), p_digests, p_outcomes, p_base_producers, p_base_entries,
    array(
      select r."offset"
      from unnest(p_kinds, p_ordinals, p_offsets) r (kind, ordinal, "offset")
      where r.kind = 'stored'
      order by r.ordinal
    ),
    v_stale
  );
end
$$;

-- The offsets at which the messages of each entry are about to be stored. The caller has locked the partitions.
create or replace function queen.next_offsets (p_partition_ids bigint[], p_counts integer[])
  returns bigint[]
  language plpgsql
  stable
as $$
begin
  return array(
    select
      coalesce(n.next_offset, 0)
        + sum(e.message_count) over (partition by e.partition_id order by e.ordinal)
        - e.message_count
    from unnest(p_partition_ids, p_counts) with ordinality e (partition_id, message_count, ordinal)
    left join lateral (
      select s.base_offset + s.message_count as next_offset
      from queen.segments s
      where s.partition_id = e.partition_id
      order by s.base_offset desc
      limit 1
    ) n on true
    order by e.ordinal
  );
end
$$;

-- Abandon a batch of another database: its messages are not stored later either. Returns false if they were stored.
--
-- It is recorded without messages, under a digest that no request has. An attempt that is still on its way finds that. The slot of
-- the queue is held, so that the record moves with the slot. Raises QN018 if another database owns it.
-- Locks: the slot of the queue, producers.
create or replace function queen.abandon_batch (p_queue text, p_producer text, p_sequence bigint)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  c_abandoned constant bytea := '\x00';
  v_now      timestamptz;
begin
  perform queen.enter(array(select h.slot::bigint << 53 from queen.homes h where h.name = p_queue));
  v_now := queen.now();
  if not exists (select 1 from queen.check_producers(array[p_producer], array[p_sequence], v_now)) then
    perform queen.record_producers(array[p_producer], array[p_sequence], v_now, array[c_abandoned], array[c_abandoned]);
  end if;
  return exists (
    select 1
    from queen.producers p
    where p.producer_id = split_part(p_producer, e'\x1f', 1) and p.scope = split_part(p_producer, e'\x1f', 2)
      and p.sequence = p_sequence and p.digest = c_abandoned
  );
end
$$;
