-- The configuration that owns an object: the `manager` of the file that `queen apply` read. Null: the object has no owner.

alter table queen.queues
  add column managed_by text,
  add constraint queue_managers_are_named check (length(managed_by) between 1 and 255);
alter table queen.schedules
  add column managed_by text,
  add constraint schedule_managers_are_named check (length(managed_by) between 1 and 255);
alter table queen.keys
  add column managed_by text,
  add constraint key_managers_are_named check (length(managed_by) between 1 and 255);
