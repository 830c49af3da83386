-- New ids: the slot, then a number of this database.

-- An id for a delivery of a partition. The function has no settings, so that PostgreSQL inlines it.
create or replace function queen.delivery_id (p_partition_id bigint)
  returns bigint
  language sql
  volatile
as $$
  select p_partition_id >> 53 << 53 | nextval('queen.delivery_ids')
$$;

-- An id for a partition in a slot.
create or replace function queen.partition_id (p_slot smallint)
  returns bigint
  language sql
  volatile
as $$
  select p_slot::bigint << 53 | nextval('queen.partitions_id_seq')
$$;
