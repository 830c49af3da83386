-- Move staged segments to the log and record the batch: all of it, exactly once.
--
-- p_app_id: null for a write that is never repeated. p_queue_id: the target of all segments. p_writes: the task attempts that
-- count, in the order of the DataFrame. p_entries: how many segments each has staged. p_query_id: the streaming query, or null.
-- p_fingerprint: the number and a checksum of the messages, or null.
-- Returns `published` and the number of messages, `replayed` if the batch was published before, `foreign` if another query
-- published one with this number, `changed` if this query published one with this number and other messages, or `lost` if
-- staged segments are missing and the batch was not published. Two queries are the same stream, and two batches the same, if
-- the plans of its batches are stored. Raises QN004 if a partition was removed, QN017 if a queue became encrypted.
-- Locks: the slot, the publication, partitions by id, then as queen.push.
create or replace function queen.publish (
  p_app_id      text,
  p_queue_id    bigint,
  p_version     bigint,
  p_writes      uuid[],
  p_entries     integer[],
  p_query_id    text,
  p_fingerprint text,
  out outcome   text,
  out messages  bigint
)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_version     bigint;
  v_query_id    text;
  v_fingerprint text;
  v_range       record;
  v_chunk       record;
  v_code        text;
begin
  -- Spark records the batch when this is committed. A proxy may have dropped the setting of the connection.
  if current_setting('synchronous_commit') in ('off', 'local') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  perform queen.enter_queue(p_queue_id);
  insert into queen.publications (app_id, queue_id, version, messages, published_at)
  select p_app_id, p_queue_id, -1, 0, queen.now()
  where p_app_id is not null
  on conflict (app_id, queue_id) do nothing;
  select p.version, p.query_id, p.fingerprint into v_version, v_query_id, v_fingerprint
  from queen.publications p
  where p.app_id = p_app_id and p.queue_id = p_queue_id
  for no key update;
  if p_version <= v_version then
    delete from queen.staged s where s.write_id = any (p_writes);
    outcome := case
      when p_query_id is null or exists (select 1 from queen.streams s where s.app_id = p_app_id) then 'replayed'
      when v_query_id <> p_query_id then 'foreign'
      -- Spark repeats only the last batch. An earlier one was planned again, and may have later messages too.
      when p_version < v_version or v_fingerprint <> p_fingerprint then 'changed'
      else 'replayed'
    end;
    return;
  end if;
  if exists (
    select 1
    from unnest(p_writes, p_entries) w (write_id, entries)
    cross join lateral (select count(*) as entries from queen.staged s where s.write_id = w.write_id) s
    where s.entries <> w.entries
  ) then
    outcome := 'lost';
    return;
  end if;
  outcome := 'published';
  messages := 0;
  -- Lock all partitions by id before the first segment, in the common order.
  perform 1
  from (
    select distinct s.partition_id as id
    from unnest(p_writes) w (write_id)
    cross join lateral (select s.partition_id from queen.staged s where s.write_id = w.write_id offset 0) s
    order by 1
  ) w
  cross join lateral (select p.id from queen.partitions p where p.id = w.id for no key update) p;

  -- An array is limited to one gigabyte, so push some entries of one write at a time.
  for v_range in
    select s.write_id, min(s.entry) as first, max(s.entry) as last
    from (
      select w.ordinal, s.write_id, s.entry, div(sum(s.bytes) over (partition by w.ordinal order by s.entry), 33554432) as chunk
      from unnest(p_writes) with ordinality w (write_id, ordinal)
      cross join lateral (
        select s.write_id, s.entry, octet_length(s.body) + octet_length(s.ends) + coalesce(octet_length(s.extras), 0) as bytes
        from queen.staged s
        where s.write_id = w.write_id
        offset 0
      ) s
    ) s
    group by s.ordinal, s.write_id, s.chunk
    order by s.ordinal, s.chunk
  loop
    select
      array_agg(s.partition_id order by s.entry) as partition_ids,
      array_agg(s.message_count order by s.entry) as counts,
      array_agg(s.body order by s.entry) as bodies,
      array_agg(s.ends order by s.entry) as ends,
      array_agg(s.extras order by s.entry) as extras,
      sum(s.message_count) as messages
    into v_chunk
    from queen.staged s
    where s.write_id = v_range.write_id and s.entry between v_range.first and v_range.last;
    select p.code into v_code
    from queen.push(
      v_chunk.partition_ids, v_chunk.counts, v_chunk.bodies, v_chunk.ends, v_chunk.extras,
      array_fill(null::double precision, array[cardinality(v_chunk.counts)]),
      p_max_delay => 0
    ) p
    where p.kind <> 'stored'
    limit 1;
    if found then
      raise exception 'batch % of % cannot be stored', p_version, p_app_id using errcode = v_code;
    end if;
    messages := messages + v_chunk.messages;
  end loop;

  delete from queen.staged s where s.write_id = any (p_writes);
  update queen.publications p
  set
    version = p_version, query_id = p_query_id, fingerprint = p_fingerprint, messages = p.messages + publish.messages,
    published_at = queen.now()
  where p.app_id = p_app_id and p.queue_id = p_queue_id;
end
$$;

-- Delete segments that were staged p_seconds ago or earlier and never published, at most p_limit. Returns how many.
create or replace function queen.forget_staged (p_seconds double precision, p_limit integer)
  returns integer
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  delete from queen.staged s
  where s.ctid = any (array(
    select o.ctid from queen.staged o
    where o.staged_at < queen.now() - make_interval(secs => p_seconds)
    order by o.staged_at
    limit p_limit
  ));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
