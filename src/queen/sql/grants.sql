-- Set the privileges of the roles in roles.sql, starting from none.
revoke all on all tables in schema queen from queen_app, queen_retention, queen_readonly, queen_producer, queen_pipeline;
revoke all on all sequences in schema queen from queen_app, queen_retention, queen_readonly, queen_producer, queen_pipeline;
revoke all on all functions in schema queen from queen_app, queen_retention, queen_readonly, queen_producer, queen_pipeline;
grant usage on schema queen to queen_app, queen_retention, queen_readonly, queen_producer, queen_pipeline;

grant execute on all functions in schema queen to queen_app;
grant usage on all sequences in schema queen to queen_app, queen_retention;
grant select, insert, update, delete on all tables in schema queen to queen_app;
revoke insert, update, delete on queen.migrations, queen.slots, queen.databases from queen_app;
revoke update, delete on queen.moves from queen_app;
revoke update, delete on queen.homes from queen_app;
revoke update, delete on queen.audit from queen_app;
revoke insert, delete on queen.audit_end from queen_app;
revoke insert, update, delete on queen.audit_start from queen_app;
revoke delete on queen.keys from queen_app;

grant select, update, delete on all tables in schema queen to queen_retention;
revoke all on queen.keys, queen.tickets, queen.allowances from queen_retention;
revoke update, delete on queen.migrations, queen.slots, queen.databases, queen.moves, queen.homes, queen.audit, queen.audit_end, queen.audit_start from queen_retention;

grant select on all tables in schema queen to queen_readonly;
-- Data keys are readable, because they are encrypted like the payloads.
revoke all on queen.keys, queen.tickets, queen.allowances from queen_readonly;

grant select on all tables in schema queen to queen_pipeline;
revoke all on queen.keys, queen.tickets, queen.allowances from queen_pipeline;
grant usage on all sequences in schema queen to queen_pipeline;
grant insert on queen.segments, queen.partitions, queen.consumers, queen.data_keys to queen_pipeline;
-- Only the columns that a publication writes: it wakes consumers, creates partitions and counts uses of keys. Locking a row
-- needs the right to update one of its columns. On partitions and background tasks, delivery does not depend on that column.
grant update (version, idle_at, ready_at) on queen.consumers to queen_pipeline;
grant update (levels) on queen.queues to queen_pipeline;
grant update (uses) on queen.data_keys to queen_pipeline;
grant update (priority) on queen.partitions to queen_pipeline;
grant update (rows) on queen.duties to queen_pipeline;
grant insert, update, delete on queen.staged, queen.recalled, queen.publications, queen.streams, queen.declarations,
  queen.plans, queen.replays to queen_pipeline;
grant insert, update, delete on queen.pipelines, queen.pipeline_samples, queen.holds to queen_pipeline;
grant insert, update, delete on queen.archives, queen.archive_batches, queen.iceberg_tables,
  queen.iceberg_namespace_properties to queen_pipeline;
grant insert, update, delete on queen.rollups, queen.rollup_marks, queen.late_minutes to queen_pipeline;

grant insert, select (id) on queen.outbox to queen_producer;
grant select on queen.appender to queen_producer;
grant execute on function queen.now() to queen_producer;
grant execute on function queen.enqueue(
  text, json, text, text, double precision, timestamptz, double precision, integer, json, text
) to queen_producer;

do $$
declare
  v_name record;
begin
  -- Generations of keys are truncated.
  for v_name in
    select inhrelid::regclass as name
    from pg_inherits
    where inhparent in ('queen.dedup'::regclass, 'queen.dedup_blocks'::regclass)
  loop
    execute format('grant truncate on %s to queen_app, queen_retention', v_name.name);
  end loop;
  for v_name in
    select p.oid::regprocedure as name, p.provolatile = 'v' and p.proname <> 'now' as is_volatile
    from pg_proc p
    where p.pronamespace = 'queen'::regnamespace
  loop
    execute format('grant execute on function %s to queen_retention, queen_pipeline', v_name.name);
    if not v_name.is_volatile then
      execute format('grant execute on function %s to queen_readonly', v_name.name);
    end if;
  end loop;
end
$$;

-- It runs with the rights of its owner, so only the retention role and the app may call it.
revoke execute on function queen.forget_audit(bigint, double precision, integer) from queen_pipeline;
-- The same, for the pipelines and the app.
revoke execute on function queen.recall(uuid, bigint, bigint[], bigint[], bigint[]) from queen_retention;

-- They run with the rights of their owner, because they change which database owns a slot.
revoke execute on function
  queen.copy_slot(smallint, text, uuid), queen.forget_copy(smallint, text), queen.leave_slot(smallint, text, uuid),
  queen.keep_slot(smallint, uuid), queen.close_slot(smallint, text, bigint), queen.own_slot(smallint, uuid, bigint),
  queen.pass_ids(bigint, bigint), queen.record_owner(smallint, text, bigint), queen.leave_slots(smallint[], text),
  queen.own_slots(smallint[], bigint[]), queen.close_given_slots(smallint[], bigint[], text),
  queen.remove_database(text, boolean)
from queen_retention, queen_pipeline;
