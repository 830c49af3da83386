-- Move due scheduled messages into their partitions on queues that no consumer pops.
--
-- Takes the next queue with id above p_after that has due messages and whose slot this database owns. Returns that queue and
-- the number of messages, or no row if there is none.
-- Raises QN016. Locks: the task, the slot (without waiting), then those of promote, which never waits.
create or replace function queen.promote_due (p_epoch bigint, p_after bigint, p_limit integer)
  returns table (queue_id bigint, messages bigint, lag_seconds double precision)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := queen.now();
  v_after  bigint := p_after;
  v_first  record;
  v_answer record;
begin
  perform queen.hold_duty('scheduled', p_epoch);
  loop
    -- Step from queue to queue by the index: a queue without due messages costs one row.
    select s.queue_id, s.partition_id, s.due_at into v_first
    from queen.scheduled s
    where s.queue_id > v_after
    order by s.queue_id, s.due_at, s.id
    limit 1;
    if not found then
      return;
    end if;
    exit when v_first.due_at <= v_now and queen.may_enter(array[(v_first.partition_id >> 53)::smallint]);
    v_after := v_first.queue_id;
  end loop;
  v_answer := queen.promote(v_first.queue_id, p_limit);
  return query
  select
    v_first.queue_id, v_answer.promoted + v_answer.expired, extract(epoch from v_now - v_first.due_at)::double precision;
end
$$;
