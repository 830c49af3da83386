-- A push, then acknowledgments, then pops, in one transaction: what waits in one process at the same moment.
--
-- p_partition_ids … p_max_delay, p_producers … p_base_entries: a push without keys and scheduled messages. Null: none.
-- p_ids … p_ack_partition_ids: the arguments of ack, without results. p_nack_ids … p_seconds: the arguments of nack.
-- p_group_ids … p_turn: the arguments of pop. p_request_ends: after which request each pop ends. If there is one, it reads all
-- groups. Otherwise each pop reads one group. Null: no pop.
-- A pop that follows a push or an acknowledgment finds what they made available.
--
-- Returns the rows of each: kind `acked`, `nacked` and `popped`, and the kinds of push. If the push rejects a message, it stores
-- none, and the rest is applied.
-- The transaction commits synchronously, also a pop, whose own setting ends with this function. A wait for a lock ends
-- with an error after a moment, so that no part waits long for a lock that only another part needs. The caller then makes
-- the calls one by one.
-- Locks: partitions by id, then producers by id, then consumers that were idle, then consumers of ordered deliveries, then
-- deliveries. Pops skip locked rows. A pair that was idle has no ordered delivery, so no call waits for one of the former while
-- it holds one of the latter.
create or replace function queen.combine (
  p_partition_ids      bigint[],
  p_counts             integer[],
  p_bodies             bytea[],
  p_ends               bytea[],
  p_extras             bytea[],
  p_ttls               double precision[],
  p_max_delay          double precision,
  p_ids                bigint[],
  p_tokens             uuid[],
  p_offsets            int8multirange[],
  p_ack_partition_ids  bigint[],
  p_nack_ids           bigint[],
  p_nack_tokens        uuid[],
  p_nack_partition_ids bigint[],
  p_nack_offsets       bigint[],
  p_nack_kinds         text[],
  p_nack_errors        text[],
  p_nack_delays        double precision[],
  p_transaction_ids    text[],
  p_results            bytea[],
  p_seconds            double precision[],
  p_request_ends       integer[],
  p_group_ids          bigint[],
  p_ready_since        timestamptz[],
  p_due_since          timestamptz[],
  p_partition          text,
  p_batches            integer[],
  p_partitions         integer[],
  p_leases             double precision[],
  p_auto               boolean,
  p_due                text,
  p_turn               integer,
  p_producers          text[],
  p_sequences          bigint[],
  p_digests            bytea[],
  p_outcomes           bytea[],
  p_base_producers     integer[],
  p_base_entries       integer[]
)
  returns setof queen.combined
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
  set synchronous_commit = on
  set lock_timeout = '50ms'
as $$
declare
  v_row   queen.combined;
  v_first integer := 1;
begin
  if p_partition_ids is not null then
    for v_row.kind, v_row.ordinal, v_row."offset", v_row.created_at, v_row.xid, v_row.code in
      select p.*
      from queen.push(
        p_partition_ids, p_counts, p_bodies, p_ends, p_extras, p_ttls, p_producers => p_producers, p_sequences => p_sequences,
        p_max_delay => p_max_delay, p_digests => p_digests, p_outcomes => p_outcomes, p_base_producers => p_base_producers,
        p_base_entries => p_base_entries
      ) p
    loop
      return next v_row;
    end loop;
  end if;
  if cardinality(p_ids) > 0 then
    v_row := null;
    v_row.kind := 'acked';
    for v_row.ordinal, v_row.group_id, v_row.settled, v_row.refused, v_row.is_over, v_row.has_more, v_row.code in
      select a.* from queen.ack(p_ids, p_tokens, p_offsets, p_ack_partition_ids) a order by a.ordinal
    loop
      return next v_row;
    end loop;
  end if;
  if cardinality(p_nack_ids) > 0 then
    v_row := null;
    v_row.kind := 'nacked';
    for v_row.ordinal, v_row.group_id, v_row.due_at, v_row.due_seconds, v_row.is_dead, v_row.is_over, v_row.code in
      select n.*
      from queen.nack(
        p_nack_ids, p_nack_tokens, p_nack_partition_ids, p_nack_offsets, p_nack_kinds, p_nack_errors, p_nack_delays,
        p_transaction_ids, p_results, p_seconds
      ) n
      order by n.ordinal
    loop
      return next v_row;
    end loop;
  end if;
  for v_pop in 1 .. coalesce(cardinality(p_request_ends), 0) loop
    v_row := null;
    v_row.kind := 'popped';
    v_row.ordinal := v_pop;
    for
      v_row.request, v_row.group_id, v_row.delivery_id, v_row.token, v_row.partition_id, v_row.partition, v_row.level,
      v_row.attempts, v_row.until, v_row.first_offset, v_row.end_offset, v_row.base_offset, v_row.message_count,
      v_row.created_at, v_row.xid, v_row.payload, v_row.extras, v_row.wait_seconds, v_row.ready_since, v_row.due_since,
      v_row.expired, v_row.code, v_row.lapsed, v_row.buried, v_row.dropped, v_row.evicted, v_row.unkept
    in
      select p.*
      from queen.pop(
        case when cardinality(p_request_ends) = 1 then p_group_ids else p_group_ids[v_pop:v_pop] end,
        case when cardinality(p_request_ends) = 1 then p_ready_since else p_ready_since[v_pop:v_pop] end,
        case when cardinality(p_request_ends) = 1 then p_due_since else p_due_since[v_pop:v_pop] end,
        p_partition, p_batches[v_first:p_request_ends[v_pop]], p_partitions[v_first:p_request_ends[v_pop]],
        p_leases[v_first:p_request_ends[v_pop]], p_auto, p_due, p_turn
      ) p
    loop
      return next v_row;
    end loop;
    v_first := p_request_ends[v_pop] + 1;
  end loop;
end
$$;
