-- Lock a duty for a step of it, and keep it for another while. Raises QN016 when it was taken since: a step is
-- either before that or not at all.
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
    raise exception 'duty % is another process''s now', p_name using errcode = 'QN016';
  end if;
end
$$;
