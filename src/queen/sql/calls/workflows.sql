-- Workflows: runs of steps that follow each other.

-- name: start_workflow
-- Start a workflow; returns whether it is new.
select queen.start_workflow($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) as is_new;

-- name: signal_workflow
-- Send a signal to a workflow.
select steps, taken, has_ended from queen.signal_workflow($1, $2, $3, $4);

-- name: cancel_workflow
-- Stop a workflow, and undo its completed steps.
select was_running, has_ended, open_steps from queen.cancel_workflow($1, $2, $3);

-- name: await_moving_messages
-- Wait for transactions that move messages of a run from the outbox to the log. They can wait for locks that are taken before
-- those of runs, so queen.cancel_workflow skips their messages.
select o.id
from queen.outbox o
where o.id in (
  select s.outbox_id from queen.workflow_steps s where s.workflow_id = $1 and s.state = 'active'
  union all
  select p.outbox_id from queen.workflow_parts p where p.workflow_id = $1 and p.state = 'active'
)
order by o.id
for key share;

-- name: workflow_messages
-- Messages of a stopping run that can be removed, except those of steps that would have to be undone.
select s.name as step, p.part, s.token, s.queue, s.partition,
  concat_ws('/', w.id, s.name, p.part, w.number || '.' || s.tries) as transaction_id
from queen.workflows w
join queen.workflow_steps s on s.workflow_id = w.id and s.state = 'active' and s.kind in ('message', 'map')
left join queen.workflow_parts p on p.workflow_id = w.id and p.step = s.name and s.kind = 'map'
where w.id = $1 and w.state = 'stopping' and (s.kind = 'message' or p.state = 'active')
  and not (w.is_undone and exists (
    select 1 from queen.workflow_steps u where u.workflow_id = w.id and u.undoes = s.name
  ))
order by s.ordinal, p.part
limit $2;

-- name: drop_steps
-- Settle steps whose messages were removed; returns whether the run has ended.
select queen.drop_steps($1, $2, $3, $4) as has_ended;

-- name: fail_step
-- Fail a step whose message was removed; returns whether the run has ended.
select queen.fail_step($1, $2, $3, $4, $5) as has_ended;

-- name: retry_workflow
-- Run failed steps again, and the steps that follow.
select has_ended from queen.retry_workflow($1, $2);

-- name: delete_workflow
-- Delete a workflow that has ended.
select queen.delete_workflow($1);

-- name: workflow
-- One run.
select
  w.id, w.number, w.name, w.state, w.correlation_id, w.tags, w.metadata, w.trace_id, w.open_steps,
  (select count(*) from queen.workflow_steps s where s.workflow_id = w.id and s.kind <> 'undo') as total_steps,
  w.result, w.error, w.created_at, w.ended_at, queen.now() as now
from queen.workflows w
where w.id = $1;

-- name: open_workflows
-- The given runs that have not ended.
select w.id from queen.workflows w where w.id = any ($1) and w.ended_at is null;

-- name: workflow_queues
-- The queues that runs push to.
select s.workflow_id as id, array_agg(distinct s.queue) filter (where s.queue is not null) as queues
from queen.workflow_steps s
where s.workflow_id = any ($1)
group by s.workflow_id;

-- name: step_queues
-- The queues of steps.
select distinct s.queue
from unnest($1::text[], $2::text[]) k (workflow_id, name)
join queen.workflow_steps s on s.workflow_id = k.workflow_id and s.name = k.name
where s.queue is not null;

-- name: step_messages hot
-- The delivered messages that are encrypted or contain one of the tokens. A redriven message is read from its delivery.
select k.partition_id, m.payload, null::bytea as extras
from unnest($1::bigint[], $2::bigint[], $4::bigint[], $5::uuid[]) k (partition_id, "offset", delivery_id, token)
left join lateral (
  select d.payload
  from queen.deliveries d
  where d.id = k.delivery_id and d.token = k.token and d.payload is not null
  offset 0
) d on true
left join lateral (
  select s.base_offset, s.message_count, s.body, s.ends
  from queen.segments s
  where d.payload is null and s.partition_id = k.partition_id and s.base_offset <= k."offset"
  order by s.base_offset desc
  limit 1
) s on true
cross join lateral (
  select
    coalesce(
      d.payload,
      case
        when s.body is not null and k."offset" < s.base_offset + s.message_count
        then queen.payload_at(s.body, s.ends, (k."offset" - s.base_offset)::integer)
      end
    ) as payload
  offset 0
) m
where substr(m.payload, 1, 1) = '\x01'
  or exists (select 1 from unnest($3::text[]) t (token) where position(convert_to(t.token, 'UTF8') in m.payload) > 0);

-- name: workflow_steps
-- The steps of a run in declared order, or one of them; results if $2. job_id: transactionId of the last enqueued message.
select
  s.name, s.kind, s.queue, s.partition, s.template, s.priority, s.delay_seconds, s.items_of, s.signal, s.timeout_seconds,
  s.undoes, s.on_success, s.on_failure, s.needs_all, s.state, s.tries, s.parts, s.open_parts, s.failed_parts, s.attempts,
  case when $2 then s.result end as result, s.error, s.look_at, s.started_at, s.ended_at,
  case
    when s.kind in ('message', 'undo') and s.started_at is not null
    then concat_ws('/', w.id, s.name, w.number || '.' || s.tries)
  end as job_id
from queen.workflow_steps s
join queen.workflows w on w.id = s.workflow_id
where s.workflow_id = $1 and s.name = coalesce($3, s.name)
order by s.ordinal;

-- name: workflow_parts
-- Parts of a step, after one. The message of a part that a retry kept is unknown.
select
  p.part, p.state, p.attempts, p.result, p.error, p.ended_at,
  case
    when p.ended_at is null or p.ended_at >= s.started_at
    then concat_ws('/', w.id, s.name, p.part, w.number || '.' || s.tries)
  end as job_id
from queen.workflow_parts p
join queen.workflow_steps s on s.workflow_id = p.workflow_id and s.name = p.step
join queen.workflows w on w.id = p.workflow_id
where p.workflow_id = $1 and p.step = $2 and p.part > $3 and p.state = coalesce($4, p.state)
order by p.part
limit $5;

-- name: list_workflows
-- Runs before a number, newest first; $7: patterns that match all of their queues.
select
  w.id, w.number, w.name, w.state, w.correlation_id, w.tags, w.metadata, w.open_steps,
  (select count(*) from queen.workflow_steps s where s.workflow_id = w.id and s.kind <> 'undo') as total_steps,
  w.error, w.created_at, w.ended_at
from queen.workflows w
where w.number < $1
  and ($2::text is null or w.state = $2)
  and ($3::text is null or w.name = $3)
  and ($4::text is null or w.correlation_id = $4)
  and ($5::text is null or w.tags @> array[$5] and w.tags <> '{}')
  and ($7::text[] is null or (
    exists (select 1 from queen.workflow_steps s where s.workflow_id = w.id and s.queue is not null offset 0)
    and not exists (
      select 1
      from queen.workflow_steps s
      where s.workflow_id = w.id and s.queue is not null
        and not queen.sees(s.queue, (select q.namespace from queen.queues q where q.name = s.queue and q.deleted_at is null), $7)
      offset 0
    )
  ))
order by w.number desc
limit $6;

-- name: see_to_steps
-- Fail steps that waited too long or whose message was removed.
select looked, ended from queen.see_to_steps($1, $2);

-- name: forget_workflows
-- Delete some runs that ended long ago.
select queen.forget_workflows($1, $2, $3) as removed;
