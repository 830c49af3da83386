-- Lock the row of a background task for one step, and extend its lease. Raises QN016 if another process took the task,
-- so that a step of the former leader never runs after that.
create or replace function queen.hold_duty (p_name text, p_epoch bigint)
  returns void
  language plpgsql
  volatile
as $$
begin
  update queen.duties d
  set until = greatest(d.until, queen.now() + interval '30 seconds')
  where d.name = p_name and d.epoch = p_epoch;
  if not found then
    raise exception 'another process has taken the background task %', p_name using errcode = 'QN016';
  end if;
end
$$;
