-- Queues whose partitions are in slots of their own, by the hash of the partition's name. Such a queue uses all databases.

alter table queen.queues add column placement text not null default 'home';
alter table queen.queues alter column slot drop not null;
alter table queen.queues add constraint placement_is_known check (placement in ('home', 'spread'));
-- The queue itself is in no slot then, and every database has its row.
alter table queen.queues add constraint spread_queues_have_no_slot check ((placement = 'spread') = (slot is null));

-- Null: the queue is spread.
alter table queen.homes alter column slot drop not null;

drop function if exists queen.claim_homes (text[], text[]);
