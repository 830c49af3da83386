-- Several databases that should belong together, of which one may have been restored to an earlier state.

-- name: owned_queues
-- The next queues of the slots that this database owns, after a name.
select q.name, q.slot
from queen.queues q
join queen.slots s on s.slot = q.slot and s.state = 'owned'
where q.deleted_at is null and q.name > $1
order by q.name
limit 10000;

-- name: other_homes
-- Those of these queues that the first database does not find in their slots.
select n.name, n.slot, h.slot as recorded
from unnest($1::text[], $2::smallint[]) n (name, slot)
left join queen.homes h on h.name = n.name
where h.slot is distinct from n.slot
order by n.name;

-- name: newest_ids
-- The newest ids here that each database has created, by its number.
select n.sequence, n.number, max(n.id)::bigint as newest
from (
  select 'queen.data_key_ids' as sequence, k.id % 1024 as number, k.id::bigint from queen.data_keys k
  union all
  select 'queen.dead_letters_id_seq', d.id % 1024, d.id from queen.dead_letters d
  union all
  select 'queen.groups_id_seq', g.id % 1024, g.id from queen.groups g
  union all
  select 'queen.queues_id_seq', q.id % 1024, q.id from queen.queues q
  union all
  select 'queen.scheduled_id_seq', s.id % 1024, s.id from queen.scheduled s
  union all
  select 'queen.traces_id_seq', t.id % 1024, t.id from queen.traces t
) n
group by n.sequence, n.number;

-- name: used_ids
-- The last ids of this database, in sequences that are unique in all databases.
select s.name::text as sequence, s.last_value - (pg_sequence_last_value(s.name) is null)::integer as used
from queen.shared_sequences() s;

-- name: pass_shared_id
-- The next id of a sequence follows this one, which has the same remainder.
select setval($1::text::regclass, $2::bigint + 1024, false);

-- name: sent_batches
-- Per queue in another database: the last batch, whether it has arrived, and how many messages wait.
select
  coalesce(b.queue, o.queue) as queue,
  coalesce(b.sequence, 0) as sequence,
  not exists (select 1 from queen.forwards f where f.queue = b.queue and f.position <= b.last_position) as is_ended,
  -- The other database forgets a producer after seven days.
  coalesce(b.sequence, 0) > extract(epoch from queen.now() - interval '6 days') * 1000000 as is_recent,
  coalesce(o.count, 0) + (select count(*) from queen.forwards f where f.queue = b.queue) as waiting
from queen.forward_batches b
full join (
  select o.item ->> 'queue' as queue, count(*) as count from queen.outbox o where o.error is null group by 1
) o on o.queue = b.queue;

-- name: stored_batches
-- The last batch that each other database has sent for each queue.
select substr(p.scope, 8) as queue, substr(p.producer_id, 4)::integer as number, p.sequence
from queen.producers p
where p.producer_id ~ '^db:[0-9]+$' and p.scope like 'outbox:%';

-- name: set_aside
-- Keep messages of a queue in the outbox, with a reason not to send them.
with moved as (
  delete from queen.forwards f where f.queue = $1 returning f.outbox_id, f.item, f.payload
), ended as (
  update queen.forward_batches b set last_position = 0 where b.queue = $1
), kept as (
  insert into queen.outbox as k (id, item, payload, error) overriding system value
  select m.outbox_id, m.item, m.payload, $2 from moved m
)
update queen.outbox o set error = $2 where o.item ->> 'queue' = $1 and o.error is null;

-- name: raise_epoch
-- An owner continues after the epoch that another database has recorded.
update queen.slots set epoch = $2 where slot = $1 and state = 'owned' and epoch < $2;
