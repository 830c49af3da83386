-- Server processes, and the maintenance modes that they share.

-- name: pulse
-- Record that this process is running; returns the shared state, and whether messages wait for a process that moves or
-- forwards them. Those of an awake appender don't wait.
select
  p.is_push_off, p.is_pop_off, p.redaction, p.has_orphans,
  case
    when exists (select 1 from queen.appender a where a.is_awake and a.until > queen.now()) then false
    else exists (select 1 from queen.outbox o where o.error is null)
  end as has_outbox,
  exists (select 1 from queen.forwards) as has_forwards
from queen.pulse_v2($1, $2, $3, $4, $5, $6, $7) p;

-- name: leave
-- Remove this process from the list.
delete from queen.instances where id = $1;

-- name: list_instances
-- Processes that reported recently, by id.
select
  i.id, i.host, i.pid, i.version, i.started_at, i.seen_at, i.waiters,
  i.seen_at > queen.now() - interval '15 seconds' as is_alive
from queen.instances i
where i.id > $1
order by i.id
limit $2;

-- name: addresses
-- The addresses of the servers that run now, and the databases that they prefer; null for all.
select distinct i.address, i.preferred
from queen.instances i
where i.seen_at > queen.now() - interval '15 seconds'
order by i.address, i.preferred
limit 1000;

-- name: maintenance
-- The state of a maintenance mode.
select m.mode, m.enabled, m.changed_at, m.changed_by from queen.maintenance m where m.mode = $1;

-- name: set_maintenance
-- Turn a maintenance mode on or off for all processes.
insert into queen.maintenance as m (mode, enabled, changed_at, changed_by)
values ($1, $2, queen.now(), $3)
on conflict (mode) do update
set enabled = excluded.enabled, changed_at = excluded.changed_at, changed_by = excluded.changed_by
returning mode, enabled, changed_at, changed_by;
