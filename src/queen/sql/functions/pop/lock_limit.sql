-- Lock the limits of a group. Return what its rate limit per queue and its concurrency limit still allow.
--
-- One pop at a time holds this lock. If another pop holds it, the budget is 0 and opens_at is a few milliseconds from now.
create or replace function queen.lock_limit (p_group_id bigint, p_queue queen.queues, p_now timestamptz)
  returns table (version bigint, budget bigint, free bigint, opens_at timestamptz)
  language plpgsql
  volatile
as $$
declare
  v_limit queen.limits;
begin
  if not exists (select 1 from queen.limits l where l.group_id = p_group_id) then
    -- A second transaction must not wait for the commit of the first.
    if not pg_try_advisory_xact_lock(hashtextextended('queen.limit', p_group_id)) then
      return query select null::bigint, 0::bigint, null::bigint, p_now + interval '5 milliseconds';
      return;
    end if;
    insert into queen.limits (group_id, version, recent) values (p_group_id, 0, '{}') on conflict do nothing;
  end if;
  select l.* into v_limit
  from queen.limits l
  where l.group_id = p_group_id
  order by l.version desc
  limit 1
  for no key update skip locked;
  if not found then
    return query select null::bigint, 0::bigint, null::bigint, p_now + interval '5 milliseconds';
    return;
  end if;
  return query select
    v_limit.version,
    case when p_queue.rate_per = 'queue' then
      queen.allowance(v_limit.recent, p_queue.rate_max, p_queue.rate_ms, p_now)
    end,
    case when p_queue.concurrency_limit > 0 then
      p_queue.concurrency_limit - (
        select count(*)
        from (
          select 1
          from queen.deliveries d
          where d.group_id = p_group_id and d.held and d.until > p_now
          limit p_queue.concurrency_limit
        ) d
      )
    end,
    case when p_queue.rate_per = 'queue' then
      nullif(queen.rate_opens_at(v_limit.recent, p_queue.rate_max, p_queue.rate_ms, p_now), p_now)
    end;
end
$$;
