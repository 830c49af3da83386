-- Long operations that outlive the process that began them.

-- name: begin_operation
-- Start a long operation; deletes operations that ended a week ago.
with forgotten as (
  delete from queen.operations o where o.state <> 'running' and o.finished_at < queen.now() - interval '7 days'
),
entered as (
  select queen.enter_named(array[$2])
)
insert into queen.operations as o (kind, queue, arguments, total, owner, seen_at, created_by, created_at)
select $1, $2, $3::jsonb, $4::bigint, $5, queen.now(), $6, queen.now()
from entered
returning id, kind, queue, arguments, state, cursor, done, total, error, owner, created_by, created_at, finished_at;

-- name: step_operation
-- Store the progress of an operation, and what it waits for; no row if another process runs it.
update queen.operations o
set cursor = $3, done = o.done + $4, error = $5, seen_at = queen.now()
where o.id = $1 and o.owner = $2 and o.state = 'running'
returning coalesce((o.arguments ->> 'is_cancelled')::boolean, false) as is_cancelled;

-- name: cancel_operation
-- Let a running operation undo its unfinished work and end.
update queen.operations o
set arguments = o.arguments || '{"is_cancelled": true}'
where o.id = $1 and o.state = 'running'
returning o.id;

-- name: end_operation
-- End a running operation as done, failed or cancelled; if a process is given, only if it runs there.
update queen.operations o
set state = $3, error = $4, finished_at = queen.now()
where o.id = $1 and o.state = 'running' and o.owner = coalesce($2, o.owner)
returning o.id;

-- name: adopt_operations
-- Take over operations of processes that stopped reporting; $2: kinds that this process can run.
update queen.operations o
set owner = $1, seen_at = queen.now()
where o.id in (
  select p.id
  from queen.operations p
  where p.state = 'running' and p.seen_at < queen.now() - interval '15 seconds' and p.owner <> $1
    and p.kind = any($2::text[])
  order by p.id
  limit 10
  for update skip locked
)
returning o.id, o.kind, o.queue, o.arguments, o.state, o.cursor, o.done, o.total, o.error, o.owner, o.created_by,
  o.created_at, o.finished_at;

-- name: list_operations
-- Operations before an id, newest first; $3: patterns of queues.
select o.id, o.kind, o.queue, o.arguments, o.state, o.cursor, o.done, o.total, o.error, o.owner, o.created_by,
  o.created_at, o.finished_at
from queen.operations o
where o.id < $1
  and queen.sees(o.queue, (select q.namespace from queen.queues q where q.name = o.queue and q.deleted_at is null), $3)
order by o.id desc
limit $2;

-- name: operation_with_id
-- One operation.
select o.id, o.kind, o.queue, o.arguments, o.state, o.cursor, o.done, o.total, o.error, o.owner, o.created_by,
  o.created_at, o.finished_at
from queen.operations o
where o.id = $1;
