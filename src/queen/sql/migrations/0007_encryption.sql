-- Keys of queues with encrypted payloads, and the option for it.
alter table queen.queues add column encrypted boolean not null default false;

create sequence queen.data_key_ids as integer;

create table queen.data_keys (
  -- Every encrypted payload contains it.
  id         integer not null default nextval('queen.data_key_ids') primary key,
  queue_id   bigint not null,
  -- The master key that encrypts it. Master keys are not in the database.
  master_id  text not null,
  wrapped    bytea not null,
  created_at timestamptz not null,
  -- How many payloads processes may have encrypted with it: they reserve numbers in advance.
  uses       bigint not null,
  constraint uses_are_not_negative check (uses >= 0)
);
create index data_keys_of_queue on queen.data_keys (queue_id, id);
create index data_keys_of_master on queen.data_keys (master_id, id);

-- It takes payloads now, because those of another partition are encrypted again.
drop function if exists queen.redrive_to(bigint[], bytea[], bigint);
