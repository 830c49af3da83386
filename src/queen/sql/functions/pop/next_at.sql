-- Seconds until a group may have messages, as far as is known. Null if that needs a wake-up.
--
-- p_partition_ids: only these partitions, or null. Messages that are ready or due already were locked by another pop,
-- which may not take all of them, so the caller searches again soon. p_due: include waiting deliveries and scheduled
-- messages. p_since, p_due_since: where the searches start.
create or replace function queen.next_at (
  p_group_id      bigint,
  p_queue         queen.queues,
  p_partition_ids bigint[],
  p_since         timestamptz,
  p_due_since     timestamptz,
  p_due           boolean,
  p_fresh         boolean,
  p_free          bigint,
  p_opens_at      timestamptz,
  p_now           timestamptz
)
  returns double precision
  language plpgsql
  stable
as $$
declare
  c_moment constant interval := interval '10 milliseconds';
  v_level  integer;
  v_at     timestamptz;
  v_room   boolean := p_free is null or p_free > 0;
begin
  if p_partition_ids is not null then
    v_at := least(
      (
        select min(c.ready_at)
        from unnest(p_partition_ids) p (id)
        cross join lateral (
          select c.ready_at
          from queen.consumers c
          where c.partition_id = p.id and c.group_id = p_group_id
          order by c.version desc
          limit 1
        ) c
        where v_room and p_fresh
      ),
      (
        select min(d.until)
        from unnest(p_partition_ids) p (id)
        cross join lateral (
          select d.until
          from queen.deliveries d
          where d.partition_id = p.id and d.group_id = p_group_id and d.until < 'infinity'
            and (v_room or d.until > p_now)
          order by d.until
          limit 1
        ) d
      )
    );
  else
    foreach v_level in array p_queue.levels loop
      if v_room and p_fresh then
        v_at := least(v_at, (
          select c.ready_at
          from queen.consumers c
          where c.group_id = p_group_id and c.priority = v_level and c.ready_at >= p_since
            and (p_queue.slot is not null or queen.is_owned(c.partition_id))
          order by c.ready_at
          limit 1
        ));
      end if;
      if p_due then
        v_at := least(v_at, (
          select d.until
          from queen.deliveries d
          where d.group_id = p_group_id and d.priority = v_level and d.until < 'infinity'
            and d.until > case when v_room then p_due_since else p_now end
            and (p_queue.slot is not null or queen.is_owned(d.partition_id))
          order by d.until
          limit 1
        ));
      end if;
    end loop;
  end if;
  if p_due then
    v_at := least(v_at, (
      select s.due_at
      from queen.scheduled s
      where s.queue_id = p_queue.id and s.due_at > p_now
        and (p_queue.slot is not null or queen.is_owned(s.partition_id))
      order by s.due_at
      limit 1
    ));
  end if;
  if v_at is null and p_opens_at is null then
    return null;
  end if;
  return extract(epoch from greatest(v_at, p_opens_at, p_now + c_moment) - p_now);
end
$$;
