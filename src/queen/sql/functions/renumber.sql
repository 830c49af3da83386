-- After a restore into another server: give segments numbers of transactions that this server has reached, in the order that they had.
--
-- Readers of a whole queue and retention go by these numbers, and would not see what is stored under lower ones. Sweeps begin anew; a hold
-- keeps what it kept. False when nothing is ahead. Nobody else may write meanwhile.
create or replace function queen.renumber ()
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_next  bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
  v_count bigint;
begin
  lock table queen.segments, queen.sweeps, queen.holds, queen.outbox in exclusive mode;
  if not exists (select 1 from queen.segments s where s.xid >= v_next::text::xid8)
    and not exists (select 1 from queen.sweeps w where w.xid >= v_next::text::xid8)
    and not exists (select 1 from queen.holds h where h.xid >= v_next::text::xid8)
    and not exists (select 1 from queen.outbox o where o.xid >= v_next::text::xid8)
    and not exists (select 1 from queen.rollup_marks m where m.xid >= v_next::text::xid8)
  then
    return false;
  end if;
  v_count := greatest((select count(distinct s.xid) from queen.segments s), 1);
  -- 3 is the first number that a transaction has.
  update queen.holds h
  set xid = case
    when exists (select 1 from queen.segments s where s.xid >= h.xid)
      then 3 + (select count(distinct s.xid) from queen.segments s where s.xid < h.xid) * (v_next - 3) / v_count
    else v_next
  end::text::xid8;
  update queen.segments s
  set xid = (3 + (n.place - 1) * (v_next - 3) / v_count)::text::xid8
  from (
    select d.xid, dense_rank() over (order by d.xid) as place from (select distinct s.xid from queen.segments s) d
  ) n
  where n.xid = s.xid;
  update queen.outbox o set xid = '3'::xid8;
  delete from queen.sweeps w where true;
  -- The rollup begins anew, and what it wrote stays.
  delete from queen.rollup_marks m where true;
  update queen.rollups r set xid = '3'::xid8;
  update queen.late_minutes l set xid = '3'::xid8;
  return true;
end
$$;
