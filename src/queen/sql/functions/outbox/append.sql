-- Move messages from the outbox to the log. They are pushed and deleted in one transaction, so each is stored exactly once.
--
-- p_ids: all messages to move. The others are the arguments of push, which may hold fewer messages, because some are
-- duplicates of earlier pushes. Returns the rows of push, or `outbox` if another process has moved one of the messages, or
-- if earlier messages of their queues are in forwards. In these cases, and if push stored nothing, all messages stay in the
-- outbox.
-- Locks: outbox by id, then those of push.
create or replace function queen.append (
  p_ids                     bigint[],
  p_partition_ids           bigint[],
  p_counts                  integer[],
  p_bodies                  bytea[],
  p_ends                    bytea[],
  p_extras                  bytea[],
  p_ttls                    double precision[],
  p_keys                    bytea,
  p_key_entries             integer[],
  p_key_places              integer[],
  p_key_counts              integer[],
  p_producers               text[],
  p_sequences               bigint[],
  p_scheduled_partition_ids bigint[],
  p_scheduled_delays        double precision[],
  p_scheduled_dues          timestamptz[],
  p_scheduled_payloads      bytea[],
  p_scheduled_extras        bytea[],
  p_scheduled_ttls          double precision[],
  p_max_delay               double precision
)
  returns table (kind text, ordinal integer, "offset" bigint, created_at timestamptz, xid bigint, code text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_found     bigint;
  v_is_behind boolean;
  v_row       record;
begin
  select count(*), exists (select 1 from queen.forwards) into v_found, v_is_behind
  from (
    select o.id from queen.outbox o where o.id = any (p_ids) and o.error is null order by o.id for update
  ) o;
  if v_is_behind then
    v_is_behind := exists (
      select 1
      from unnest(p_partition_ids || p_scheduled_partition_ids) w (id)
      cross join lateral (select p.queue_id from queen.partitions p where p.id = w.id offset 0) p
      cross join lateral (select q.name from queen.queues q where q.id = p.queue_id offset 0) q
      cross join lateral (select 1 from queen.forwards f where f.queue = q.name limit 1) f
    );
  end if;
  if v_is_behind or v_found < cardinality(p_ids) then
    return query select 'outbox', 1, null::bigint, null::timestamptz, null::bigint, null::text;
    return;
  end if;
  for v_row in
    select p.*
    from queen.push(
      p_partition_ids, p_counts, p_bodies, p_ends, p_extras, p_ttls, p_keys, p_key_entries, p_key_places,
      p_key_counts, p_producers, p_sequences, p_scheduled_partition_ids, p_scheduled_delays, p_scheduled_dues,
      p_scheduled_payloads, p_scheduled_extras, p_scheduled_ttls, p_max_delay
    ) p
  loop
    return query select v_row.kind, v_row.ordinal, v_row."offset", v_row.created_at, v_row.xid, v_row.code;
    v_found := case when v_row.kind = 'stored' then v_found end;
  end loop;
  if v_found is not null then
    delete from queen.outbox o where o.id = any (p_ids);
  end if;
end
$$;
