-- The state machine of a workflow: finish steps and start the steps that follow.
--
-- Private. Every function that changes a run calls this one (start, advance, signal, cancel, retry, background task) with the
-- row of the run locked, so that all it reads stays true until the commit and each counter is exact. p_candidates: steps that
-- may begin now. The arrays after it: steps to settle, with a state (completed, failed, skipped, cancelled) and a result or
-- error. A step is settled once: steps that are settled already are ignored.
--
-- A step *leads to* the steps in on_success when it completes and to those in on_failure when it fails. A step begins when all
-- steps that may lead to it have (needs_all), or after the first of them. It is skipped when no step can lead to it any more.
-- A failure that leads nowhere stops the run: no step begins, active steps finish, completed steps are undone, the last one
-- first, and the run fails. The work is bounded by the steps of the run and the parts of the maps that begin.
-- Locks: only the run's, which the caller has. Messages go to the outbox through queen.enqueue.
create or replace function queen.settle_steps (
  p_id         text,
  p_candidates text[],
  p_names      text[],
  p_states     text[],
  p_results    json[],
  p_errors     text[],
  p_now        timestamptz
)
  returns void
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_run     queen.workflows;
  v_step    queen.workflow_steps;
  v_next    text[] := p_candidates;
  v_at      integer := 0;
  v_last    integer;
  v_skipped integer;
  v_state   text;
  v_result  json;
  v_error   text;
begin
  select w.* into v_run from queen.workflows w where w.id = p_id;
  loop
    for v_step in
      select s.*
      from queen.workflow_steps s
      where s.workflow_id = p_id and s.name = any (v_next) and s.state = 'pending'
      order by s.ordinal
    loop
      v_state := case when v_step.waits_for = 0 then 'skipped' end;
      v_result := null;
      v_error := null;
      if v_step.needs_all and v_step.led_by = v_step.sources or not v_step.needs_all and v_step.led_by > 0 then
        select b.state, b.result, b.error into v_state, v_result, v_error from queen.begin_step(v_run, v_step, p_now) b;
      end if;
      if v_state is not null then
        -- Assign by index, because a caller without results or errors passes empty arrays.
        v_last := coalesce(cardinality(p_names), 0) + 1;
        p_names[v_last] := v_step.name;
        p_states[v_last] := v_state;
        p_results[v_last] := v_result;
        p_errors[v_last] := v_error;
      end if;
    end loop;
    exit when v_at >= coalesce(cardinality(p_names), 0);
    v_at := v_at + 1;
    v_next := '{}';
    update queen.workflow_steps s
    set
      state = p_states[v_at], result = p_results[v_at], error = p_errors[v_at], token = null, outbox_id = null,
      look_at = null, seen_at = null, place = v_run.settled_steps, ended_at = p_now
    where s.workflow_id = p_id and s.name = p_names[v_at] and s.state in ('pending', 'active', 'waiting')
    returning s.* into v_step;
    continue when not found;
    v_run.settled_steps := v_run.settled_steps + 1;
    if v_step.kind = 'undo' then
      v_run.error := case when v_step.state = 'failed' then concat_ws('; ', v_run.error, v_step.name || ': ' || v_step.error)
        else v_run.error end;
      continue;
    end if;
    v_run.open_steps := v_run.open_steps - 1;
    if v_run.state = 'running' and v_step.state = 'failed' and v_step.on_failure = '{}' then
      v_run.state := 'stopping';
      v_run.error := v_step.name || ': ' || v_step.error;
      update queen.workflow_steps s
      set state = 'skipped', look_at = null, ended_at = p_now
      where s.workflow_id = p_id and s.kind <> 'undo' and s.state in ('pending', 'waiting');
      get diagnostics v_skipped = row_count;
      v_run.open_steps := v_run.open_steps - v_skipped;
    elsif v_run.state = 'running' then
      v_next := v_step.on_success || v_step.on_failure;
      update queen.workflow_steps s
      set
        waits_for = s.waits_for - 1,
        led_by = s.led_by + (
          v_step.state = 'completed' and s.name = any (v_step.on_success)
          or v_step.state = 'failed' and s.name = any (v_step.on_failure)
        )::integer
      where s.workflow_id = p_id and s.name = any (v_next);
    end if;
  end loop;

  update queen.workflows w
  set state = v_run.state, open_steps = v_run.open_steps, settled_steps = v_run.settled_steps, error = v_run.error
  where w.id = p_id;
  if v_run.open_steps = 0 then
    perform queen.end_workflow(v_run, p_now);
  end if;
end
$$;

-- Start a step. Returns its state if that settles it: it has no message or signal, or its message cannot be sent.
create or replace function queen.begin_step (
  p_run  queen.workflows,
  p_step queen.workflow_steps,
  p_now  timestamptz,
  out state text, out result json, out error text
)
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  -- The size limit of a message, and the maximum number of parts of a map.
  c_bytes constant integer := 8388608;
  c_parts constant integer := 10000;
  v_token  uuid := gen_random_uuid();
  v_items  json;
  v_kept   integer := 0;
  v_parts  integer;
  v_led    json;
  v_bytes  bigint;
  v_outbox bigint;
begin
  update queen.workflow_steps s
  set
    state = case when p_step.kind = 'signal' and p_step.signal_outcome is null then 'waiting' else 'active' end,
    token = v_token, tries = s.tries + 1, started_at = p_now, attempts = null, seen_at = null,
    look_at = case
      when p_step.kind = 'signal' then p_now + make_interval(secs => p_step.timeout_seconds)
      else p_now + make_interval(secs => coalesce(p_step.delay_seconds, 0)) + interval '1 minute'
    end
  where s.workflow_id = p_run.id and s.name = p_step.name;

  if p_step.kind = 'signal' then
    if p_step.signal_outcome = 'success' then
      state := 'completed';
      result := p_step.signal_data;
    elsif p_step.signal_outcome = 'failure' then
      state := 'failed';
      error := queen.refusal_of(p_step.signal, p_step.signal_data);
    end if;
    return;
  end if;

  if p_step.kind = 'map' then
    v_items := p_step.items;
    if p_step.items_of is not null then
      v_items := (
        select s.result from queen.workflow_steps s where s.workflow_id = p_run.id and s.name = p_step.items_of
      );
    end if;
    if json_typeof(v_items) is distinct from 'array' then
      state := 'failed';
      error := format('the result of %s is not a list', p_step.items_of);
      return;
    end if;
    v_parts := json_array_length(v_items);
    if v_parts > c_parts then
      state := 'failed';
      error := format('%s items; the maximum is %s', v_parts, c_parts);
      return;
    end if;
    -- Existing parts were completed before this retry.
    v_kept := (
      select count(*) from queen.workflow_parts p where p.workflow_id = p_run.id and p.step = p_step.name
    );
    insert into queen.workflow_parts (workflow_id, step, part, outbox_id)
    select
      p_run.id, p_step.name, i.part,
      queen.enqueue_step(p_run, p_step, json_build_object(
        'id', p_run.id, 'step', p_step.name, 'token', v_token, 'part', i.part, 'parts', v_parts
      ), i.item, i.part)
    from (
      select e.item, (e.ordinal - 1)::integer as part
      from json_array_elements(v_items) with ordinality e (item, ordinal)
    ) i
    where v_kept = 0 or not exists (
      select 1
      from queen.workflow_parts p
      where p.workflow_id = p_run.id and p.step = p_step.name and p.part = i.part
    );
    update queen.workflow_steps s
    set parts = v_parts, open_parts = v_parts - v_kept, failed_parts = 0
    where s.workflow_id = p_run.id and s.name = p_step.name;
    if v_kept = v_parts then
      select r.state, r.result, r.error into state, result, error from queen.reduce_parts(p_run.id, p_step.name, 0) r;
    end if;
    return;
  end if;

  select sum(octet_length(l.result::text)) into v_bytes from queen.leaders_of(p_run.id, p_step) l;
  if v_bytes > c_bytes then
    state := 'failed';
    error := format('the results before it have %s bytes; the maximum is %s', v_bytes, c_bytes);
    return;
  end if;
  select json_build_object(
    'id', p_run.id, 'step', p_step.name, 'token', v_token,
    'results', coalesce(json_object_agg(l.name, l.result order by l.ordinal) filter (
      where l.error is null or l.result is not null
    ), '{}'),
    'errors', coalesce(json_object_agg(l.name, l.error order by l.ordinal) filter (where l.error is not null), '{}')
  ) into v_led
  from queen.leaders_of(p_run.id, p_step) l;
  v_outbox := queen.enqueue_step(p_run, p_step, v_led, null, null);
  update queen.workflow_steps s
  set outbox_id = v_outbox
  where s.workflow_id = p_run.id and s.name = p_step.name;
end
$$;

-- The steps that led to a step, or that it undoes, with their results.
create or replace function queen.leaders_of (p_id text, p_step queen.workflow_steps)
  returns table (name text, ordinal integer, result json, error text)
  language plpgsql
  stable
as $$
#variable_conflict use_column
begin
  if p_step.sources = 0 and p_step.undoes is null then
    return;
  end if;
  return query
  select s.name, s.ordinal, s.result, case when s.state = 'failed' then coalesce(s.error, '') end
  from queen.workflow_steps s
  where s.workflow_id = p_id
    and case
      when p_step.undoes is not null then s.name = p_step.undoes
      else
        s.state = 'completed' and p_step.name = any (s.on_success)
        or s.state = 'failed' and p_step.name = any (s.on_failure)
    end;
end
$$;

-- Enqueue the message of a step, or of a part of it, under a unique transactionId.
create or replace function queen.enqueue_step (
  p_run   queen.workflows,
  p_step  queen.workflow_steps,
  p_ours  json,
  p_item  json,
  p_part  integer
)
  returns bigint
  language plpgsql
  volatile
as $$
begin
  return queen.enqueue(
    p_step.queue,
    (
      left(p_step.template::text, -1) || coalesce(',"data":' || p_item::text, '') || ',"workflow":' || p_ours::text || '}'
    )::json,
    partition => p_step.partition,
    transaction_id => concat_ws('/', p_run.id, p_step.name, p_part, p_run.number || '.' || p_step.tries + 1),
    delay_seconds => p_step.delay_seconds,
    priority => p_step.priority,
    headers => p_run.headers,
    trace_id => p_run.trace_id
  );
end
$$;

-- The outcome of a map when no part is open: the results in the order of the items, or the first error. The result of a failed
-- or cancelled map contains the completed parts, for the steps that undo it, or null if there are none.
create or replace function queen.reduce_parts (
  p_id text, p_step text, p_failed integer, out state text, out result json, out error text
)
  language plpgsql
  stable
as $$
#variable_conflict use_column
declare
  c_bytes constant integer := 8388608;
  v_bytes bigint;
  v_done  bigint;
  v_other bigint;
begin
  select
    sum(octet_length(p.result::text) + 1), count(*) filter (where p.state = 'completed'),
    count(*) filter (where p.state = 'cancelled')
  into v_bytes, v_done, v_other
  from queen.workflow_parts p
  where p.workflow_id = p_id and p.step = p_step;
  state := case when v_other > 0 then 'cancelled' when p_failed > 0 or v_bytes > c_bytes then 'failed' else 'completed' end;
  if state = 'completed' or v_done > 0 and v_bytes <= c_bytes then
    result := (
      select '[' || coalesce(string_agg(coalesce(p.result::text, 'null'), ',' order by p.part), '') || ']'
      from queen.workflow_parts p
      where p.workflow_id = p_id and p.step = p_step
    )::json;
  end if;
  if p_failed > 0 then
    error := (
      select format('part %s: %s', p.part, p.error) || case
        when p_failed > 1 then format(' (and %s more)', p_failed - 1) else ''
      end
      from queen.workflow_parts p
      where p.workflow_id = p_id and p.step = p_step and p.state = 'failed'
      order by p.part
      limit 1
    );
  elsif state = 'failed' then
    error := format('the results of its parts have %s bytes; the maximum is %s', v_bytes, c_bytes);
  end if;
end
$$;

-- Continue a run without open steps: undo steps one at a time, the last one first. End the run if there is nothing to undo.
create or replace function queen.end_workflow (p_run queen.workflows, p_now timestamptz)
  returns void
  language plpgsql
  volatile
as $$
#variable_conflict use_column
declare
  v_undo  queen.workflow_steps;
  v_state text := case
    when p_run.state = 'running' then 'completed' when p_run.is_cancelled then 'cancelled' else 'failed'
  end;
begin
  if exists (
    select 1
    from queen.workflow_steps s
    where s.workflow_id = p_run.id and s.kind = 'undo' and s.state = 'active'
  ) then
    return;
  end if;
  if p_run.state in ('stopping', 'compensating') and p_run.is_undone and not exists (
    select 1
    from queen.workflow_steps s
    where s.workflow_id = p_run.id and s.kind = 'undo' and s.state = 'failed'
  ) then
    select u.* into v_undo
    from queen.workflow_steps u
    join queen.workflow_steps s on s.workflow_id = u.workflow_id and s.name = u.undoes
    where u.workflow_id = p_run.id and u.kind = 'undo' and u.state = 'pending'
      -- A failed map may have completed parts.
      and (s.state = 'completed' or s.kind = 'map' and s.state in ('failed', 'cancelled') and s.result is not null)
    order by s.place desc
    limit 1;
    if found then
      update queen.workflows w set state = 'compensating' where w.id = p_run.id;
      if (select b.state from queen.begin_step(p_run, v_undo, p_now) b) is null then
        return;
      end if;
      -- Its result is too large to send, so it cannot be undone.
      update queen.workflow_steps s
      set state = 'failed', error = 'what it undoes is too large to be sent', token = null, look_at = null, ended_at = p_now
      where s.workflow_id = p_run.id and s.name = v_undo.name;
      p_run.error := concat_ws('; ', p_run.error, v_undo.name || ': what it undoes is too large to be sent');
    end if;
  end if;

  update queen.workflow_steps s
  set state = 'skipped', ended_at = p_now
  where s.workflow_id = p_run.id and s.kind = 'undo' and s.state = 'pending';
  update queen.workflows w
  set
    state = case
      when exists (
        select 1
        from queen.workflow_steps s
        where s.workflow_id = p_run.id and s.kind = 'undo' and s.state = 'failed'
      ) then 'failed'
      else v_state
    end,
    ended_at = p_now,
    error = p_run.error,
    result = case
      when v_state = 'completed' then (
        select coalesce(json_object_agg(s.name, s.result order by s.ordinal), '{}')
        from queen.workflow_steps s
        where s.workflow_id = p_run.id and s.kind <> 'undo' and s.state = 'completed' and s.on_success = '{}'
      )
    end
  where w.id = p_run.id;
end
$$;

-- The error of a step whose signal reports a failure.
create or replace function queen.refusal_of (p_signal text, p_data json)
  returns text
  language sql
  immutable
as $$
  select case
    when coalesce(p_data::text, 'null') = 'null' then 'signal ' || p_signal || ' said so'
    when p_data::text ~ '^"[^"\\]*"$' then btrim(p_data::text, '"')
    else p_data::text
  end
$$;
