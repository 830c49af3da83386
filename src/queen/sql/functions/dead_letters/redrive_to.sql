-- Push dead letters as new messages to a partition, and delete the letters in the same transaction.
--
-- p_payloads, p_extras: the messages to store, in the order of p_ids. Letters that no longer exist are left out.
-- Returns the ids that were moved. Raises QN004 if the partition was removed, QN017 if its queue is encrypted and a payload
-- is not. Locks: the slots, dead letters, partitions, consumers that were idle.
create or replace function queen.redrive_to (
  p_ids          bigint[],
  p_payloads     bytea[],
  p_extras       bytea[],
  p_partition_id bigint
)
  returns setof bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_letter   record;
  v_payloads bytea[] := '{}';
  v_extras   bytea[] := '{}';
  v_body     bytea;
  v_row      record;
begin
  perform queen.enter(
    array(select l.partition_id from queen.dead_letters l where l.id = any (p_ids)) || p_partition_id
  );
  perform 1 from queen.partitions p where p.id = p_partition_id for no key update;
  -- In the same order as a redrive locks them.
  perform 1
  from (
    select l.id
    from queen.dead_letters l
    where l.id = any (p_ids)
    order by l.partition_id, l.group_id, l."offset"
    for update
  ) l;
  for v_letter in
    select l.id, e.payload, e.extra
    from unnest(p_ids, p_payloads, p_extras) with ordinality e (id, payload, extra, ordinal)
    join queen.dead_letters l on l.id = e.id
    order by e.ordinal
  loop
    v_payloads := v_payloads || v_letter.payload;
    v_extras := v_extras || v_letter.extra;
    delete from queen.dead_letters l where l.id = v_letter.id;
    return next v_letter.id;
  end loop;
  if cardinality(v_payloads) = 0 then
    return;
  end if;
  select string_agg(u.payload, '' order by u.n) into v_body from unnest(v_payloads) with ordinality u (payload, n);
  for v_row in
    select p.*
    from queen.push(
      array[p_partition_id], array[cardinality(v_payloads)], array[v_body], array[queen.ends_of(v_payloads)],
      array[queen.join_extras(v_extras)], null, p_max_delay => 0
    ) p
  loop
    if v_row.kind = 'plain' then
      raise exception 'the queue of partition % is encrypted', p_partition_id using errcode = 'QN017';
    elsif v_row.kind <> 'stored' then
      raise exception 'partition % was removed', p_partition_id using errcode = 'QN004';
    end if;
  end loop;
end
$$;
