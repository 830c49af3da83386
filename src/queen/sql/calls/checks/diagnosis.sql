-- The health of PostgreSQL: tables, transactions, settings, sessions, archiving.

-- name: tables
-- Sizes of our tables, dead rows, and when each was last vacuumed, from PostgreSQL's statistics.
select
  t.relname as name, pg_total_relation_size(t.relid) as total_bytes, pg_relation_size(t.relid) as heap_bytes,
  pg_indexes_size(t.relid) as index_bytes, t.n_live_tup as live_rows, t.n_dead_tup as dead_rows,
  greatest(t.last_vacuum, t.last_autovacuum) as vacuumed_at, greatest(t.last_analyze, t.last_autoanalyze) as analyzed_at
from pg_stat_user_tables t
where t.schemaname = 'queen'
order by t.relname;

-- name: oldest_transaction
-- The transaction that has been open for longest: vacuum keeps all rows that it may see.
select
  a.pid, a.application_name, a.usename as "user", a.state, a.xact_start as started_at,
  extract(epoch from clock_timestamp() - a.xact_start)::double precision as age_seconds
from pg_stat_activity a
where a.xact_start is not null and a.datname = current_database() and a.pid <> pg_backend_pid()
order by a.xact_start
limit 1;

-- name: horizon_holder
-- The oldest open transaction that may still store messages, in any database of this PostgreSQL server: pipelines, retention and
-- the outbox wait for it. No row if there is none. The start is null if this role may not see it.
select
  h.xid::text::bigint as xid, t.kind, t.pid, t."database", t."user", t.name, t.started_at,
  extract(epoch from clock_timestamp() - t.started_at)::double precision as age_seconds
from (select s.snapshot, pg_snapshot_xmin(s.snapshot) as xid from (select pg_current_snapshot() as snapshot) s) h
cross join lateral (
  select
    'session' as kind, a.pid, a.datname::text as "database", a.usename::text as "user", a.application_name as name,
    a.xact_start as started_at
  from pg_stat_activity a
  where a.backend_xid = h.xid::xid and a.pid <> pg_backend_pid()
  union all
  select 'prepared transaction', null, p.database::text, p.owner::text, p.gid, p.prepared
  from pg_prepared_xacts p
  where p.transaction = h.xid::xid
  union all
  -- A standby knows the open transactions of its primary, but not their sessions.
  select 'transaction of the primary', null, null, null, null, null
  where pg_is_in_recovery() and h.xid < pg_snapshot_xmax(h.snapshot)
) t
limit 1;

-- name: table_health
-- Sizes and dead row versions of our tables; the generations of dedup and dedup_blocks count as one each.
select
  regexp_replace(s.relname, '^(dedup|dedup_blocks)_\d+$', '\1') as "table",
  sum(s.n_dead_tup)::bigint as dead_tuples,
  sum(pg_total_relation_size(s.relid))::bigint as bytes
from pg_stat_user_tables s
where s.schemaname = 'queen'
group by 1
order by 1;

-- name: oldest_transaction_age
-- How long the oldest transaction of this database has been open.
select coalesce(extract(epoch from clock_timestamp() - min(a.xact_start)), 0)::double precision as seconds
from pg_stat_activity a
where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type = 'client backend';

-- name: server_settings
-- Settings of PostgreSQL by name; sizes in bytes and times in milliseconds.
select
  s.name,
  s.setting,
  case s.unit
    when '8kB' then 8192 when 'kB' then 1024 when 'MB' then 1048576 when 'B' then 1
    when 'ms' then 1 when 's' then 1000 when 'min' then 60000
  end::double precision * case when s.unit is not null then s.setting::double precision end as amount
from pg_settings s
where s.name = any ($1);

-- name: server_state
-- Clock, version, connections, and how close PostgreSQL is to transaction wraparound.
select
  clock_timestamp() as now,
  current_setting('server_version_num')::integer as version,
  current_setting('server_version') as version_text,
  current_setting('max_connections')::integer as max_connections,
  (select count(*) from pg_stat_activity a where a.backend_type = 'client backend')::integer as connections,
  (select age(d.datfrozenxid) from pg_database d where d.datname = current_database()) as frozen_age,
  pg_database_size(current_database()) as bytes,
  current_user::text as "user",
  (select r.rolsuper from pg_roles r where r.rolname = current_user) as is_superuser;

-- name: oldest_snapshots
-- Sessions, prepared transactions and replication slots that keep vacuum from removing dead rows.
select kind, name, xmin_age
from (
  select 'session' as kind, a.pid || ' ' || coalesce(a.application_name, '') as name, age(a.backend_xmin) as xmin_age
  from pg_stat_activity a
  where a.backend_xmin is not null and a.pid <> pg_backend_pid()
  union all
  select 'prepared transaction', p.gid, age(p.transaction) from pg_prepared_xacts p
  union all
  select 'replication slot', r.slot_name, greatest(age(r.xmin), age(r.catalog_xmin))
  from pg_replication_slots r
  where coalesce(r.xmin, r.catalog_xmin) is not null
) held
order by xmin_age desc nulls last
limit 10;

-- name: table_options
-- Storage options of our tables.
select c.relname as name, coalesce(c.reloptions, '{}') as options
from pg_class c
where c.relnamespace = to_regnamespace('queen') and c.relkind = 'r'
order by c.relname;

-- name: bloat
-- The estimated size of our tables' rows next to the size of the tables; null before the first analyze.
select
  c.relname as name, pg_relation_size(c.oid) as heap_bytes,
  (
    greatest(c.reltuples, 0) * (28 + (
      select sum((1 - s.null_frac) * s.avg_width) from pg_stats s where s.schemaname = 'queen' and s.tablename = c.relname
    )) * 100 / coalesce((select o.option_value::integer from pg_options_to_table(c.reloptions) o where o.option_name = 'fillfactor'), 100)
  )::double precision as needed_bytes
from pg_class c
where c.relnamespace = to_regnamespace('queen') and c.relkind = 'r'
order by c.relname;

-- name: indexes
-- Sizes of our indexes, the rows of their tables, and how often each was searched.
select
  i.indexrelname as name, i.relname as "table", pg_relation_size(i.indexrelid) as bytes,
  greatest(c.reltuples, 0)::bigint as rows, i.idx_scan as scans, x.indisvalid as is_valid
from pg_stat_user_indexes i
join pg_class c on c.oid = i.indexrelid
join pg_index x on x.indexrelid = i.indexrelid
where i.schemaname = 'queen'
order by pg_relation_size(i.indexrelid) desc, i.indexrelname;

-- name: changed_settings
-- Settings of PostgreSQL that differ from the default; masked if they may contain a password.
select
  s.name, s.unit, s.source,
  case when s.name ~ 'command|conninfo|passphrase|password' then case s.setting when '' then '' else '****' end else s.setting end
    as setting
from pg_settings s
where s.source not in ('default', 'override', 'client', 'session')
order by s.name;

-- name: sessions
-- Sessions and their wait events, without their statements.
select
  a.pid, a.application_name, a.state, a.wait_event_type, a.wait_event,
  extract(epoch from clock_timestamp() - a.xact_start)::double precision as transaction_seconds,
  extract(epoch from clock_timestamp() - a.state_change)::double precision as state_seconds
from pg_stat_activity a
where a.datname = current_database() and a.pid <> pg_backend_pid()
order by a.xact_start nulls last, a.pid
limit 200;

-- name: archiving
-- Whether this server can be restored: log level, checksums, archiving, standbys, and slots that keep WAL back.
select
  current_setting('wal_level') as wal_level,
  current_setting('data_checksums') as data_checksums,
  current_setting('archive_mode') as archive_mode,
  a.archived_count, a.failed_count,
  extract(epoch from clock_timestamp() - a.last_archived_time)::double precision as archived_seconds,
  coalesce(a.last_failed_time > a.last_archived_time, a.last_failed_time is not null) as is_failing,
  current_setting('archive_timeout') as archive_timeout,
  (select count(*) from pg_stat_replication)::integer as standbys,
  (
    select max(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn))::bigint
    from pg_replication_slots s
    where not s.active
  ) as idle_slot_bytes
from pg_stat_archiver a;
