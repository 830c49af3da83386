-- Births: the database and the transaction that stored a message first. They don't change when its slot moves.

-- The number of this database, plus 1,024 for each time that its transactions were renumbered. Messages that had left before
-- keep the former birthplace, because their numbers mean nothing here any more. Null: it has not joined others.
create or replace function queen.birthplace ()
  returns integer
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select d.number + 1024 * (select count(*) from queen.renumberings)::integer from queen.databases d where d.is_here
$$;

-- The end of a batch of messages in this database with one birthplace: after the last transaction before
-- p_end, or where more would exceed p_max_messages messages or p_max_bytes bytes of payloads. No row if there is nothing.
--
-- Transactions are never split. p_is_over: nothing remains before p_end. The partition and offset name the end of any segment of
-- the last transaction.
create or replace function queen.plan_births (
  p_queue_id     bigint,
  p_birthplace   integer,
  p_start        xid8,
  p_end          xid8,
  p_max_messages bigint,
  p_max_bytes    bigint
)
  returns table (xid xid8, partition_id bigint, end_offset bigint, stored_at timestamptz, is_over boolean)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_row      record;
  -- The last segment of the batch, and the last one of its last complete transaction.
  v_last     record;
  v_whole    record;
  v_is_full  boolean;
  v_is_over  boolean := true;
  v_messages bigint := 0;
  v_bytes    bigint := 0;
begin
  select null::xid8 as xid into v_last;
  v_whole := v_last;
  for v_row in
    select
      b.xid, b.partition_id, b.base_offset + b.message_count as end_offset, b.created_at as stored_at, b.message_count,
      octet_length(b.body) as bytes
    from queen.births b
    where b.queue_id = p_queue_id and b.birthplace = p_birthplace and b.xid >= p_start and b.xid < p_end
    order by b.xid
  loop
    v_is_full := v_messages > 0
      and (v_messages + v_row.message_count > p_max_messages or v_bytes + v_row.bytes > p_max_bytes);
    if v_row.xid <> v_last.xid then
      v_whole := v_last;
    end if;
    if v_is_full and v_whole.xid is not null then
      v_last := v_whole;
      v_is_over := false;
      exit;
    end if;
    v_last := v_row;
    v_messages := v_messages + v_row.message_count;
    v_bytes := v_bytes + v_row.bytes;
  end loop;
  if v_messages > 0 then
    return query select v_last.xid, v_last.partition_id, v_last.end_offset, v_last.stored_at, v_is_over;
  end if;
end
$$;
