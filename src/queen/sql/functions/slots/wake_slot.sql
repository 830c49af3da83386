-- Wake everything that waits for queues of a slot, in all processes that use this database.
--
-- A move calls it at the former owner in the transaction that makes the slot leave, so pops that wait there fail with QN018. It
-- calls it at the owner in the transaction that makes the slot owned, so pops, schedules and the outbox continue there.
-- It sends words that every release knows: the queues as changed (`c`), at most 350 per notification. No queue has the id 0: it
-- wakes pops that wait for a queue that does not exist.
-- Locks: none. The commit of the caller waits for other commits with a notification.
create or replace function queen.wake_slot (p_slot smallint)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_notify('queen', 'schedules,c0');
  perform pg_notify('queen', 'outbox');
  perform pg_notify('queen', string_agg('c' || q.id, ','))
  from (
    select q.id, row_number() over (order by q.id) / 350 as part
    from queen.queues q
    where (q.slot = p_slot or q.id in (select queen.spread_in(p_slot))) and q.deleted_at is null
  ) q
  group by q.part;
end
$$;
