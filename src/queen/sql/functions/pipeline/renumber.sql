-- After a restore into another server, give segments transaction numbers that this server has reached, in the same order.
--
-- Readers of a whole queue and retention use these numbers, and would not see messages stored under lower ones. Sweeps begin
-- again, holds keep the same messages, and archives continue at the same position. Streams of Spark lose their position:
-- streams that began before are rejected, and new streams ignore earlier removals. Returns false if no number is too high.
-- No other transaction may write meanwhile.
create or replace function queen.renumber ()
  returns boolean
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_next  bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
  -- Positions between segments that must stay between them, however few numbers there are.
  v_edges xid8[];
  -- The distance between the new numbers of two neighbours.
  v_room  bigint;
begin
  lock table queen.segments, queen.sweeps, queen.holds, queen.outbox, queen.archives in exclusive mode;
  v_edges := array(
    select h.xid from queen.holds h where h.xid > '0'
    union select a.xid from queen.archives a
    union select unnest(array[b.start_xid, b.end_xid]) from queen.archive_batches b where b.state = 'planned'
    order by 1
  );
  if not exists (select 1 from queen.segments s where s.xid >= v_next::text::xid8)
    and not exists (select 1 from queen.sweeps w where w.xid >= v_next::text::xid8)
    and not exists (select 1 from queen.outbox o where o.xid >= v_next::text::xid8)
    and coalesce(v_edges[cardinality(v_edges)] < v_next::text::xid8, true)
    and not exists (select 1 from queen.rollup_marks m where m.xid >= v_next::text::xid8)
    and not exists (select 1 from queen.removals r where r.by_xid >= v_next::text::xid8)
    and not exists (select 1 from queen.forgotten_removals f where f.by_xid >= v_next::text::xid8)
    and not exists (select 1 from queen.streams t where t.since_xid >= v_next::text::xid8)
  then
    return false;
  end if;
  -- 3 is the first transaction number.
  v_room := greatest((v_next - 3) / (cardinality(v_edges) + 1), 1);
  update queen.segments s
  set xid = (3 + n.edge * v_room + (n.place - 1) * v_room / n.places)::text::xid8
  from (
    select r.xid, r.edge, r.place, max(r.place) over (partition by r.edge) as places
    from (
      select d.xid, d.edge, dense_rank() over (partition by d.edge order by d.xid) as place
      from (select distinct s.xid, width_bucket(s.xid, v_edges) as edge from queen.segments s) d
    ) r
  ) n
  -- Recalled segments keep the number 0.
  where n.xid = s.xid and s.xid > '0';
  update queen.holds h set xid = (3 + width_bucket(h.xid, v_edges) * v_room)::text::xid8 where h.xid > '0';
  -- Removals lose their numbers below, so an archive can count only later ones.
  update queen.archives a
  set xid = (3 + width_bucket(a.xid, v_edges) * v_room)::text::xid8, since_xid = v_next::text::xid8;
  update queen.archive_batches b
  set
    start_xid = (3 + width_bucket(b.start_xid, v_edges) * v_room)::text::xid8,
    end_xid = (3 + width_bucket(b.end_xid, v_edges) * v_room)::text::xid8
  where b.state = 'planned';
  update queen.outbox o set xid = '3'::xid8;
  delete from queen.sweeps w where true;
  -- The rollup begins again, and its rows stay.
  delete from queen.rollup_marks m where true;
  update queen.rollups r set xid = '3'::xid8;
  update queen.late_minutes l set xid = '3'::xid8;
  update queen.removals r set xid = case when r.xid is not null then '3'::xid8 end, by_xid = '3'::xid8;
  update queen.forgotten_removals f set xid = '3'::xid8, by_xid = '3'::xid8;
  -- Otherwise new batches of the same application would count as published. No queue has this id.
  update queen.streams t set queue_id = 0, start_xid = '3'::xid8, since_xid = '3'::xid8;
  delete from queen.plans p where true;
  insert into queen.renumberings (at) values (queen.now());
  return true;
end
$$;
