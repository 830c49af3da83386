-- The connection: applied migrations, the identity of the server, its clock, notifications.

-- name: migrations
-- Applied migrations.
select name, checksum, applied_at from queen.migrations order by name;

-- name: identity
-- The identity of the server: a change means another timeline, and all caches are invalid.
select
  (select system_identifier from pg_control_system())::text || '/' || case
    -- The name of a segment of WAL begins with the timeline. The last checkpoint may be of an older one.
    when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
  end as identity,
  pg_is_in_recovery() as is_standby,
  current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes;

-- name: notify
-- Notify other processes which queues have work.
select pg_notify('queen', $1);

-- name: now hot
-- The clock.
select queen.now() as now;

-- name: warm
-- Plan the hot functions in this session, and let the driver load the types of their arguments.
select
  queen.warm(), $1::bigint[], $2::integer[], $3::bytea[], $4::double precision[], $5::text[], $6::timestamptz[],
  $7::uuid[], null::int8multirange;

-- name: migration_holder
-- The session that holds the migration lock, and for how long its transaction has run.
select
  l.pid, a.application_name, a.state,
  extract(epoch from clock_timestamp() - a.xact_start)::bigint as seconds
from pg_locks l
left join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 1
  and l.database = (select d.oid from pg_database d where d.datname = current_database())
  and (l.classid::bigint << 32) | l.objid::bigint = hashtext('queen.migrations');
