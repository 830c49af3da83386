-- The slot of a new queue: that of its namespace or, if it has none, of its name. So the queues of a namespace are together.
--
-- Slots 960 to 1023 are left for pinned partitions. Slot 0 is used until the hashed slots are open. Where there are
-- several databases, the slot of a name is decided once (queen.homes).
create or replace function queen.home_slot (p_name text, p_namespace text)
  returns smallint
  language plpgsql
  stable
as $$
begin
  return coalesce((select h.slot from queen.homes h where h.name = p_name), (
    select s.slot
    from queen.slots s
    where s.slot = queen.hashed_slot(coalesce(nullif(p_namespace, ''), p_name)) and s.is_open
  ), 0);
end
$$;

-- The slot of a name by its hash. The partitions of spread queues are in the slots of their names, so the partitions of an
-- entity in several queues are together.
--
-- Every database and every release must compute the same, so this is a hash with a standard.
create or replace function queen.hashed_slot (p_name text)
  returns smallint
  language plpgsql
  stable
as $$
declare
  c_hashed constant integer := 959;
  v_digest bytea := sha256(convert_to(p_name, 'UTF8'));
begin
  return 1 + ('x' || left(encode(v_digest, 'hex'), 15))::bit(60)::bigint % c_hashed;
end
$$;
