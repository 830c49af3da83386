-- Every statement that Python sends.

-- name: migrations
-- What has been applied.
select name, checksum, applied_at from queen.migrations order by name;

-- name: identity
-- Which server this is: a change means another timeline, and everything remembered is void.
select
  (select system_identifier from pg_control_system())::text || '/' || case
    -- The name of a segment of WAL begins with the timeline. The last checkpoint may be of an older one.
    when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
  end as identity,
  pg_is_in_recovery() as is_standby,
  current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes;

-- name: partition_ids
-- Find or make lanes; one row a name, in the order asked.
select queue_id, partition_id from queen.partition_ids($1, $2, $3, $4, $5) order by ordinal;

-- name: queues
-- Queues by name, with their options.
select * from queen.queues where name = any ($1) and deleted_at is null;

-- name: queues_in_scope
-- Queues of a namespace and a task, null for any, in the order in which a pop visits them.
select id, name from queen.queues
where deleted_at is null and ($1::text is null or namespace = $1) and ($2::text is null or task = $2)
order by priority desc, id
limit 1000;

-- name: push
-- Store segments; one row a segment, or the reasons why nothing was stored.
select kind, ordinal, "offset", created_at, xid, code
from queen.push($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19);

-- name: outbox
-- Messages that transactions put down and committed, oldest first, of transactions from a number on; and from which
-- number on some may still be open.
select o.id, o.item, o.payload, pg_snapshot_xmin(pg_current_snapshot())::text::bigint as open_xid
from queen.outbox o
where o.xid >= $1::bigint::text::xid8 and o.error is null
order by o.xid, o.id
limit $2;

-- name: transactions
-- From which number on transactions may be open, and the number of the next.
select pg_snapshot_xmin(s.now)::text::bigint as open_xid, pg_snapshot_xmax(s.now)::text::bigint as next_xid
from (select pg_current_snapshot()) s (now);

-- name: append
-- Move messages of the outbox to the log; the rows of push, or that they were moved.
select kind, ordinal, "offset", created_at, xid, code
from queen.append(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20
);

-- name: set_aside_outbox
-- Messages that cannot be moved, and why: they stay, and hold up no other.
update queen.outbox o set error = u.error
from unnest($1::bigint[], $2::text[]) u (id, error)
where o.id = u.id;

-- name: lead_appending
-- Whether this process moves what is in the outbox, for some seconds.
select queen.lead_appending($1, $2, $3) as is_leader;

-- name: pop
-- Claim messages; one row a run of messages in a segment, last one row a group.
select
  request, group_id, delivery_id, token, partition_id, partition, level, attempts, until, first_offset,
  end_offset, base_offset, message_count, created_at, xid, payload, extras, wait_seconds, ready_since, due_since,
  expired, lapsed, buried, dropped, code
from queen.pop($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: segments
-- Bodies of segments by position.
select k.partition_id, k.base_offset, s.xid, s.message_count, s.body, s.ends, s.extras
from unnest($1::bigint[], $2::bigint[]) k (partition_id, base_offset)
cross join lateral (
  select s.xid::text::bigint as xid, s.message_count, s.body, s.ends, s.extras
  from queen.segments s
  where s.partition_id = k.partition_id and s.base_offset = k.base_offset
  offset 0
) s;

-- name: ack
-- Settle messages; one row a request, in the order asked.
select group_id, settled, refused, is_over, has_more, code
from queen.ack($1, $2, $3::text[]::int8multirange[], $4) order by ordinal;

-- name: nack
-- Give messages back; one row a request, in the order asked.
select group_id, due_at, due_seconds, is_dead, is_over, code from queen.nack($1, $2, $3, $4, $5, $6, $7) order by ordinal;

-- name: extend
-- Move the ends of leases; one row a request, in the order asked.
select until, code from queen.extend($1, $2, $3) order by ordinal;

-- name: release
-- Give deliveries back uncounted; one row a request, in the order asked.
select group_id, code from queen.release($1, $2) order by ordinal;

-- name: shorten
-- Take back the ends of deliveries; one row a request, in the order asked.
select group_id, code from queen.shorten($1, $2, $3) order by ordinal;

-- name: transact
-- Acks, nacks and pushes, all or none; the rows of push, or the reasons.
select kind, ordinal, "offset", created_at, xid, code
from queen.transact(
  $1, $2, $3::text[]::int8multirange[], $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
  $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31
);

-- name: find_delivery
-- The delivery that a message is in, for an ack without a lease.
select id, token, partition_id, "offset", is_settled from queen.find_delivery($1, $2, $3, $4, $5, $6, $7);

-- name: are_settled
-- Whether groups are done with messages; one row a message, in the order asked.
select is_settled from queen.are_settled($1, $2, $3, $4) order by ordinal;

-- name: last_sequence
-- The newest sequence of a producer.
select queen.last_sequence($1) as sequence;

-- name: subscribe
-- Find or make a group.
select queue_id, group_id, is_filled from queen.subscribe($1, $2, $3, $4);

-- name: fill
-- Give a group its place in more partitions.
select queen.fill($1, $2) as is_filled;

-- name: configure
-- Make or change a queue.
select * from queen.configure($1, $2, $3, $4, $5, $6, $7);

-- name: configure_partition
-- Set the priority of a partition.
select queen.configure_partition($1, $2, $3);

-- name: seek
-- Move a group in more partitions.
select queen.seek($1, $2, $3, $4, $5, $6, $7) as partition_id;

-- name: purge
-- Remove messages of more partitions.
select partition_id, messages from queen.purge($1, $2, $3, $4, $5, $6);

-- name: delete_queue
-- Let a queue be gone.
select queen.delete_queue($1) as id;

-- name: delete_group
-- Let a group be gone.
select queen.delete_group($1, $2) as id;

-- name: erase
-- Erase some of what was deleted.
select queen.erase($1) as is_done;

-- name: redrive
-- Deliver dead letters again.
select id, group_id from queen.redrive($1);

-- name: dead_letters
-- Dead letters of a queue, oldest first, behind an id.
select
  id, queue, "group", partition, partition_id, "offset", level, payload, extras, created_at, attempts, reason,
  error, failed_at
from queen.dead_letters
where queue_id = $1 and id > $2 and ($3::text is null or "group" = $3)
order by id
limit $4;

-- name: backlog
-- What the slowest group of a queue has not settled.
select queen.backlog($1, $2) as messages;

-- name: queues_signature
-- Two numbers that change when a queue is made, deleted or configured.
select count(*) as queues, coalesce(sum(version + id), 0)::bigint as versions from queen.queues where deleted_at is null;

-- name: notify
-- Tell other processes which queues have work.
select pg_notify('queen', $1);

-- name: now
-- The clock.
select queen.now() as now;

-- name: ready_groups
-- Those of the groups that have something to give now: the slow poll behind the wake-ups.
select group_id from queen.ready_groups($1);

-- name: queues_by_name
-- Queues by name, behind a name.
select q.id, q.name
from queen.queues q
where q.deleted_at is null
  and q.name > $1
  and ($2::text is null or q.namespace = $2)
  and ($3::text is null or q.task = $3)
  and ($4::text is null or strpos(lower(q.name), lower($4)) > 0)
order by q.name
limit $5;

-- name: queues_by_name_down
-- Queues by name, from the last on, before a name; null for the last.
select q.id, q.name
from queen.queues q
where q.deleted_at is null
  and ($1::text is null or q.name < $1)
  and ($2::text is null or q.namespace = $2)
  and ($3::text is null or q.task = $3)
  and ($4::text is null or strpos(lower(q.name), lower($4)) > 0)
order by q.name desc
limit $5;

-- name: queues_by_age
-- Queues, oldest first, behind an id.
select q.id, q.name
from queen.queues q
where q.deleted_at is null
  and q.id > $1
  and ($2::text is null or q.namespace = $2)
  and ($3::text is null or q.task = $3)
  and ($4::text is null or strpos(lower(q.name), lower($4)) > 0)
order by q.id
limit $5;

-- name: queues_by_age_down
-- Queues, newest first, before an id.
select q.id, q.name
from queen.queues q
where q.deleted_at is null
  and q.id < $1
  and ($2::text is null or q.namespace = $2)
  and ($3::text is null or q.task = $3)
  and ($4::text is null or strpos(lower(q.name), lower($4)) > 0)
order by q.id desc
limit $5;

-- name: list_queues
-- Queues with what is known of each without visiting all partitions, and rates over $3 seconds, in the order asked.
select
  q.id, q.name, q.namespace, q.task, q.version, q.created_at, q.paused, q.priority, q.ordered,
  f.partitions, f.groups, f.pending, f.held, f.waiting, f.scheduled, f.dead_letters,
  case when f.oldest_at is not null then greatest(0, extract(epoch from queen.now() - f.oldest_at))::double precision end as oldest_seconds,
  r.pushed_per_second, r.popped_per_second
from unnest($1::bigint[]) with ordinality k (id, ordinal)
cross join lateral (select q.* from queen.queues q where q.id = k.id offset 0) q
cross join lateral queen.queue_figures(q.id, $2) f
cross join lateral queen.queue_rates(q.id, $3) r
order by k.ordinal;

-- name: queue_names
-- Names of queues with namespace and task: who sees which of them is for the caller to say.
select q.id, q.name, q.namespace, q.task from queen.queues q where q.deleted_at is null order by q.name limit $1;

-- name: namespaces
-- Namespaces behind one, with their queues.
select q.namespace as name, array_agg(q.name) as queues, array_agg(q.id) as ids
from queen.queues q
where q.deleted_at is null and q.namespace > $1
group by q.namespace
order by q.namespace
limit $2;

-- name: tasks
-- Tasks behind one, with their queues.
select q.task as name, array_agg(q.name) as queues, array_agg(q.id) as ids
from queen.queues q
where q.deleted_at is null and q.task > $1
group by q.task
order by q.task
limit $2;

-- name: list_groups
-- Groups behind an id, of one queue or of all, with how far each is behind.
select
  g.id, g.name, g.start_mode, nullif(g.start_at, '-infinity') as start_at, g.created_at, q.name as queue, q.namespace,
  f.lag, f.held, f.waiting,
  case when f.oldest_at is not null then greatest(0, extract(epoch from queen.now() - f.oldest_at))::double precision end as oldest_seconds,
  queen.last_pop_at(g.id) as last_pop_at
from (
  select g.*
  from queen.groups g
  where g.deleted_at is null and g.id > $1 and ($2::bigint is null or g.queue_id = $2)
  order by g.id
  limit $3
) g
cross join lateral (
  select q.name, q.namespace from queen.queues q where q.id = g.queue_id and q.deleted_at is null offset 0
) q
cross join lateral queen.group_figures(g.id, $4) f
order by g.id;

-- name: queues_of_group
-- Queues that a group of this name reads.
select q.name
from queen.groups g
join queen.queues q on q.id = g.queue_id and q.deleted_at is null
where g.name = $1 and g.deleted_at is null
order by q.name
limit 10000;

-- name: group_named
-- The group of a queue.
select g.id from queen.groups g where g.queue_id = $1 and g.name = $2 and g.deleted_at is null;

-- name: list_partitions
-- Lanes of a queue by name behind (name, level), from a prefix on; with a group, where that group stands.
select
  p.id, p.name, p.level, p.priority, f.first_offset, coalesce(n.next_offset, 0) as next_offset, n.created_at as last_pushed_at,
  (select d.datcollate in ('C', 'POSIX') from pg_database d where d.datname = current_database()) as is_bytewise,
  w.groups, w.pending, w.is_ready, w.claimed, w.position,
  l."group" as lease_group, l.until as lease_until, l.attempts as lease_attempts, l.messages as lease_messages
from (
  select p.id, p.name, p.level, p.priority
  from queen.partitions p
  where p.queue_id = $1 and p.name >= $4 and (p.name, p.level) > ($2, $3::smallint)
  order by p.name, p.level
  limit $5
) p
left join lateral (
  select case when s.body is null then s.base_offset + s.message_count else s.base_offset end as first_offset
  from queen.segments s where s.partition_id = p.id order by s.base_offset limit 1
) f on true
left join lateral (
  select s.base_offset + s.message_count as next_offset, s.created_at
  from queen.segments s where s.partition_id = p.id order by s.base_offset desc limit 1
) n on true
cross join lateral (
  select
    count(*) as groups,
    max(greatest(0, coalesce(n.next_offset, 0) - c.claimed) + coalesce(d.messages, 0)) as pending,
    coalesce(bool_or(c.ready_at is not null and c.claimed < n.next_offset), false) as is_ready,
    min(c.claimed) as claimed,
    min(least(c.claimed, d.first_offset)) as position
  from queen.consumers c
  join queen.groups g on g.id = c.group_id and g.deleted_at is null
  left join lateral (
    select sum(queen.count_of(d.pending))::bigint as messages, min(lower(d.pending)) as first_offset
    from queen.deliveries d
    where d.partition_id = c.partition_id and d.group_id = c.group_id
  ) d on true
  where c.partition_id = p.id and ($6::bigint is null or c.group_id = $6)
) w
left join lateral (
  select g.name as "group", d.until, d.attempts, queen.count_of(queen.handed_out(d)) as messages
  from queen.deliveries d
  join queen.groups g on g.id = d.group_id
  where d.partition_id = p.id and d.held and d.until > queen.now() and ($6::bigint is null or d.group_id = $6)
  order by d.until
  limit 1
) l on true
order by p.name, p.level;

-- name: list_deliveries
-- What is held or waits, by group, priority and instant, behind a place in that order.
select
  g.id as group_id, g.name as "group", d.id, d.priority, d.until, d.held, d.attempts, d.error, d.first_offset, d.end_offset,
  d.messages, d.handed_out, d.partition_id, p.name as partition, p.level, d.is_parked, d.is_late
from (
  select g.id, g.name
  from queen.groups g
  where g.queue_id = $1 and g.deleted_at is null and ($2::text is null or g.name = $2) and g.id >= $3
  order by g.id
  limit 1000
) g
cross join lateral (
  select
    d.id, d.priority, nullif(d.until, 'infinity') as until, d.held, d.attempts, d.error, d.partition_id,
    d.until = 'infinity' as is_parked, d.until <= queen.now() as is_late,
    lower(d.pending) as first_offset, upper(d.pending) as end_offset, queen.count_of(d.pending) as messages,
    queen.count_of(queen.handed_out(d)) as handed_out, d.until as due_at
  from queen.deliveries d
  where d.group_id = g.id and (g.id > $3 or (d.priority, d.until, d.id) > ($4, $5::text::timestamptz, $6))
  order by d.priority, d.until, d.id
  limit $7
) d
join queen.partitions p on p.id = d.partition_id
order by g.id, d.priority, d.due_at, d.id
limit $7;

-- name: partition_with_id
-- A partition and its queue, unless that is deleted.
select p.id, p.name, p.level, p.queue_id, q.name as queue
from queen.partitions p
join queen.queues q on q.id = p.queue_id and q.deleted_at is null
where p.id = $1;

-- name: partitions_with_ids
-- Names of partitions.
select p.id, p.name, p.level from queen.partitions p where p.id = any ($1);

-- name: lanes_named
-- The lanes of a partition.
select p.id from queen.partitions p where p.queue_id = $1 and p.name = $2 order by p.level desc;

-- name: newest_segments
-- Segments of a queue, newest first, from a place on: without their bodies.
select
  s.partition_id, s.base_offset, s.message_count, s.created_at, s.xid::text::bigint as xid,
  octet_length(s.body) as body_bytes, coalesce(s.expires_at = '-infinity', false) as is_redacted,
  nullif(s.expires_at, '-infinity') as expires_at
from queen.segments s
where s.queue_id = $1 and s.body is not null and (s.xid, s.partition_id, s.base_offset) <= ($2::text::xid8, $3::bigint, $4::bigint)
order by s.xid desc, s.partition_id desc, s.base_offset desc
limit $5;

-- name: newest_segments_of_partition
-- Segments of one lane, newest first, from a place on: without their bodies.
select
  s.partition_id, s.base_offset, s.message_count, s.created_at, s.xid::text::bigint as xid,
  octet_length(s.body) as body_bytes, coalesce(s.expires_at = '-infinity', false) as is_redacted,
  nullif(s.expires_at, '-infinity') as expires_at
from queen.segments s
where s.partition_id = $1 and s.body is not null and s.base_offset <= $2
order by s.base_offset desc
limit $3;

-- name: segment_at
-- The segment that holds an offset.
select
  s.partition_id, s.base_offset, s.message_count, s.created_at, s.xid::text::bigint as xid,
  octet_length(s.body) as body_bytes, coalesce(s.expires_at = '-infinity', false) as is_redacted,
  nullif(s.expires_at, '-infinity') as expires_at
from (
  select s.*
  from queen.segments s
  where s.partition_id = $1 and s.base_offset <= $2
  order by s.base_offset desc
  limit 1
) s
where s.body is not null and s.base_offset + s.message_count > $2;

-- name: positions
-- Where groups stand in partitions.
select k.partition_id, g.id as group_id, g.name as "group", c.claimed
from unnest($1::bigint[]) k (partition_id)
cross join lateral (
  select c.group_id, c.claimed from queen.consumers c where c.partition_id = k.partition_id offset 0
) c
cross join lateral (
  select g.id, g.name from queen.groups g
  where g.id = c.group_id and g.deleted_at is null and ($2::text is null or g.name = $2)
  offset 0
) g;

-- name: deliveries_of
-- What is out or waits of partitions.
select
  d.partition_id, d.group_id, d.held as is_taken, d.held and d.until > queen.now() as is_held,
  coalesce(d.parked_until, nullif(d.until, 'infinity')) as until, d.head, d.attempts, d.error,
  array(select lower(r) from unnest(d.pending) r order by 1) as firsts,
  array(select upper(r) from unnest(d.pending) r order by 1) as ends,
  array(select lower(r) from unnest(queen.handed_out(d)) r order by 1) as out_firsts,
  array(select upper(r) from unnest(queen.handed_out(d)) r order by 1) as out_ends
from unnest($1::bigint[]) k (partition_id)
cross join lateral (select d.* from queen.deliveries d where d.partition_id = k.partition_id offset 0) d;

-- name: dead_offsets_of
-- Which messages of partitions, between two offsets each, are dead letters, and whose.
select l.partition_id, l.group_id, l."group", l."offset", l.id, l.attempts, l.error, l.reason, l.failed_at
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) k (partition_id, first_offset, end_offset)
cross join lateral (
  select l.partition_id, l.group_id, l."group", l."offset", l.id, l.attempts, l.error, l.reason, l.failed_at
  from queen.dead_letters l
  where l.partition_id = k.partition_id and l."offset" >= k.first_offset and l."offset" < k.end_offset
  offset 0
) l;

-- name: list_scheduled
-- Messages of a queue that are not due yet, behind a place.
select s.id, s.partition_id, s.due_at, s.payload, s.extras, p.name as partition, p.level
from (
  select s.id, s.partition_id, s.due_at, s.payload, s.extras
  from queen.scheduled s
  where s.queue_id = $1 and (s.due_at, s.id) > ($2::timestamptz, $3::bigint)
  order by s.due_at, s.id
  limit $4
) s
join queen.partitions p on p.id = s.partition_id
order by s.due_at, s.id;

-- name: scheduled_with_id
-- One message that is not due yet.
select s.id, s.partition_id, s.due_at, s.payload, s.extras from queen.scheduled s where s.id = $1;

-- name: cancel_scheduled
-- Forget a message that is not due yet, and its key, so that it may be pushed anew.
with gone as (
  delete from queen.scheduled s where s.id = $1 returning s.key
),
forgotten as (
  delete from queen.dedup k using gone g where k.key = g.key and k."offset" is null
)
select count(*) as messages from gone;

-- name: find_message
-- Where the message with a transactionId is.
select "offset", scheduled_id from queen.find_message($1, $2, $3);

-- name: retry
-- Try a message again at once.
select group_id from queen.retry($1, $2, $3);

-- name: give_up
-- Make a message a dead letter.
select queen.give_up($1, $2, $3, $4) as group_id;

-- name: redact
-- Erase a message.
select queen.redact($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) as is_done;

-- name: browse_dead_letters
-- Dead letters of a queue, newest first, before an id: at most $9 are looked at. The first row says how far.
with looked_at as materialized (
  select l.id, l."group", l.partition, l.fingerprint, l.failed_at
  from queen.dead_letters l
  where l.queue = $1 and l.id < $2
  order by l.id desc
  limit $9
),
found as (
  select k.id
  from looked_at k
  where ($3::text is null or k."group" = $3)
    and ($4::text is null or k.partition = $4)
    and ($5::text is null or k.fingerprint = $5)
    and ($6::timestamptz is null or k.failed_at >= $6)
    and ($7::timestamptz is null or k.failed_at < $7)
  order by k.id desc
  limit $8
)
select
  s.last_id, s.looked_at, l.id, l.queue, l."group", l.partition, l.partition_id, l."offset", l.level, l.payload, l.extras,
  l.created_at, l.attempts, l.reason, l.error, l.failed_at, l.fingerprint
from (select min(k.id) as last_id, count(*) as looked_at from looked_at k) s
left join (
  select l.* from found f cross join lateral (select l.* from queen.dead_letters l where l.id = f.id offset 0) l
) l on true
order by l.id desc;

-- name: browse_all_dead_letters
-- The same over all queues.
with looked_at as materialized (
  select l.id, l."group", l.partition, l.fingerprint, l.failed_at
  from queen.dead_letters l
  where l.id < $1
  order by l.id desc
  limit $8
),
found as (
  select k.id
  from looked_at k
  where ($2::text is null or k."group" = $2)
    and ($3::text is null or k.partition = $3)
    and ($4::text is null or k.fingerprint = $4)
    and ($5::timestamptz is null or k.failed_at >= $5)
    and ($6::timestamptz is null or k.failed_at < $6)
  order by k.id desc
  limit $7
)
select
  s.last_id, s.looked_at, l.id, l.queue, l."group", l.partition, l.partition_id, l."offset", l.level, l.payload, l.extras,
  l.created_at, l.attempts, l.reason, l.error, l.failed_at, l.fingerprint
from (select min(k.id) as last_id, count(*) as looked_at from looked_at k) s
left join (
  select l.* from found f cross join lateral (select l.* from queen.dead_letters l where l.id = f.id offset 0) l
) l on true
order by l.id desc;

-- name: dead_letters_with_ids
-- Dead letters by id.
select
  l.id, l.queue, l."group", l.partition, l.partition_id, l."offset", l.level, l.payload, l.extras, l.created_at,
  l.attempts, l.reason, l.error, l.failed_at, l.fingerprint
from queen.dead_letters l
where l.id = any ($1);

-- name: dead_letter_errors
-- The newest $2 dead letters of a queue by fingerprint.
with looked_at as materialized (
  select l.id, l.fingerprint, l.reason, l.error, l.failed_at
  from queen.dead_letters l
  where l.queue = $1
  order by l.id desc
  limit $2
)
select
  k.fingerprint, count(*) as messages, min(k.failed_at) as first_at, max(k.failed_at) as last_at,
  (array_agg(k.error order by k.id desc))[1] as sample, (array_agg(k.reason order by k.id desc))[1] as reason,
  (select count(*) from looked_at) as looked_at
from looked_at k
group by k.fingerprint
order by messages desc, k.fingerprint;

-- name: count_dead_letters
-- How many dead letters of a queue match, up to an id, and the newest of them; counts no further than $8.
select count(*) as messages, max(l.id) as last_id
from (
  select l.id
  from queen.dead_letters l
  where l.queue = $1
    and l.id <= $2
    and ($3::text is null or l."group" = $3)
    and ($4::text is null or l.partition = $4)
    and ($5::text is null or l.fingerprint = $5)
    and ($6::timestamptz is null or l.failed_at >= $6)
    and ($7::timestamptz is null or l.failed_at < $7)
  order by l.id desc
  limit $8
) l;

-- name: matching_dead_letters
-- The next dead letters of a queue that match, behind an id and up to another; the last row looked at is $9 away at most.
select k.id, k.is_match
from (
  select
    l.id,
    ($4::text is null or l."group" = $4)
      and ($5::text is null or l.partition = $5)
      and ($6::text is null or l.fingerprint = $6)
      and ($7::timestamptz is null or l.failed_at >= $7)
      and ($8::timestamptz is null or l.failed_at < $8) as is_match
  from queen.dead_letters l
  where l.queue = $1 and l.id > $2 and l.id <= $3
  order by l.id
  limit $9
) k
order by k.id;

-- name: redrive_to
-- Push dead letters as new messages.
select queen.redrive_to($1, $2, $3) as id;

-- name: purge_dead_letters
-- Remove dead letters, locked in the order in which a redrive locks them.
with locked as materialized (
  select l.id
  from queen.dead_letters l
  where l.id = any ($1)
  order by l.partition_id, l.group_id, l."offset"
  for update
),
gone as (
  delete from queen.dead_letters l using locked k where l.id = k.id returning l.id
)
select count(*) as messages from gone;

-- name: add_trace
-- Keep an event of a message.
with added as (
  insert into queen.traces as t (partition_id, transaction_id, "group", event_type, names, data, created_at)
  values ($1, $2, $3, $4, $5, $6, queen.now())
  returning id, names
),
named as (
  insert into queen.trace_names as n (name, trace_id)
  select distinct n.name, a.id from added a cross join lateral unnest(a.names) n (name)
)
select id from added;

-- name: traces_of_message
-- Events of a message in time order, behind an id.
select
  t.id, t.partition_id, t.transaction_id, t."group", t.event_type, t.names, t.data, t.created_at,
  q.name as queue, p.name as partition
from (
  select t.*
  from queen.traces t
  where t.partition_id = $1 and t.transaction_id = $2 and t.id > $3
  order by t.id
  limit $4
) t
left join queen.partitions p on p.id = t.partition_id
left join queen.queues q on q.id = p.queue_id
order by t.id;

-- name: traces_of_name
-- Events with a name in time order, behind an id.
select
  t.id, t.partition_id, t.transaction_id, t."group", t.event_type, t.names, t.data, t.created_at,
  q.name as queue, p.name as partition
from (
  select n.trace_id from queen.trace_names n where n.name = $1 and n.trace_id > $2 order by n.trace_id limit $3
) n
cross join lateral (select t.* from queen.traces t where t.id = n.trace_id offset 0) t
left join queen.partitions p on p.id = t.partition_id
left join queen.queues q on q.id = p.queue_id
order by t.id;

-- name: trace_names
-- Names of traces behind one, each found by a step in the index; events are counted up to $4.
with recursive step (name, n) as (
  (select n.name, 1 from queen.trace_names n where n.name > $1 and n.name >= $2 order by n.name limit 1)
  union all
  select (select n.name from queen.trace_names n where n.name > s.name order by n.name limit 1), s.n + 1
  from step s
  where s.name is not null and s.n < $3
)
select
  s.name,
  (
    select nullif(count(*), $4 + 1)
    from (select 1 from queen.trace_names n where n.name = s.name limit $4 + 1) n
  ) as events,
  (
    select t.created_at
    from queen.traces t
    where t.id = (select n.trace_id from queen.trace_names n where n.name = s.name order by n.trace_id desc limit 1)
  ) as last_at
from step s
where s.name is not null
order by s.name;

-- name: begin_operation
-- Take up long work; operations that ended a week ago are forgotten.
with forgotten as (
  delete from queen.operations o where o.state <> 'running' and o.finished_at < queen.now() - interval '7 days'
)
insert into queen.operations as o (kind, queue, arguments, total, owner, seen_at, created_by, created_at)
values ($1, $2, $3, $4, $5, queen.now(), $6, queen.now())
returning id, kind, queue, arguments, state, cursor, done, total, error, owner, created_by, created_at, finished_at;

-- name: step_operation
-- Note how far an operation came; no row when it is no longer this process's to run.
update queen.operations o
set cursor = $3, done = o.done + $4, seen_at = queen.now()
where o.id = $1 and o.owner = $2 and o.state = 'running'
returning o.id;

-- name: end_operation
-- An operation is done, failed or cancelled, if it ran and, where a process is named, ran there.
update queen.operations o
set state = $3, error = $4, finished_at = queen.now()
where o.id = $1 and o.state = 'running' and o.owner = coalesce($2, o.owner)
returning o.id;

-- name: adopt_operations
-- Take over what processes ran that have not been heard of for a while.
update queen.operations o
set owner = $1, seen_at = queen.now()
where o.id in (
  select p.id
  from queen.operations p
  where p.state = 'running' and p.seen_at < queen.now() - interval '15 seconds' and p.owner <> $1
  order by p.id
  limit 10
  for update skip locked
)
returning o.id, o.kind, o.queue, o.arguments, o.state, o.cursor, o.done, o.total, o.error, o.owner, o.created_by,
  o.created_at, o.finished_at;

-- name: list_operations
-- Operations, newest first, before an id.
select o.id, o.kind, o.queue, o.arguments, o.state, o.cursor, o.done, o.total, o.error, o.owner, o.created_by,
  o.created_at, o.finished_at
from queen.operations o
where o.id < $1
order by o.id desc
limit $2;

-- name: operation_with_id
-- One operation.
select o.id, o.kind, o.queue, o.arguments, o.state, o.cursor, o.done, o.total, o.error, o.owner, o.created_by,
  o.created_at, o.finished_at
from queen.operations o
where o.id = $1;

-- name: pulse
-- Say that this process lives, and hear what it must know.
select is_push_off, is_pop_off, redaction, has_orphans from queen.pulse($1, $2, $3, $4, $5);

-- name: leave
-- This process ends.
delete from queen.instances where id = $1;

-- name: list_instances
-- Processes that were heard of lately, by id.
select
  i.id, i.host, i.pid, i.version, i.started_at, i.seen_at, i.waiters,
  i.seen_at > queen.now() - interval '15 seconds' as is_alive
from queen.instances i
where i.id > $1
order by i.id
limit $2;

-- name: maintenance
-- Which maintenance is on.
select m.mode, m.enabled, m.changed_at, m.changed_by from queen.maintenance m where m.mode = $1;

-- name: set_maintenance
-- Turn maintenance on or off, everywhere.
insert into queen.maintenance as m (mode, enabled, changed_at, changed_by)
values ($1, $2, queen.now(), $3)
on conflict (mode) do update
set enabled = excluded.enabled, changed_at = excluded.changed_at, changed_by = excluded.changed_by
returning mode, enabled, changed_at, changed_by;

-- name: applied_migrations
-- What has been applied, and when.
select name, applied_at from queen.migrations order by name;

-- name: tables
-- Sizes of our tables, dead rows, and when each was last vacuumed, as PostgreSQL's statistics have it.
select
  t.relname as name, pg_total_relation_size(t.relid) as total_bytes, pg_relation_size(t.relid) as heap_bytes,
  pg_indexes_size(t.relid) as index_bytes, t.n_live_tup as live_rows, t.n_dead_tup as dead_rows,
  greatest(t.last_vacuum, t.last_autovacuum) as vacuumed_at, greatest(t.last_analyze, t.last_autoanalyze) as analyzed_at
from pg_stat_user_tables t
where t.schemaname = 'queen'
order by t.relname;

-- name: oldest_transaction
-- The transaction that has been open for longest: vacuum can remove nothing that it may see.
select
  a.pid, a.application_name, a.usename as "user", a.state, a.xact_start as started_at,
  extract(epoch from clock_timestamp() - a.xact_start)::double precision as age_seconds
from pg_stat_activity a
where a.xact_start is not null and a.datname = current_database() and a.pid <> pg_backend_pid()
order by a.xact_start
limit 1;

-- name: queues_of_partitions
-- Which queue partitions belong to.
select p.id, q.name
from queen.partitions p
join queen.queues q on q.id = p.queue_id and q.deleted_at is null
where p.id = any ($1);

-- name: queues_of_deliveries
-- Which queue deliveries belong to, for those who know their tokens.
select d.id, d.token, q.name
from unnest($1::bigint[], $2::uuid[]) l (id, token)
join queen.deliveries d on d.id = l.id and d.token = l.token
join queen.partitions p on p.id = d.partition_id
join queen.queues q on q.id = p.queue_id and q.deleted_at is null;

-- name: find_keys
-- Keys that are valid now, and for how long.
select
  id, digest, name, role, permissions, scopes, requests_per_second,
  extract(epoch from expires_at - queen.now())::float8 as seconds_left,
  case when old_until > queen.now() then old_digest end as old_digest,
  extract(epoch from old_until - queen.now())::float8 as old_seconds_left
from queen.keys
where id = any ($1) and revoked_at is null and (expires_at is null or expires_at > queen.now());

-- name: make_key
-- Store a new key.
insert into queen.keys as k (id, digest, name, role, permissions, scopes, requests_per_second, created_at, created_by, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, queen.now(), $8, $9)
returning id, name, role, permissions, scopes, requests_per_second, created_at, created_by, expires_at, revoked_at;

-- name: list_keys
-- Keys behind an id, revoked ones if asked for.
select id, name, role, permissions, scopes, requests_per_second, created_at, created_by, expires_at, revoked_at
from queen.keys
where id > $1 and ($2::boolean or revoked_at is null)
order by id
limit $3;

-- name: rotate_key
-- Give a key a new secret; the old one is taken for some seconds more.
update queen.keys
set
  old_digest = case when $3::float8 > 0 then digest end,
  old_until = case when $3::float8 > 0 then queen.now() + make_interval(secs => $3::float8) end,
  digest = $2
where id = $1 and revoked_at is null
returning id, name, role, permissions, scopes, requests_per_second, created_at, created_by, expires_at, revoked_at;

-- name: revoke_key
-- Let a key be good for nothing from now on.
update queen.keys set revoked_at = queen.now(), old_digest = null, old_until = null
where id = $1 and revoked_at is null
returning id, name;

-- name: allow
-- Take requests out of what a key may do now.
select granted, wait_seconds from queen.allow($1, $2, $3);

-- name: make_ticket
-- Store a ticket, and forget those that nobody used.
with gone as (delete from queen.tickets where until < queen.now())
insert into queen.tickets as t (digest, caller, until)
values ($1, $2, queen.now() + make_interval(secs => $3::float8))
returning until;

-- name: take_ticket
-- Use a ticket, which is gone then.
delete from queen.tickets where digest = $1 returning caller, until > queen.now() as is_valid;

-- name: audit
-- Append to the audit log.
select queen.audit($1, $2, $3, $4) as id;

-- name: list_audit
-- Records of the audit log, newest first, before an id.
select id, at, record
from queen.audit
where id < $1
  and ($2::text is null or actor = $2)
  and ($3::text is null or action = $3)
  and ($4::text is null or queue = $4)
  and ($5::timestamptz is null or at >= $5)
  and ($6::timestamptz is null or at < $6)
order by id desc
limit $7;

-- name: audit_chain
-- Records of the audit log behind an id, in their order, with what was hashed.
select id, (extract(epoch from at) * 1000000)::bigint as at_micros, actor, action, queue, record, hash
from queen.audit
where id > $1
order by id
limit $2;

-- name: audit_end
-- The newest record and its hash.
select id, hash from queen.audit_end;

-- name: count
-- Set what a process counted in one minute; answers the clock.
select queen.count($1, $2, $3) as now;

-- name: group_names
-- What groups are called, deleted ones too, as long as they are known.
select g.id, q.name as queue, g.name as "group"
from queen.groups g
join queen.queues q on q.id = g.queue_id
where g.id = any ($1::bigint[]);

-- name: lead_sampling
-- Become or stay the one process that samples, for so many seconds.
select queen.lead_sampling($1, $2) as is_leader;

-- name: sample
-- Measure queues behind an id and keep what was found; one row a queue and one a group.
select
  queue_id, group_id, queue, "group", paused, depth, oldest_age_seconds, deliveries, dead_letters, scheduled, bytes,
  ready_partitions, leased_partitions, idle_partitions, is_exact
from queen.sample($1, $2, $3);

-- name: forget_counters
-- Remove some of what is older than so many seconds; answers how many rows.
select queen.forget_counters($1, $2) as removed;

-- name: table_health
-- Sizes and dead row versions of our tables; the generations of dedup count as one.
select
  regexp_replace(s.relname, '^(dedup)_\d+$', '\1') as "table",
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

-- name: counter_series
-- Counters in buckets of so many seconds; null for any queue, namespace, task or group.
select
  floor(extract(epoch from c.minute) / $3)::bigint * $3 as t,
  sum(c.pushed)::bigint as pushed, sum(c.duplicates)::bigint as duplicates, sum(c.popped)::bigint as popped,
  sum(c.acked)::bigint as acked, sum(c.nacked)::bigint as nacked, sum(c.dead_lettered)::bigint as dead_lettered,
  sum(c.expired)::bigint as expired, sum(c.evicted)::bigint as evicted,
  sum(c.leases_expired)::bigint as leases_expired
from queen.counters c
where c.minute >= $1 and c.minute < $2
  and c.queue_id = any ($4::bigint[])
  and ($5::text is null or c.group_id = any (array(
    select g.id from queen.groups g where g.queue_id = c.queue_id and g.name = $5
  )))
group by 1
order by 1;

-- name: latency_series
-- Histograms of waiting and processing in buckets of so many seconds.
select
  floor(extract(epoch from c.minute) / $3)::bigint * $3 as t, b.is_wait, b.bin, sum(b.count)::bigint as count
from queen.counters c
cross join lateral (
  select true as is_wait, w.bin, w.count from unnest(c.wait_bins, c.wait_counts) w (bin, count)
  union all
  select false, p.bin, p.count from unnest(c.processing_bins, c.processing_counts) p (bin, count)
) b
where c.minute >= $1 and c.minute < $2
  and c.queue_id = any ($4::bigint[])
  and ($5::text is null or c.group_id = any (array(
    select g.id from queen.groups g where g.queue_id = c.queue_id and g.name = $5
  )))
group by 1, 2, 3
order by 1;

-- name: depth_series
-- Depth, lag and oldest age in buckets of so many seconds: the mean of a bucket, the worst age.
select
  m.t, avg(m.depth)::double precision as depth, avg(m.lag)::double precision as lag,
  max(m.oldest_age_seconds) as oldest_age_seconds
from (
  select
    floor(extract(epoch from s.minute) / $3)::bigint * $3 as t, s.minute,
    sum(s.depth) filter (where s.group_id = 0) as depth,
    sum(s.depth) filter (where s.group_id <> 0) as lag,
    max(s.oldest_age_seconds) as oldest_age_seconds
  from queen.samples s
  where s.minute >= $1 and s.minute < $2
    and s.queue_id = any ($4::bigint[])
    and ($5::text is null or s.group_id = any (array(
      select g.id from queen.groups g where g.queue_id = s.queue_id and g.name = $5
    )))
  group by 1, 2
) m
group by 1
order by 1;

-- name: queue_totals
-- What was counted of each of these queues in a time.
select
  c.queue_id,
  sum(c.pushed)::bigint as pushed, sum(c.duplicates)::bigint as duplicates, sum(c.popped)::bigint as popped,
  sum(c.acked)::bigint as acked, sum(c.nacked)::bigint as nacked, sum(c.dead_lettered)::bigint as dead_lettered,
  sum(c.expired)::bigint as expired, sum(c.evicted)::bigint as evicted,
  sum(c.leases_expired)::bigint as leases_expired
from queen.counters c
where c.minute >= $1 and c.minute < $2 and c.queue_id = any ($3::bigint[])
group by 1;

-- name: queue_latencies
-- Histograms of each of these queues over a time.
select c.queue_id, b.is_wait, b.bin, sum(b.count)::bigint as count
from queen.counters c
cross join lateral (
  select true as is_wait, w.bin, w.count from unnest(c.wait_bins, c.wait_counts) w (bin, count)
  union all
  select false, p.bin, p.count from unnest(c.processing_bins, c.processing_counts) p (bin, count)
) b
where c.minute >= $1 and c.minute < $2 and c.queue_id = any ($3::bigint[])
group by 1, 2, 3;

-- name: newest_samples
-- What was last measured of queues; nothing that is older than ten minutes.
select
  q.id as queue_id, q.name as queue, q.namespace, q.task, q.paused, g.name as "group", s.group_id, s.depth,
  s.oldest_age_seconds, s.deliveries, s.dead_letters, s.scheduled, s.bytes, s.ready_partitions, s.leased_partitions,
  s.idle_partitions, s.is_exact, s.sampled_at
from queen.queues q
cross join lateral (
  select max(s.minute) as minute
  from queen.samples s
  where s.queue_id = q.id and s.minute > queen.now() - interval '10 minutes'
) m
cross join lateral (
  select s.* from queen.samples s where s.queue_id = q.id and s.minute = m.minute
) s
left join queen.groups g on g.id = s.group_id
where q.deleted_at is null and ($1::bigint[] is null or q.id = any ($1))
order by q.name, s.group_id
limit 10000;

-- name: queues_found
-- Queues of a namespace and task behind a name, null for any, by name.
select id, name, namespace, task, paused
from queen.queues
where deleted_at is null
  and ($1::text is null or namespace = $1)
  and ($2::text is null or task = $2)
  and ($3::text is null or name = $3)
  and name > $4
order by name
limit $5;

-- name: server_settings
-- What PostgreSQL is set to, by name; sizes in bytes and times in milliseconds.
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
-- Clock, version, connections, and how far PostgreSQL is from running out of transaction numbers.
select
  clock_timestamp() as now,
  current_setting('server_version_num')::integer as version,
  current_setting('server_version') as version_text,
  current_setting('max_connections')::integer as max_connections,
  (select count(*) from pg_stat_activity a where a.backend_type = 'client backend')::integer as connections,
  (select age(d.datfrozenxid) from pg_database d where d.datname = current_database()) as frozen_age,
  pg_database_size(current_database()) as bytes;

-- name: oldest_snapshots
-- What keeps vacuum from removing dead rows: sessions, prepared transactions and replication slots.
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
