-- Shares: each database may use a part of a spread queue's limit. The first database decides them.
--
-- A database obeys a lower share at once, but it still uses what it has claimed before. It has *reserved* the higher one of both.
-- The reserved parts of all databases together never exceed the limit, because the first database raises a share only by what no
-- database has reserved. `moved_leases` are added to shares of leases, and their sum over all databases is at most 0.

-- The shares of this database, and how it uses them, for groups of spread queues with a limit. p_group_ids: null for all.
--
-- A queue without groups has one row without a group. The shares are not limited by the options of the queue here.
create or replace function queen.share_reports (p_group_ids bigint[])
  returns table (
    group_id             bigint,
    revision             bigint,
    rate_limit           integer,
    rate_share           integer,
    rate_reserved        bigint,
    rate_used            bigint,
    concurrency_limit    integer,
    concurrency_share    integer,
    concurrency_reserved bigint,
    concurrency_used     bigint,
    moved_leases         integer,
    is_ready             boolean,
    has_slots            boolean
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  c_most  constant integer := 100000;
  v_now   timestamptz := queen.now();
  v_part  integer := queen.is_first()::integer;
  v_slots boolean := exists (select 1 from queen.slots s where s.state = 'owned' limit 1);
begin
  return query
  select
    g.id,
    coalesce(l.share_revision, 0),
    q.rate_limit,
    s.rate_share,
    greatest(s.rate_share, s.rate_used),
    s.rate_used,
    q.leases,
    s.concurrency_share,
    greatest(s.concurrency_share, s.live - s.moved_leases),
    s.live,
    s.moved_leases,
    exists (select 1 from queen.ready_groups(array[g.id])),
    v_slots
  from queen.definitions d
  cross join lateral (
    select
      q.id, q.rate_ms,
      case when q.rate_per = 'queue' then q.rate_max end as rate_limit,
      nullif(q.concurrency_limit, 0) as leases
    from queen.queues q
    where q.id = d.queue_id and q.slot is null and q.deleted_at is null
    offset 0
  ) q
  left join lateral (
    select g.id from queen.groups g where g.queue_id = q.id and g.deleted_at is null offset 0
  ) g on true
  left join lateral (
    select l.* from queen.limits l where l.group_id = g.id order by l.version desc limit 1
  ) l on true
  cross join lateral (
    select
      coalesce(l.rate_share, q.rate_limit * v_part) as rate_share,
      q.rate_limit - queen.allowance(l.recent, q.rate_limit, q.rate_ms, v_now) as rate_used,
      coalesce(l.concurrency_share, q.leases * v_part) as concurrency_share,
      case when q.leases is not null then queen.live_leases(g.id, true, v_now, c_most) end as live,
      coalesce(l.moved_leases, 0) as moved_leases
    offset 0
  ) s
  where num_nonnulls(q.rate_limit, q.leases) > 0 and (p_group_ids is null or g.id = any (p_group_ids));
end
$$;

-- Obey later decisions about shares.
--
-- When it returns, pops that began under an earlier share have ended. A crash does not undo it, because other databases get what
-- this one no longer has. Locks: limits by group.
create or replace function queen.apply_shares (
  p_group_ids     bigint[],
  p_revisions     bigint[],
  p_rates         integer[],
  p_concurrencies integer[]
)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_new record;
begin
  if current_setting('synchronous_commit') in ('off', 'local') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  for v_new in
    select u.*
    from unnest(p_group_ids, p_revisions, p_rates, p_concurrencies) u (group_id, revision, rate, concurrency)
    where exists (select 1 from queen.groups g where g.id = u.group_id and g.deleted_at is null)
    order by u.group_id
  loop
    perform queen.add_limit(v_new.group_id);
    update queen.limits l
    set share_revision = v_new.revision, rate_share = v_new.rate, concurrency_share = v_new.concurrency
    where l.group_id = v_new.group_id and l.share_revision < v_new.revision;
  end loop;
end
$$;

-- Decide the shares of a group, in the first database. Returns those that databases do not have yet.
--
-- p_reports: rows of share_reports by database, with the shares that each should have (`rate_wish`, `concurrency_wish`, which
-- includes moved leases). A wish is granted as far as the limit allows. A lower share takes effect, but what a database has
-- reserved is free only after it has reported that. Without a report, it keeps its share.
-- Locks: an advisory lock of the group's shares; its shares.
create or replace function queen.decide_shares (p_group_id bigint, p_reports jsonb)
  returns table (database text, revision bigint, rate_share integer, concurrency_share integer)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  c_unknown constant bigint := 2147483647;
  v_queue   queen.queues;
  v_row     record;
  v_rate    integer;
  v_leases  integer;
  v_free    record;
begin
  perform pg_advisory_xact_lock(hashtextextended('queen.shares', p_group_id));
  select q.* into v_queue
  from queen.groups g
  join queen.queues q on q.id = g.queue_id
  where g.id = p_group_id and g.deleted_at is null and q.deleted_at is null;
  if not found then
    return;
  end if;
  perform queen.note_reports(p_group_id, p_reports);
  -- The first database had no limit but that of the queue. It reports what it has reserved after it has got a share.
  update queen.shares s
  set
    revision = s.revision + 1,
    rate_share = coalesce(s.rate_share, case when v_queue.rate_per = 'queue' then v_queue.rate_max end),
    rate_reserved = case when s.rate_share is null and v_queue.rate_per = 'queue' then c_unknown else s.rate_reserved end,
    concurrency_share = coalesce(s.concurrency_share, nullif(v_queue.concurrency_limit, 0)),
    concurrency_reserved = case
      when s.concurrency_share is null and v_queue.concurrency_limit > 0 then c_unknown
      else s.concurrency_reserved
    end
  where s.group_id = p_group_id and s.database = 0 and (
    (s.rate_share is null and v_queue.rate_per = 'queue')
    or (s.concurrency_share is null and v_queue.concurrency_limit > 0)
  );
  select f.* into v_free from queen.free_shares(p_group_id, v_queue, p_reports) f;
  for v_row in
    select s.*, r.rate_wish, r.concurrency_wish - s.moved_leases as concurrency_wish
    from jsonb_to_recordset(p_reports) r (database text, rate_wish integer, concurrency_wish integer)
    join queen.databases d on d.name = r.database and d.removed_at is null
    join queen.shares s on s.group_id = p_group_id and s.database = d.number
    order by s.database
  loop
    v_rate := queen.allowed_share(v_row.rate_wish, v_row.rate_share, v_row.rate_reserved, v_free.rate);
    v_free.rate := v_free.rate - greatest(0, v_rate - v_row.rate_reserved);
    v_leases := queen.allowed_share(
      v_row.concurrency_wish, v_row.concurrency_share, v_row.concurrency_reserved, v_free.concurrency
    );
    v_free.concurrency := v_free.concurrency - greatest(0, v_leases - v_row.concurrency_reserved);
    update queen.shares s
    set
      revision = s.revision + 1,
      rate_share = v_rate, rate_reserved = greatest(s.rate_reserved, v_rate),
      concurrency_share = v_leases, concurrency_reserved = greatest(s.concurrency_reserved, v_leases)
    where s.group_id = p_group_id and s.database = v_row.database
      and (s.rate_share, s.concurrency_share) is distinct from (v_rate, v_leases);
  end loop;
  return query
  select d.name, s.revision, s.rate_share, s.concurrency_share
  from jsonb_to_recordset(p_reports) r (database text, revision bigint)
  join queen.databases d on d.name = r.database and d.removed_at is null
  join queen.shares s on s.group_id = p_group_id and s.database = d.number and s.revision > r.revision;
end
$$;

-- The share that a database gets: a lower one at once, a higher one only up to the free part and its own reserved part. The
-- share of the first database does not rise before it has reported the reserved part.
create or replace function queen.allowed_share (p_wish integer, p_share integer, p_reserved bigint, p_free bigint)
  returns integer
  language sql
  immutable
as $$
  select case
    when p_wish is null or p_share is null then p_share
    when p_wish <= p_share then p_wish
    when p_reserved = 2147483647 then p_share
    else greatest(p_share, least(p_wish, p_reserved + greatest(0, p_free)))::integer
  end
$$;

-- Store what databases report about their shares. A report about an earlier decision proves nothing. If it names a later one, this
-- database was restored, and the report counts.
create or replace function queen.note_reports (p_group_id bigint, p_reports jsonb)
  returns void
  language plpgsql
  volatile
as $$
begin
  insert into queen.shares (group_id, database, rate_share, concurrency_share)
  select p_group_id, d.number, case when d.number <> 0 then 0 end, case when d.number <> 0 then 0 end
  from queen.databases d
  where d.removed_at is null
  on conflict do nothing;
  update queen.shares s
  set
    revision = r.revision,
    moved_leases = r.moved_leases,
    rate_share = case when r.revision > s.revision then coalesce(r.rate_share, s.rate_share) else s.rate_share end,
    rate_reserved = coalesce(r.rate_reserved, s.rate_reserved),
    concurrency_share = case
      when r.revision > s.revision then coalesce(r.concurrency_share, s.concurrency_share)
      else s.concurrency_share
    end,
    concurrency_reserved = coalesce(r.concurrency_reserved, s.concurrency_reserved)
  from jsonb_to_recordset(p_reports) r (
    database text, revision bigint, moved_leases integer, rate_share integer, rate_reserved bigint,
    concurrency_share integer, concurrency_reserved bigint
  )
  join queen.databases d on d.name = r.database
  where s.group_id = p_group_id and s.database = d.number and s.revision <= r.revision;
end
$$;

-- The parts of the limits that no database has reserved. Below 0 if a limit was lowered.
--
-- A removed database has no slots, so it has no leases. Its claims count for one period. `moved_leases` that are above 0 in sum
-- are those that have left it, or a database was restored.
create or replace function queen.free_shares (
  p_group_id      bigint,
  p_queue         queen.queues,
  p_reports       jsonb,
  out rate        bigint,
  out concurrency bigint
)
  language plpgsql
  volatile
as $$
declare
  v_now     timestamptz := queen.now();
  -- Without all reports, the leases that have left the removed ones may be unknown.
  v_is_full boolean := not exists (
    select 1
    from queen.databases d
    where d.removed_at is null
      and not exists (select 1 from jsonb_to_recordset(p_reports) r (database text) where r.database = d.name)
  );
begin
  select
    p_queue.rate_max - sum(s.rate_reserved) filter (
      where coalesce(d.removed_at > v_now - make_interval(secs => p_queue.rate_ms / 1000.0), true)
    ),
    nullif(p_queue.concurrency_limit, 0)
      - sum(s.concurrency_reserved) filter (where d.removed_at is null or not v_is_full)
      - greatest(0, sum(s.moved_leases) filter (where d.removed_at is null))
  into rate, concurrency
  from queen.shares s
  join queen.databases d on d.number = s.database
  where s.group_id = p_group_id;
end
$$;
