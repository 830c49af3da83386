-- Data keys of encrypted queues: take, read, wrap again.

-- name: take_data_key hot
-- The data key to encrypt with, and uses of it.
select id, master_id, wrapped, seconds from queen.take_data_key($1, $2, $3, $4, $5, $6);

-- name: data_keys hot
-- Data keys by id.
select id, queue_id, master_id, wrapped from queen.data_keys where id = any ($1);

-- name: data_keys_of_others
-- Data keys after an id that are wrapped by another master key than this one.
select id, queue_id, master_id, wrapped
from queen.data_keys
where id > $1 and master_id <> $2
order by id
limit $3;

-- name: rewrap_data_keys
-- Store data keys that were wrapped again, unless another process was faster or the slot is in another database.
update queen.data_keys k
set master_id = n.master_id, wrapped = n.wrapped
from unnest($1::integer[], $2::text[], $3::text[], $4::bytea[]) n (id, old_master_id, master_id, wrapped)
where k.id = n.id and k.master_id = n.old_master_id and queen.may_enter_queue(k.queue_id)
returning k.id;

-- name: data_keys_by_master
-- How many data keys each master key wraps, of how many queues, and the newest.
select k.master_id, count(*) as data_keys, count(distinct k.queue_id) as queues, max(k.created_at) as newest_at
from queen.data_keys k
group by k.master_id
order by k.master_id;
