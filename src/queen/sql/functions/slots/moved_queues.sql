-- Which of these queues another database owns. Finds them after their rows were deleted here, too.
create or replace function queen.moved_queues (p_names text[])
  returns setof text
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  select n.name
  from unnest(p_names) n (name)
  cross join lateral (select queen.slot_of(n.name) as slot offset 0) h
  where exists (select 1 from queen.slots s where s.slot = h.slot and s.state <> 'owned');
end
$$;

-- The slot of a queue or, if it does not exist here, of its home. Null: neither is known.
create or replace function queen.slot_of (p_name text)
  returns smallint
  language plpgsql
  stable
as $$
begin
  return coalesce(
    (select q.slot from queen.queues q where q.name = p_name and q.deleted_at is null),
    (select h.slot from queen.homes h where h.name = p_name)
  );
end
$$;

-- Whether this database owns a slot now. It may leave at any time unless the caller holds it.
create or replace function queen.owns_slot (p_slot smallint)
  returns boolean
  language plpgsql
  stable
as $$
begin
  return not exists (select 1 from queen.slots s where s.slot = p_slot and s.state <> 'owned');
end
$$;
