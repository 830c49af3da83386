-- Helpers that end messages which waited too long (`max_wait_seconds`).

-- Messages stored at or before this time have waited too long. `-infinity` if the queue sets no maximum.
create or replace function queen.stale_before (p_queue queen.queues, p_now timestamptz)
  returns timestamptz
  language plpgsql
  immutable
as $$
begin
  if p_queue.max_wait_seconds = 0 then
    return '-infinity';
  end if;
  return p_now - make_interval(secs => p_queue.max_wait_seconds + p_queue.delay_seconds);
end
$$;

-- Dead-letter the messages in ranges of offsets that waited too long, or only count them if the queue keeps no dead letters.
-- Messages that are deleted or expired are left out. Returns the number of messages.
create or replace function queen.bury_stale (
  p_group_id      bigint,
  p_queue         queen.queues,
  p_partition_ids bigint[],
  p_firsts        bigint[],
  p_ends          bigint[],
  p_stale         timestamptz,
  p_now           timestamptz
)
  returns bigint
  language plpgsql
  volatile
as $$
declare
  v_range  record;
  v_body   bytea;
  v_ends   bytea;
  v_extras bytea;
  v_count  bigint;
  v_all    bigint := 0;
begin
  for v_range in
    select u.id, greatest(u.first, s.base_offset) as first, least(u.end_, s.base_offset + s.message_count) as end_,
      s.base_offset, s.message_count, s.body, s.ends, s.extras, s.created_at
    from unnest(p_partition_ids, p_firsts, p_ends) u (id, first, end_)
    cross join lateral (
      select s.base_offset, s.message_count, s.body, s.ends, s.extras, s.created_at
      from queen.segments s
      where s.partition_id = u.id
        and s.base_offset >= coalesce(
          (
            select h.base_offset
            from queen.segments h
            where h.partition_id = u.id and h.base_offset <= u.first
            order by h.base_offset desc
            limit 1
          ),
          u.first
        )
        and s.base_offset < u.end_
        and s.base_offset + s.message_count > u.first
        and s.body is not null
        and s.created_at <= p_stale
        and coalesce(s.expires_at > p_now, true)
      offset 0
    ) s
  loop
    v_count := v_range.end_ - v_range.first;
    if p_queue.dead_letter then
      -- Read and decompress the segment once. A column that is passed on is decompressed for every message.
      v_body := v_range.body || ''::bytea;
      v_ends := v_range.ends || ''::bytea;
      v_extras := v_range.extras || ''::bytea;
      insert into queen.dead_letters (
        queue_id, group_id, partition_id, "offset", queue, "group", partition, level, payload, extras,
        created_at, attempts, reason, error, failed_at
      )
      select
        p_queue.id, g.id, p.id, o, p_queue.name, g.name, p.name, p.level,
        queen.payload_at(v_body, v_ends, (o - v_range.base_offset)::integer),
        queen.extra_at(v_extras, v_range.message_count, (o - v_range.base_offset)::integer),
        v_range.created_at, 0, 'evicted', 'it waited longer than maxWaitTimeSeconds', p_now
      from queen.partitions p
      cross join queen.groups g
      cross join generate_series(v_range.first, v_range.end_ - 1) o
      where p.id = v_range.id and g.id = p_group_id
      on conflict on constraint dead_letters_are_one_per_message_and_group do nothing;
    end if;
    v_all := v_all + v_count;
  end loop;
  return v_all;
end
$$;
