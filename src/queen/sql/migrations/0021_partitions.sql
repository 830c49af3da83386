-- Functions whose parameters have new names, which `create or replace` cannot change.
drop function if exists queen.claim_new, queen.claim_due, queen.due_deliveries, queen.next_at, queen.wants_more;

alter type queen.claim rename attribute left_lanes to left_partitions;
