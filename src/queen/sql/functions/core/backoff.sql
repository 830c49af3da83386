-- The delay before the next attempt after p_attempts failures: exponential, capped, and up to a fifth shorter at random.
--
-- A job brings its own delay (jobs/options.py) and uses this one only if its worker was lost.
-- tests/engine/model/state.py repeats the rule.
create or replace function queen.backoff (p_queue queen.queues, p_attempts integer)
  returns interval
  language plpgsql
  volatile
as $$
begin
  return (
    select make_interval(secs => least(
      p_queue.max_retry_delay_ms,
      p_queue.retry_delay_ms * power(p_queue.retry_backoff, least(p_attempts, 31) - 1)
    ) * (0.8 + 0.2 * random()) / 1000.0)
  );
end
$$;
