-- Dead letters: list, count, redrive, purge.

-- name: redrive
-- Deliver dead letters again.
select id, group_id from queen.redrive($1);

-- name: dead_letters
-- Dead letters of a queue after an id, oldest first.
select
  id, queue, "group", partition, partition_id, "offset", level, payload, extras, created_at, attempts, reason,
  error, failed_at
from queen.dead_letters
where queue_id = $1 and id > $2 and ($3::text is null or "group" = $3)
order by id
limit $4;

-- name: browse_dead_letters
-- Dead letters of a queue after an id, newest first or, with $10, oldest first. Scans at most $9; the first row contains
-- how far.
with looked_at as materialized (
  (
    select l.id, l."group", l.partition, l.fingerprint, l.failed_at
    from queen.dead_letters l
    where not $10::boolean and l.queue = $1 and l.id < $2
    order by l.id desc
    limit $9
  )
  union all
  (
    select l.id, l."group", l.partition, l.fingerprint, l.failed_at
    from queen.dead_letters l
    where $10::boolean and l.queue = $1 and l.id > $2
    order by l.id
    limit $9
  )
),
found as (
  select k.id
  from looked_at k
  where ($3::text is null or k."group" = $3)
    and ($4::text is null or k.partition = $4)
    and ($5::text is null or k.fingerprint = $5)
    and ($6::timestamptz is null or k.failed_at >= $6)
    and ($7::timestamptz is null or k.failed_at < $7)
  order by case when $10 then k.id else -k.id end
  limit $8
)
select
  s.last_id, s.looked_at, l.id, l.queue, l."group", l.partition, l.partition_id, l."offset", l.level, l.payload, l.extras,
  l.created_at, l.attempts, l.reason, l.error, l.failed_at, l.fingerprint
from (
  select case when $10 then max(k.id) else min(k.id) end as last_id, count(*) as looked_at from looked_at k
) s
left join (
  select l.* from found f cross join lateral (select l.* from queen.dead_letters l where l.id = f.id offset 0) l
) l on true
order by case when $10 then l.id else -l.id end;

-- name: browse_all_dead_letters
-- The same over all queues.
with looked_at as materialized (
  (
    select l.id, l."group", l.partition, l.fingerprint, l.failed_at
    from queen.dead_letters l
    where not $9::boolean and l.id < $1
    order by l.id desc
    limit $8
  )
  union all
  (
    select l.id, l."group", l.partition, l.fingerprint, l.failed_at
    from queen.dead_letters l
    where $9::boolean and l.id > $1
    order by l.id
    limit $8
  )
),
found as (
  select k.id
  from looked_at k
  where ($2::text is null or k."group" = $2)
    and ($3::text is null or k.partition = $3)
    and ($4::text is null or k.fingerprint = $4)
    and ($5::timestamptz is null or k.failed_at >= $5)
    and ($6::timestamptz is null or k.failed_at < $6)
  order by case when $9 then k.id else -k.id end
  limit $7
)
select
  s.last_id, s.looked_at, l.id, l.queue, l."group", l.partition, l.partition_id, l."offset", l.level, l.payload, l.extras,
  l.created_at, l.attempts, l.reason, l.error, l.failed_at, l.fingerprint
from (
  select case when $9 then max(k.id) else min(k.id) end as last_id, count(*) as looked_at from looked_at k
) s
left join (
  select l.* from found f cross join lateral (select l.* from queen.dead_letters l where l.id = f.id offset 0) l
) l on true
order by case when $9 then l.id else -l.id end;

-- name: browse_visible_dead_letters
-- The same over queues that the patterns $10 match: names by steps in the index, then the next dead letters of each.
with recursive step (name) as (
  (select l.queue from queen.dead_letters l order by l.queue limit 1)
  union all
  select (select l.queue from queen.dead_letters l where l.queue > s.name order by l.queue limit 1)
  from step s
  where s.name is not null
),
looked_at as materialized (
  select l.id, l."group", l.partition, l.fingerprint, l.failed_at
  from step s
  cross join lateral (
    (
      select l.id, l."group", l.partition, l.fingerprint, l.failed_at
      from queen.dead_letters l
      where not $9::boolean and l.queue = s.name and l.id < $1
      order by l.id desc
      -- Without a filter a page needs no more of any queue than its own length.
      limit case when coalesce($2::text, $3, $4) is null and coalesce($5::timestamptz, $6) is null then $7::bigint else $8::bigint end
    )
    union all
    (
      select l.id, l."group", l.partition, l.fingerprint, l.failed_at
      from queen.dead_letters l
      where $9::boolean and l.queue = s.name and l.id > $1
      order by l.id
      limit case when coalesce($2::text, $3, $4) is null and coalesce($5::timestamptz, $6) is null then $7::bigint else $8::bigint end
    )
  ) l
  where queen.sees(s.name, (select q.namespace from queen.queues q where q.name = s.name and q.deleted_at is null), $10::text[])
  order by case when $9 then l.id else -l.id end
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
  order by case when $9 then k.id else -k.id end
  limit $7
)
select
  s.last_id, s.looked_at, l.id, l.queue, l."group", l.partition, l.partition_id, l."offset", l.level, l.payload, l.extras,
  l.created_at, l.attempts, l.reason, l.error, l.failed_at, l.fingerprint
from (
  select case when $9 then max(k.id) else min(k.id) end as last_id, count(*) as looked_at from looked_at k
) s
left join (
  select l.* from found f cross join lateral (select l.* from queen.dead_letters l where l.id = f.id offset 0) l
) l on true
order by case when $9 then l.id else -l.id end;

-- name: dead_letters_with_ids
-- Dead letters by id.
select
  l.id, l.queue, l."group", l.partition, l.partition_id, l."offset", l.level, l.payload, l.extras, l.created_at,
  l.attempts, l.reason, l.error, l.failed_at, l.fingerprint
from queen.dead_letters l
where l.id = any ($1);

-- name: queues_of_dead_letters
-- Dead letters by id, with only the names of their queues.
select l.id, l.queue from queen.dead_letters l where l.id = any ($1) order by l.id;

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
-- How many of the newest $7 dead letters of a queue match, the newest of all, and how many were scanned.
select count(*) filter (where k.is_match) as messages, max(k.id) as last_id, count(*) as looked_at
from (
  select
    l.id,
    ($2::text is null or l."group" = $2)
      and ($3::text is null or l.partition = $3)
      and ($4::text is null or l.fingerprint = $4)
      and ($5::timestamptz is null or l.failed_at >= $5)
      and ($6::timestamptz is null or l.failed_at < $6) as is_match
  from queen.dead_letters l
  where l.queue = $1
  order by l.id desc
  limit $7
) k;

-- name: matching_dead_letters
-- The next matching dead letters of a queue, after an id and up to another; scans at most $9 rows.
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
select queen.redrive_to($1, $2, $3, $4) as id;

-- name: purge_dead_letters
-- Delete dead letters.
select queen.purge_dead_letters($1) as messages;
