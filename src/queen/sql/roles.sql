-- Create six roles without login. It can be repeated, and migrations repeat the grants.
--
-- queen_owner      owns everything, for `queen migrate`
-- queen_app        runs the server: calls functions, reads and writes rows, changes no table, no function and no audit record
-- queen_retention  removes old data
-- queen_readonly   reads everything but keys and tickets
-- queen_producer   calls only `queen.enqueue`, for applications
-- queen_pipeline   runs Spark: reads like queen_readonly, writes to queues, and records its progress
--
-- To use one, add a login role to it: create role queen_server login password '…' in role queen_app.
do $$
declare
  v_role text;
begin
  foreach v_role in array array['queen_owner', 'queen_app', 'queen_retention', 'queen_readonly', 'queen_producer', 'queen_pipeline'] loop
    begin
      if to_regrole(v_role) is null then
        execute format('create role %I nologin', v_role);
      end if;
    exception when duplicate_object or unique_violation then
      null;  -- Another session created it at the same time.
    end;
  end loop;
  if not pg_has_role(current_user, 'queen_owner', 'member') then
    execute format('grant queen_owner to %I', current_user);
  end if;
end
$$;

do $$
declare
  v_object record;
begin
  alter schema queen owner to queen_owner;
  for v_object in
    select
      c.oid::regclass::text as name,
      case c.relkind when 'S' then 'sequence' when 'v' then 'view' else 'table' end as kind
    from pg_class c
    where c.relnamespace = 'queen'::regnamespace
      and c.relkind in ('r', 'p', 'v', 'S')
      -- The sequence of an identity column belongs to its table.
      and not (c.relkind = 'S' and exists (select 1 from pg_depend d where d.objid = c.oid and d.deptype = 'i'))
    union all
    select p.oid::regprocedure::text, 'function' from pg_proc p where p.pronamespace = 'queen'::regnamespace
    union all
    select t.oid::regtype::text, 'type'
    from pg_type t
    join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
    where t.typnamespace = 'queen'::regnamespace
  loop
    execute format('alter %s %s owner to queen_owner', v_object.kind, v_object.name);
  end loop;
end
$$;
