-- Where queues are, if there are several databases.

-- name: find_homes hot
-- The slots of queues, of those that have one.
select name, slot from queen.homes where name = any ($1);

-- name: claim_homes hot
-- Decide the slots of queues that have none yet.
select name, slot from queen.claim_homes($1, $2, $3);

-- name: copy_homes hot
-- Store slots that the first database decided.
select queen.copy_homes($1, $2);

-- name: reserve
-- Reserve a name for a database. Returns until when, or null if it is reserved for another one.
select queen.reserve($1, $2, $3) as until;

-- name: end_reservation
-- End a reservation, unless another request has extended it.
select queen.end_reservation($1, $2, $3);

-- name: owned_slots
-- The slots that this database owns.
select slot, epoch from queen.slots where state = 'owned';

-- name: slots_elsewhere
-- The slots that have left this database or are leaving it, and where to.
select slot, moved_to from queen.slots where state <> 'owned';

-- name: has_left
-- Whether this database does not own all of these slots.
select exists (select 1 from queen.slots where slot = any ($1) and state <> 'owned') as has_left;

-- name: databases
-- The databases that this one knows, without those that were removed.
select number, name, is_here from queen.databases where removed_at is null order by number;

-- name: removed_databases
-- Those of these databases that were removed.
select name from queen.databases where name = any ($1) and removed_at is not null;

-- name: remove_database
-- Remove a database, or list it again; whether it was listed, or removed.
select queen.remove_database($1, $2) as is_changed;

-- name: usage
-- The slots and queues of a database, and other objects that prevent its removal.
select
  (select count(*) from queen.slots s where s.state = 'owned') as slots,
  (select count(*) from queen.slots s where s.state = 'leaving') as leaving,
  (
    select count(*)
    from queen.queues q
    join queen.slots s on s.slot = q.slot and s.state <> 'gone'
    where q.deleted_at is null
  ) as queues,
  (select count(*) from queen.arrivals) as arrivals,
  (select count(*) from queen.outbox) as outbox,
  (select count(*) from queen.forwards) as forwards,
  (select count(*) from queen.workflows w where w.ended_at is null) as workflows,
  pg_database_size(current_database()) as bytes;

-- name: used_slots
-- The slots of this database that have queues or are moving, with the names of at most 100 queues of each.
select
  s.slot, s.state, s.epoch, s.moved_to, s.copied_to, coalesce(q.queue_count, 0) as queue_count, coalesce(q.names, '{}') as queues,
  array(select h.reason from queen.hindrances(s.slot) h where s.state = 'owned') as hindrances
from queen.slots s
left join (
  select q.slot, count(*) as queue_count, (array_agg(q.name order by q.name))[1:100] as names
  from queen.queues q
  where q.deleted_at is null
  group by q.slot
) q on q.slot = s.slot
where s.state <> 'gone'
  and (q.names is not null or s.copied_to is not null or s.state = 'leaving' or not queen.is_empty_slot(s.slot))
order by s.slot;

-- name: slot_loads
-- Messages and payload bytes per second that were pushed to each slot, over the last five full minutes and the current one.
select
  q.slot, sum(c.pushed / t.seconds)::double precision as messages_per_second,
  sum(c.pushed / t.seconds * coalesce(m.mean_bytes, 0))::double precision as bytes_per_second
from (
  select date_trunc('minute', queen.now() - interval '5 minutes', 'UTC') as since, queen.now() as until
) w
cross join lateral (select extract(epoch from w.until - w.since)::double precision as seconds) t
cross join lateral (
  -- Only queues with messages in that time, whatever the number of others.
  select c.queue_id, sum(c.pushed) as pushed
  from queen.counters c
  where c.minute >= w.since and c.group_id = 0
  group by c.queue_id
) c
join queen.queues q on q.id = c.queue_id and q.deleted_at is null
join queen.slots s on s.slot = q.slot and s.state <> 'gone'
left join lateral (
  select m.mean_bytes
  from queen.samples m
  where m.queue_id = c.queue_id and m.group_id = 0 and m.minute >= w.until - interval '1 hour'
    and m.mean_bytes is not null
  order by m.minute desc
  limit 1
) m on true
group by q.slot;

-- name: slot_states
-- The number of slots by state, with the name of this database; no rows if it is the only one.
select d.name as database, n.state, (select count(*) from queen.slots s where s.state = n.state) as slots
from queen.databases d
cross join (values ('owned'), ('leaving'), ('gone')) n (state)
where d.is_here;

-- name: slots
-- All slots, as this database knows them, and the sources of those that are copied to it.
select s.slot, s.state, s.epoch, s.moved_to, s.copied_to, a.source
from queen.slots s
left join queen.arrivals a on a.slot = s.slot
order by s.slot;

-- name: slots_of_namespace
-- The slots that have queues of a namespace.
select distinct q.slot
from queen.queues q
join queen.slots s on s.slot = q.slot and s.state <> 'gone'
where q.namespace = $1 and q.deleted_at is null;

-- name: slot_sizes
-- Stored bytes of messages of a slot, or of each slot if null: estimated from about 1,000 pages, exact if there are fewer.
select s.slot, (s.bytes / least(1, 1000 / p.pages))::bigint as bytes
from (
  select greatest(1, pg_relation_size('queen.segments') / current_setting('block_size')::double precision) as pages
) p
cross join (
  select (s.partition_id >> 53)::smallint as slot, sum(pg_column_size(s.body)) as bytes
  from queen.segments s
    tablesample system (
      least(100, 100000 / greatest(1, pg_relation_size('queen.segments') / current_setting('block_size')::real))
    )
  where s.body is not null and ($1::smallint is null or s.partition_id >> 53 = $1)
  group by 1
) s;

-- name: arriving_slots
-- The slots that are copied to this database, and how many bytes of them have arrived.
select slot, copied_bytes, total_bytes from queen.arrivals;

-- name: running_moves
-- The operations that move slots now, and how far they are.
select
  o.id, o.kind, o.queue, o.arguments, o.state, o.cursor, o.done, o.total, o.error, o.owner, o.created_by, o.created_at,
  o.finished_at
from queen.operations o
where o.kind = 'move_slots' and o.state = 'running'
order by o.id;

-- name: list_database
-- Give a database a number.
select queen.list_database($1) as number;

-- name: unlist_database
-- Remove a database that could not join.
select queen.unlist_database($1);

-- name: leaving_slots
-- The databases that slots are leaving to, because a join was interrupted.
select distinct moved_to from queen.slots where state = 'leaving' and copied_to is null;

-- name: join_databases
-- Join this database with others.
select queen.join_databases($1, $2, $3, $4);

-- name: shared_sequences
-- The last values of the sequences of ids that are unique in all databases.
select jsonb_object_agg(s.name::text, s.last_value) as last_values from queen.shared_sequences() s;

-- name: leave_slots
-- Begin to give empty slots to another database.
select s.slot, s.epoch from queen.leave_slots($1, $2) l join queen.slots s on s.slot = l;

-- name: own_slots
-- Own slots that are leaving another database.
select queen.own_slots($1, $2);

-- name: close_given_slots
-- Slots that were leaving have another owner now.
select queen.close_given_slots($1, $2, $3);
