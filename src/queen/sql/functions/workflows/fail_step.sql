-- Fail a step, or a part of one, whose message was removed. Returns whether the run has ended. A token of another attempt
-- changes nothing. Locks: the run.
create or replace function queen.fail_step (
  p_id    text,
  p_step  text,
  p_part  integer,
  p_token uuid,
  p_error text
)
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform 1 from queen.workflows w where w.id = p_id for no key update;
  return queen.advance_step(p_id, p_step, p_part, p_token, 'failure', null, p_error, null, queen.now()) = 'ended';
end
$$;
