-- Helpers that look up a group or a queue.

-- The group with this name of the partition's queue. Raises QN003.
create or replace function queen.group_of (p_partition_id bigint, p_group text)
  returns bigint
  language plpgsql
  stable
as $$
declare
  v_group_id bigint;
begin
  select g.id into v_group_id
  from queen.groups g
  where g.queue_id = (select p.queue_id from queen.partitions p where p.id = p_partition_id)
    and g.name = p_group
    and g.deleted_at is null;
  if not found then
    raise exception 'the queue has no group %', p_group using errcode = 'QN003';
  end if;
  return v_group_id;
end
$$;

-- The queue with this name, for readers and writers of all its messages. Raises QN001, QN018, or QN006 if other databases have
-- some of them.
create or replace function queen.whole_queue_named (p_queue text)
  returns queen.queues
  language plpgsql
  stable
as $$
declare
  v_queue queen.queues := queen.queue_named(p_queue);
begin
  if v_queue.slot is null and exists (select 1 from queen.databases) then
    raise exception 'queue % has placement spread, and pipelines need all its messages in one database', p_queue
      using errcode = 'QN006';
  end if;
  return v_queue;
end
$$;

-- The queue with this name. Raises QN001, or QN018 if its slot has moved.
create or replace function queen.queue_named (p_queue text)
  returns queen.queues
  language plpgsql
  stable
as $$
declare
  v_queue queen.queues;
begin
  select q.* into v_queue from queen.queues q where q.name = p_queue and q.deleted_at is null;
  if not found then
    if exists (select 1 from queen.moved_queues(array[p_queue])) then
      raise exception 'queue % is in another database now', p_queue using errcode = 'QN018', detail = queen.slot_of(p_queue);
    end if;
    raise exception 'queue % does not exist', p_queue using errcode = 'QN001';
  end if;
  return v_queue;
end
$$;
