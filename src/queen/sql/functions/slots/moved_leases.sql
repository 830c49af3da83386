-- Leases of spread queues with a concurrency limit, in a slot that moves. They take their part of the limit with them.

-- Lower the share of this database by the leases that leave with a slot. Afterwards, the other leases here are within the share.
--
-- A lease that has expired counts too, if the share allows that, because the clock of the other database may be behind.
-- Locks: limits by group, so pops that are claiming end before. The caller has locked the slot.
create or replace function queen.send_leases (p_slot smallint)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_low      constant bigint := p_slot::bigint << 53;
  v_high     constant bigint := p_slot::bigint << 53 | 9007199254740991;
  v_group_id bigint;
  v_share    integer;
  v_now      timestamptz;
begin
  -- A repair of a restored database may have left some.
  delete from queen.leaving_leases n where n.slot = p_slot;
  for v_group_id, v_share in
    select g.id, case when queen.is_first() then q.concurrency_limit else 0 end
    from (select distinct d.group_id from queen.deliveries d where d.id between v_low and v_high and d.held) d
    join queen.groups g on g.id = d.group_id and g.deleted_at is null
    join queen.queues q on q.id = g.queue_id and q.slot is null and q.concurrency_limit > 0
    order by g.id
  loop
    perform queen.add_limit(v_group_id);
    perform 1 from queen.limits l where l.group_id = v_group_id for no key update;
    v_now := queen.now();
    insert into queen.leaving_leases (slot, group_id, leases)
    select p_slot, v_group_id, least(
      n.leaving, greatest(coalesce(l.concurrency_share, v_share) + l.moved_leases, n.live) - n.staying
    )
    from queen.limits l
    cross join (
      select
        count(*) filter (where d.id between v_low and v_high) as leaving,
        count(*) filter (where d.until > v_now) as live,
        count(*) filter (where d.until > v_now and d.id not between v_low and v_high) as staying
      from queen.deliveries d
      where d.group_id = v_group_id and d.held and queen.is_owned(d.partition_id)
    ) n
    where l.group_id = v_group_id;
    update queen.limits l
    set moved_leases = l.moved_leases - n.leases
    from queen.leaving_leases n
    where l.group_id = v_group_id and n.group_id = v_group_id and n.slot = p_slot;
  end loop;
end
$$;

-- Raise the share of this database by the leases of a slot: it has arrived with them, or it stays.
-- Locks: limits by group.
create or replace function queen.receive_leases (p_slot smallint)
  returns void
  language plpgsql
  volatile
as $$
declare
  v_row queen.leaving_leases;
begin
  for v_row in select n.* from queen.leaving_leases n where n.slot = p_slot order by n.group_id loop
    perform queen.add_limit(v_row.group_id);
    update queen.limits l set moved_leases = l.moved_leases + v_row.leases where l.group_id = v_row.group_id;
  end loop;
  delete from queen.leaving_leases n where n.slot = p_slot;
end
$$;
