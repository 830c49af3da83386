-- Handle pairs that were ready but had no message to claim. The caller has locked the pairs.
--
-- Skips expired and removed messages, and evicts messages that waited too long. The pair then becomes ready when its next
-- message is, or idle. Returns how many messages were skipped, and how many were evicted with and without a dead letter.
create or replace function queen.pass (
  p_ctids         tid[],
  p_partition_ids bigint[],
  p_group_id      bigint,
  p_queue         queen.queues,
  out expired     bigint,
  out evicted     bigint,
  out unkept      bigint
)
  language plpgsql
  volatile
as $$
declare
  v_locked     bigint[];
  v_now        timestamptz;
  v_stale      timestamptz;
  v_partitions bigint[];
  v_firsts     bigint[];
  v_ends       bigint[];
begin
  v_locked := array(
    select p.id from queen.partitions p where p.id = any (p_partition_ids) for no key update skip locked
  );
  -- Later than the time at which the caller searched, so that its next search does not find these pairs.
  v_now := queen.now();
  v_stale := queen.stale_before(p_queue, v_now);
  with passed as (
    select
      c.ctid,
      c.partition_id,
      c.recent,
      n.next_offset,
      n.created_at,
      greatest(c.claimed, coalesce(a.alive_offset, a.ahead_offset, n.next_offset)) as claimed,
      c.claimed as was_claimed
    from unnest(p_ctids, p_partition_ids) k (ctid, partition_id)
    cross join lateral (
      select c.ctid, c.partition_id, c.recent, c.claimed from queen.consumers c where c.ctid = k.ctid offset 0
    ) c
    cross join lateral (
      select
        coalesce(max(s.base_offset + s.message_count), 0) as next_offset,
        coalesce(max(s.created_at), '-infinity') as created_at
      from (
        select s.base_offset, s.message_count, s.created_at
        from queen.segments s
        where s.partition_id = k.partition_id
        order by s.base_offset desc
        limit 1
      ) s
    ) n
    cross join lateral (
      select
        min(s.base_offset) filter (where s.is_alive) as alive_offset,
        max(s.next_offset) as ahead_offset
      from (
        select
          s.base_offset,
          s.base_offset + s.message_count as next_offset,
          s.body is not null and coalesce(s.expires_at > v_now, true) and s.created_at > v_stale as is_alive
        from queen.segments s
        where s.partition_id = k.partition_id
          and s.base_offset >= coalesce(
            (
              select h.base_offset
              from queen.segments h
              where h.partition_id = k.partition_id and h.base_offset <= c.claimed
              order by h.base_offset desc
              limit 1
            ),
            c.claimed
          )
          and s.base_offset + s.message_count > c.claimed
        order by s.base_offset
        -- The first message that has not expired, at most 1,000 segments further on, or fewer if each message is copied.
        limit case when p_queue.max_wait_seconds > 0 then 10 else 1000 end
      ) s
    ) a
    offset 0
  ),
  moved as (
    update queen.consumers c
    set
      version = c.version + 1,
      claimed = p.claimed,
      idle_at = case
        when p.claimed >= p.next_offset and p.partition_id = any (v_locked) then greatest(v_now, p.created_at)
      end,
      ready_at = case
        when p.claimed >= p.next_offset and p.partition_id = any (v_locked) then null
        else greatest(
          v_now,
          queen.head_ready(
            p.partition_id, p.claimed, greatest(p_queue.delay_seconds, p_queue.window_seconds), v_now
          ),
          case when p_queue.rate_per = 'partition' then
            queen.rate_opens_at(
              queen.recent_of(p.recent, p.partition_id, p_group_id, p_queue), p_queue.rate_max, p_queue.rate_ms, v_now
            )
          end
        )
      end
    from passed p
    where c.ctid = p.ctid
  )
  select
    coalesce(sum(p.claimed - p.was_claimed), 0), array_agg(p.partition_id), array_agg(p.was_claimed), array_agg(p.claimed)
  into expired, v_partitions, v_firsts, v_ends
  from passed p;
  evicted := 0;
  if p_queue.max_wait_seconds > 0 and expired > 0 then
    evicted := queen.bury_stale(p_group_id, p_queue, v_partitions, v_firsts, v_ends, v_stale, v_now);
  end if;
  unkept := case when p_queue.dead_letter then 0 else evicted end;
end
$$;
