-- Push, pop and ack a message, then undo it, so that a new session has planned these functions before its first request.
-- Leaves only used sequence numbers behind.
create or replace function queen.warm ()
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue     text := '__warm ' || gen_random_uuid();
  v_partition record;
  v_group     bigint;
  v_popped    record;
begin
  -- This commit must not wait for a disk or a standby.
  perform set_config('synchronous_commit', 'off', true);
  begin
    if exists (select 1 from queen.databases) then
      insert into queen.homes (name, slot)
      select v_queue, s.slot from queen.slots s where s.state = 'owned' order by s.slot desc limit 1;
      if not found then
        return;
      end if;
    end if;
    select p.* into v_partition from queen.partition_ids(array[v_queue], array['p'], array[0]::smallint[], true, null) p;
    select s.group_id into v_group from queen.subscribe(v_queue, 'g', 'all', null) s;
    perform queen.fill(v_group, 10);
    for v_round in 1..2 loop
      perform queen.push(
        array[v_partition.partition_id], array[1], array['{}'::bytea], array[null::bytea], array[null::bytea],
        array[null::double precision]
      );
      select p.* into v_popped
      from queen.pop(
        array[v_group], array[null::timestamptz], array[null::timestamptz], null, array[1], array[1],
        array[60::double precision], false, 'first', 0
      ) p
      where p.delivery_id is not null;
      perform queen.ack(array[v_popped.delivery_id], array[v_popped.token], array[int8multirange(int8range(0, null))]);
    end loop;
    raise exception 'undo';
  exception when raise_exception then
    return;
  end;
end
$$;
