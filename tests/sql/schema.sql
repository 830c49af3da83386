--
-- PostgreSQL database dump
--



SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: queen; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA queen;


--
-- Name: claim; Type: TYPE; Schema: queen; Owner: -
--

CREATE TYPE queen.claim AS (
	taken integer,
	messages bigint,
	first_at timestamp with time zone,
	expired bigint,
	has_more boolean,
	requests integer[],
	delivery_ids bigint[],
	tokens uuid[],
	partition_ids bigint[],
	attempts integer[],
	untils timestamp with time zone[],
	firsts bigint[],
	ends bigint[],
	payloads bytea[],
	extras bytea[],
	created_ats timestamp with time zone[],
	left_messages integer[],
	left_lanes integer[]
);


--
-- Name: popped; Type: TYPE; Schema: queen; Owner: -
--

CREATE TYPE queen.popped AS (
	request integer,
	group_id bigint,
	delivery_id bigint,
	token uuid,
	partition_id bigint,
	partition text,
	level smallint,
	attempts integer,
	until timestamp with time zone,
	first_offset bigint,
	end_offset bigint,
	base_offset bigint,
	message_count integer,
	created_at timestamp with time zone,
	xid bigint,
	payload bytea,
	extras bytea,
	wait_seconds double precision,
	ready_since timestamp with time zone,
	due_since timestamp with time zone,
	expired bigint,
	code text
);


--
-- Name: ack(bigint[], uuid[], int8multirange[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.ack(p_ids bigint[], p_tokens uuid[], p_offsets int8multirange[]) RETURNS TABLE(ordinal integer, group_id bigint, settled bigint, is_over boolean, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  v_whole      integer[];
  v_ctids      tid[];
  v_groups     bigint[];
  v_counts     bigint[];
  v_partitions bigint[];
  v_pairs      bigint[];
  v_request    record;
  v_settled    record;
begin
  perform queen.lock_consumers(p_ids, p_tokens);

  -- What nearly all are: the whole of a delivery that was handed out whole. The others are locked with them.
  select
    array_agg(l.ordinal) filter (where l.is_whole),
    array_agg(l.ctid) filter (where l.is_whole),
    array_agg(l.group_id) filter (where l.is_whole),
    array_agg(l.settled) filter (where l.is_whole),
    array_agg(l.partition_id) filter (where l.is_whole and l.ordered),
    array_agg(l.group_id) filter (where l.is_whole and l.ordered)
  into v_whole, v_ctids, v_groups, v_counts, v_partitions, v_pairs
  from (
    select
      a.ordinal::integer as ordinal, d.ctid, d.group_id, d.partition_id, d.ordered,
      a.offsets is null and d.head is null and d.out_end is null as is_whole,
      case
        when int8multirange(range_merge(d.pending)) = d.pending then upper(d.pending) - lower(d.pending)
        else queen.count_of(d.pending)
      end as settled
    from (
      select u.*
      from unnest(p_ids, p_tokens, p_offsets) with ordinality u (id, token, offsets, ordinal)
      order by u.id
    ) a
    cross join lateral (
      select d.ctid, d.group_id, d.partition_id, d.ordered, d.head, d.out_end, d.pending
      from queen.deliveries d
      where d.id = a.id and d.token = a.token and d.held
      for no key update
    ) d
  ) l;
  if v_whole is not null then
    delete from queen.deliveries d using unnest(v_ctids) u (ctid) where d.ctid = u.ctid;
    if v_partitions is not null then
      perform queen.free(v_partitions, v_pairs);
    end if;
    return query
    select w.ordinal, w.group_id, w.settled, true, null::text
    from unnest(v_whole, v_groups, v_counts) w (ordinal, group_id, settled);
  end if;

  if cardinality(v_whole) = cardinality(p_ids) then
    return;
  end if;
  for v_request in
    select a.id, a.token, a.offsets, a.ordinal::integer as ordinal
    from unnest(p_ids, p_tokens, p_offsets) with ordinality a (id, token, offsets, ordinal)
    where v_whole is null or a.ordinal <> all (v_whole)
    order by a.id
  loop
    select s.* into v_settled from queen.settle(v_request.id, v_request.token, v_request.offsets) s;
    return query
    select v_request.ordinal, v_settled.group_id, v_settled.settled, v_settled.is_over, v_settled.code;
  end loop;
end
$$;


--
-- Name: allowance(bigint[], integer, integer, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.allowance(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select p_max - coalesce(sum(p_recent[i + 1]), 0)::bigint
  from generate_series(1, coalesce(cardinality(p_recent), 0), 2) as i
  where p_recent[i] >= floor(extract(epoch from p_now) * 16000 / p_ms)::bigint - 16
$$;


--
-- Name: backlog(bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.backlog(p_queue_id bigint, p_most bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
declare
  v_group_id bigint;
  v_levels   integer[];
  v_count    bigint;
  v_largest  bigint := 0;
  v_has_group boolean := false;
begin
  select q.levels into v_levels from queen.queues q where q.id = p_queue_id;
  for v_group_id in
    select g.id from queen.groups g
    where g.queue_id = p_queue_id and g.deleted_at is null and g.filled_to is null
  loop
    v_has_group := true;
    select coalesce(sum(n.next_offset - c.claimed), 0) into v_count
    from (
      select c.partition_id, c.claimed
      from queen.consumers c
      where c.group_id = v_group_id and c.priority = any (v_levels) and c.ready_at is not null
      limit p_most
    ) c
    cross join lateral (
      select s.base_offset + s.message_count as next_offset
      from queen.segments s
      where s.partition_id = c.partition_id
      order by s.base_offset desc
      limit 1
    ) n;
    -- What is out, and on an ordered queue what waits behind it.
    v_count := v_count + (
      select coalesce(sum(queen.count_of(d.pending) + case when d.ordered and d.until < 'infinity' then h.behind else 0 end), 0)
      from (
        select d.* from queen.deliveries d
        where d.group_id = v_group_id and d.priority = any (v_levels) limit p_most
      ) d
      left join lateral (
        select n.next_offset - c.claimed as behind
        from (
          select c.claimed
          from queen.consumers c
          where c.partition_id = d.partition_id and c.group_id = d.group_id
          order by c.version desc
          limit 1
        ) c
        cross join lateral (
          select s.base_offset + s.message_count as next_offset
          from queen.segments s
          where s.partition_id = d.partition_id
          order by s.base_offset desc
          limit 1
        ) n
      ) h on d.ordered
    );
    v_largest := greatest(v_largest, v_count);
  end loop;
  if not v_has_group then
    select coalesce(sum(n.next_offset - n.first_offset), 0) into v_largest
    from (select p.id from queen.partitions p where p.queue_id = p_queue_id limit p_most) p
    cross join lateral (
      select
        (
          select s.base_offset + s.message_count
          from queen.segments s where s.partition_id = p.id order by s.base_offset desc limit 1
        ) as next_offset,
        (
          select case when s.body is null then s.base_offset + s.message_count else s.base_offset end
          from queen.segments s where s.partition_id = p.id order by s.base_offset limit 1
        ) as first_offset
    ) n;
  end if;
  return v_largest + (select count(*) from (
    select 1 from queen.scheduled s where s.queue_id = p_queue_id limit p_most
  ) s);
end
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: queues; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.queues (
    id bigint NOT NULL,
    name text NOT NULL,
    namespace text DEFAULT ''::text NOT NULL,
    task text DEFAULT ''::text NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    levels integer[] DEFAULT '{0}'::integer[] NOT NULL,
    in_order boolean DEFAULT true NOT NULL,
    old_dedup_class smallint,
    old_dedup_until timestamp with time zone,
    lease_seconds double precision NOT NULL,
    retry_limit integer NOT NULL,
    retry_delay_ms integer NOT NULL,
    max_retry_delay_ms integer NOT NULL,
    retry_backoff double precision NOT NULL,
    priority integer NOT NULL,
    delay_seconds double precision NOT NULL,
    window_seconds double precision NOT NULL,
    dead_letter boolean NOT NULL,
    max_size bigint NOT NULL,
    ttl_seconds double precision NOT NULL,
    dedup_seconds double precision NOT NULL,
    ordered boolean NOT NULL,
    rate_max integer,
    rate_ms integer,
    rate_per text,
    concurrency_limit integer NOT NULL,
    paused boolean NOT NULL,
    max_payload_bytes integer,
    CONSTRAINT concurrency_limit_is_not_negative CHECK ((concurrency_limit >= 0)),
    CONSTRAINT dedup_window_is_at_most_31_days CHECK (((dedup_seconds >= (0)::double precision) AND (dedup_seconds <= (2678400)::double precision))),
    CONSTRAINT delay_is_at_most_a_year CHECK (((delay_seconds >= (0)::double precision) AND (delay_seconds <= (31536000)::double precision))),
    CONSTRAINT lease_is_positive_and_at_most_12_hours CHECK (((lease_seconds > (0)::double precision) AND (lease_seconds <= (43200)::double precision))),
    CONSTRAINT max_payload_is_positive CHECK ((max_payload_bytes > 0)),
    CONSTRAINT max_size_is_not_negative CHECK ((max_size >= 0)),
    CONSTRAINT priority_is_within_1000 CHECK (((priority >= '-1000'::integer) AND (priority <= 1000))),
    CONSTRAINT rate_limit_is_whole CHECK ((((rate_max IS NULL) AND (rate_ms IS NULL) AND (rate_per IS NULL)) OR ((rate_max IS NOT NULL) AND (rate_max > 0) AND (rate_ms IS NOT NULL) AND (rate_ms >= 16) AND (rate_per IS NOT NULL) AND (rate_per = ANY (ARRAY['queue'::text, 'partition'::text]))))),
    CONSTRAINT retry_backoff_is_from_1_to_100 CHECK (((retry_backoff >= (1)::double precision) AND (retry_backoff <= (100)::double precision))),
    CONSTRAINT retry_delay_is_not_negative CHECK (((retry_delay_ms >= 0) AND (max_retry_delay_ms >= 0))),
    CONSTRAINT retry_limit_is_from_0_to_1000 CHECK (((retry_limit >= 0) AND (retry_limit <= 1000))),
    CONSTRAINT ttl_is_not_negative CHECK (((ttl_seconds >= (0)::double precision) AND (ttl_seconds <= (315360000)::double precision))),
    CONSTRAINT window_is_at_most_a_year CHECK (((window_seconds >= (0)::double precision) AND (window_seconds <= (31536000)::double precision)))
);


--
-- Name: backoff(queen.queues, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.backoff(p_queue queen.queues, p_attempts integer) RETURNS interval
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select make_interval(secs => least(
    p_queue.max_retry_delay_ms,
    p_queue.retry_delay_ms * power(p_queue.retry_backoff, least(p_attempts, 31) - 1)
  ) * (0.8 + 0.2 * random()) / 1000.0)
$$;


--
-- Name: delivery_ids; Type: SEQUENCE; Schema: queen; Owner: -
--

CREATE SEQUENCE queen.delivery_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: deliveries; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.deliveries (
    id bigint DEFAULT nextval('queen.delivery_ids'::regclass) NOT NULL,
    token uuid DEFAULT gen_random_uuid() NOT NULL,
    group_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    priority integer NOT NULL,
    pending int8multirange NOT NULL,
    head bigint,
    out_end bigint,
    until timestamp with time zone NOT NULL,
    held boolean NOT NULL,
    ordered boolean NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    error text,
    payload bytea,
    extras bytea,
    created_at timestamp with time zone,
    CONSTRAINT deliveries_have_something_pending CHECK ((NOT isempty(pending)))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', vacuum_truncate=off);


--
-- Name: bury(queen.deliveries, bigint, integer, text, text, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.bury(p_delivery queen.deliveries, p_offset bigint, p_attempts integer, p_kind text, p_error text, p_now timestamp with time zone) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  insert into queen.dead_letters (
    queue_id, group_id, partition_id, "offset", queue, "group", partition, level, payload, extras,
    created_at, attempts, reason, error, failed_at
  )
  select
    q.id, g.id, p.id, p_offset, q.name, g.name, p.name, p.level, m.payload, m.extras,
    m.created_at, p_attempts, p_kind, coalesce(p_error, p_delivery.error), p_now
  from queen.partitions p
  join queen.queues q on q.id = p.queue_id
  join queen.groups g on g.id = p_delivery.group_id
  cross join lateral queen.message_at(p_delivery, p_offset) m
  where p.id = p_delivery.partition_id
  on conflict on constraint dead_letters_are_one_per_message_and_group do nothing
$$;


--
-- Name: change_order(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.change_order(p_queue_id bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform 1 from queen.queues q where q.id = p_queue_id for no key update skip locked;
  if not found then
    return false;
  end if;
  if exists (
    select 1 from queen.groups g join queen.deliveries d on d.group_id = g.id where g.queue_id = p_queue_id
  ) then
    return false;
  end if;
  update queen.queues q set in_order = q.ordered where q.id = p_queue_id and q.in_order <> q.ordered;
  return true;
end
$$;


--
-- Name: check_producers(text[], bigint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.check_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone) RETURNS TABLE(kind text, ordinal integer, "offset" bigint, created_at timestamp with time zone, xid bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
begin
  -- A first row is made, so that two first requests of a producer wait for each other.
  insert into queen.producers (producer_id, sequence, at)
  select n.producer_id, -1, p_now
  from unnest(p_producers) n (producer_id)
  where not exists (select 1 from queen.producers p where p.producer_id = n.producer_id)
  order by n.producer_id
  on conflict (producer_id, sequence) do nothing;

  perform 1
  from (select distinct n.producer_id from unnest(p_producers) n (producer_id) order by n.producer_id) n
  cross join lateral (
    select p.sequence
    from queen.producers p
    where p.producer_id = n.producer_id
    order by p.sequence desc
    limit 1
    for no key update
  ) l;

  return query
  select
    'producer', n.ordinal::integer, null::bigint, null::timestamptz, null::bigint,
    case when n.sequence < l.sequence then 'QN009' end
  from unnest(p_producers, p_sequences) with ordinality n (producer_id, sequence, ordinal)
  cross join lateral (
    select p.sequence
    from queen.producers p
    where p.producer_id = n.producer_id
    order by p.sequence desc
    limit 1
  ) l
  where n.sequence <= l.sequence;
end
$$;


--
-- Name: claim_due(bigint, queen.queues, integer, bigint[], timestamp with time zone, integer[], integer[], double precision[], boolean, bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.claim_due(p_group_id bigint, p_queue queen.queues, p_level integer, p_lanes bigint[], p_since timestamp with time zone, p_left integer[], p_lanes_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_slots bigint, p_now timestamp with time zone) RETURNS queen.claim
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  v_claim    queen.claim;
  v_delivery queen.deliveries;
  v_consumer queen.consumers;
  v_request  integer := 1;
  v_out      int8multirange;
  v_dead     int8multirange;
  v_run      int8range;
  v_count    bigint;
  v_most     bigint;
  v_budget   bigint := p_budget;
begin
  v_claim.taken := 0;
  v_claim.messages := 0;
  v_claim.expired := 0;
  v_claim.has_more := false;
  v_claim.left_messages := p_left;
  v_claim.left_lanes := p_lanes_left;
  for v_delivery in
    select d.*
    from queen.due_deliveries(
      p_group_id, p_level, p_lanes, p_since, p_now,
      -- A few more than are wanted: some may be over. Whatever is found is locked, so no more than that.
      case when p_budget is null and p_slots is null then (
        select least(1000, 10 + sum(o.lanes))::integer
        from unnest(p_left, p_lanes_left) o (messages, lanes)
        where o.messages > 0
      ) else 1 end
    ) d
  loop
    while v_request <= cardinality(p_left)
      and (v_claim.left_messages[v_request] <= 0 or v_claim.left_lanes[v_request] <= 0)
    loop
      v_request := v_request + 1;
    end loop;
    exit when v_request > cardinality(p_left) or v_budget <= 0;
    v_claim.first_at := least(v_claim.first_at, v_delivery.until);

    -- Whoever ends an ordered delivery moves its pair: have that first, or leave the delivery alone.
    if v_delivery.ordered or p_queue.rate_per = 'partition' then
      select c.* into v_consumer
      from queen.consumers c
      where c.partition_id = v_delivery.partition_id and c.group_id = p_group_id
      order by c.version desc
      limit 1
      for no key update skip locked;
      continue when not found;
    end if;

    if v_delivery.held then
      perform queen.fail(
        v_delivery, p_queue, lower(queen.handed_out(v_delivery)), 'expired', 'the lease expired', null,
        v_delivery.until, p_now
      );
      -- What of it is due now is found by the next call.
      v_claim.has_more := true;
      continue;
    end if;

    v_dead := queen.expired_of(v_delivery, p_now);
    if not isempty(v_dead) then
      v_claim.expired := v_claim.expired + queen.count_of(v_dead);
      v_claim.has_more := true;
      perform queen.drop_expired(v_delivery, v_dead);
      continue;
    end if;

    v_most := least(v_claim.left_messages[v_request], v_budget);
    if p_queue.rate_per = 'partition' then
      v_count := queen.allowance(v_consumer.recent, p_queue.rate_max, p_queue.rate_ms, p_now);
      if v_count <= 0 then
        update queen.deliveries d
        set until = queen.rate_opens_at(v_consumer.recent, p_queue.rate_max, p_queue.rate_ms, p_now)
        where d.id = v_delivery.id;
        continue;
      end if;
      v_most := least(v_most, v_count);
    end if;
    v_out := queen.first_of(queen.handed_out(v_delivery), v_most);
    v_count := queen.count_of(v_out);
    if p_queue.rate_per = 'partition' then
      update queen.consumers c
      set version = c.version + 1, recent = queen.spend(c.recent, p_queue.rate_ms, p_now, v_count)
      where c.partition_id = v_consumer.partition_id and c.group_id = p_group_id and c.version = v_consumer.version;
    end if;
    if not v_delivery.ordered and v_out <> v_delivery.pending then
      -- The rest of an unordered range need not wait for this part.
      insert into queen.deliveries (group_id, partition_id, priority, pending, until, held, ordered)
      values (
        p_group_id, v_delivery.partition_id, v_delivery.priority, v_delivery.pending - v_out, p_now, false, false
      );
      v_delivery.pending := v_out;
      v_claim.has_more := true;
    end if;
    update queen.deliveries d
    set
      id = nextval('queen.delivery_ids'),
      token = gen_random_uuid(),
      pending = v_delivery.pending,
      out_end = case when v_delivery.head is null and v_out <> v_delivery.pending then upper(v_out) end,
      held = true,
      until = p_now + make_interval(secs => coalesce(p_leases[v_request], p_queue.lease_seconds))
    where d.id = v_delivery.id
    returning d.* into v_delivery;
    if p_auto then
      perform queen.shrink(v_delivery, v_out);
      v_delivery.id := null;
      v_delivery.token := null;
      v_delivery.until := null;
    end if;

    v_claim.taken := v_claim.taken + 1;
    v_claim.messages := v_claim.messages + v_count;
    v_budget := v_budget - v_count;
    v_claim.left_messages[v_request] := v_claim.left_messages[v_request] - v_count;
    v_claim.left_lanes[v_request] := v_claim.left_lanes[v_request] - 1;
    for v_run in select r from unnest(v_out) r order by lower(r) loop
      v_claim.requests := v_claim.requests || v_request;
      v_claim.delivery_ids := v_claim.delivery_ids || v_delivery.id;
      v_claim.tokens := v_claim.tokens || v_delivery.token;
      v_claim.partition_ids := v_claim.partition_ids || v_delivery.partition_id;
      v_claim.attempts := v_claim.attempts || v_delivery.attempts;
      v_claim.untils := v_claim.untils || v_delivery.until;
      v_claim.firsts := v_claim.firsts || lower(v_run);
      v_claim.ends := v_claim.ends || upper(v_run);
      v_claim.payloads := v_claim.payloads || v_delivery.payload;
      v_claim.extras := v_claim.extras || v_delivery.extras;
      v_claim.created_ats := v_claim.created_ats || v_delivery.created_at;
    end loop;
  end loop;
  v_claim.has_more := v_claim.has_more or (v_claim.taken > 0 and num_nonnulls(p_budget, p_slots) > 0);
  return v_claim;
end
$$;


--
-- Name: claim_new(bigint, queen.queues, integer, bigint[], timestamp with time zone, integer[], integer[], double precision[], boolean, bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.claim_new(p_group_id bigint, p_queue queen.queues, p_level integer, p_lanes bigint[], p_since timestamp with time zone, p_left integer[], p_lanes_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_slots bigint, p_now timestamp with time zone) RETURNS queen.claim
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  v_slots      integer[];
  v_ids        bigint[];
  v_ctids      tid[];
  v_claimeds   bigint[];
  v_first_at   timestamptz;
  v_takes      bigint[];
  v_passed     integer[];
  v_found      integer;
  v_locked     bigint[];
  v_hold       boolean := p_queue.in_order and not p_auto;
  v_wait       double precision := greatest(p_queue.delay_seconds, p_queue.window_seconds);
  v_expired    bigint := 0;
  v_left       integer[] := p_left;
  v_lanes_left integer[] := p_lanes_left;
  v_claim      queen.claim;
begin
  -- One slot for each partition that a request may still take, first ones first.
  v_slots := array(
    select u.request::integer
    from unnest(p_left, p_lanes_left) with ordinality u (messages, lanes, request)
    cross join lateral generate_series(1, u.lanes) as k
    where u.messages > 0
    order by k, u.request
    limit case when p_budget is null and p_slots is null then 1000 else 1 end
  );

  if p_lanes is null then
    select array_agg(c.partition_id), array_agg(c.ctid), array_agg(c.claimed), min(c.ready_at)
    into v_ids, v_ctids, v_claimeds, v_first_at
    from (
      select c.ctid, c.partition_id, c.claimed, c.ready_at
      from queen.consumers c
      where c.group_id = p_group_id
        and c.priority = p_level
        and c.ready_at >= p_since
        and c.ready_at <= p_now
      order by c.ready_at
      limit cardinality(v_slots)
      for no key update skip locked
    ) c;
  else
    select array_agg(c.partition_id), array_agg(c.ctid), array_agg(c.claimed)
    into v_ids, v_ctids, v_claimeds
    from (
      select c.ctid, c.partition_id, c.claimed
      from unnest(p_lanes) l (id)
      cross join lateral (
        select c.ctid, c.partition_id, c.claimed, c.ready_at, c.priority
        from queen.consumers c
        where c.partition_id = l.id and c.group_id = p_group_id
        order by c.version desc
        limit 1
        for no key update skip locked
      ) c
      where c.ready_at <= p_now and c.priority = p_level
      limit cardinality(v_slots)
    ) c;
  end if;
  v_found := coalesce(cardinality(v_ids), 0);
  if v_found = 0 then
    v_claim.taken := 0;
    v_claim.expired := 0;
    v_claim.has_more := false;
    return v_claim;
  end if;

  -- How much of each may be taken: what is there, due and alive, and what its request still wants.
  select
    array_agg(m.take order by m.slot),
    array_agg(m.slot::integer) filter (where m.available = 0 or m.allowed <= 0)
  into v_takes, v_passed
  from (
    select
      c.slot,
      e.available,
      a.allowed,
      greatest(0, least(
        e.available,
        p_left[v_slots[c.slot]] - (
          sum(e.available) over (partition by v_slots[c.slot] order by c.slot) - e.available
        ),
        a.allowed,
        p_budget
      )) as take
    from unnest(v_ids, v_ctids, v_claimeds) with ordinality c (partition_id, ctid, claimed, slot)
    cross join lateral (
      select case
        when min(s.base_offset) <= c.claimed
          and coalesce(min(s.base_offset) filter (where s.expires_at <= p_now) > c.claimed, true)
        then greatest(0, least(
          max(s.base_offset + s.message_count),
          min(s.base_offset) filter (where s.expires_at <= p_now),
          c.claimed + p_left[v_slots[c.slot]]
        ) - c.claimed)
        else 0
      end as available
      from queen.segments s
      where s.partition_id = c.partition_id
        and s.base_offset >= coalesce(
          (
            select h.base_offset
            from queen.segments h
            where h.partition_id = c.partition_id and h.base_offset <= c.claimed
            order by h.base_offset desc
            limit 1
          ),
          c.claimed
        )
        and s.base_offset < c.claimed + p_left[v_slots[c.slot]]
        and s.created_at <= p_now - make_interval(secs => p_queue.delay_seconds)
        and s.body is not null
    ) e
    cross join lateral (
      select case when p_queue.rate_per = 'partition' then (
        select queen.allowance(r.recent, p_queue.rate_max, p_queue.rate_ms, p_now)
        from queen.consumers r
        where r.ctid = c.ctid
      ) end as allowed
    ) a
  ) m;

  if v_passed is not null then
    v_expired := queen.pass(
      array(select v_ctids[p] from unnest(v_passed) p), array(select v_ids[p] from unnest(v_passed) p), p_queue
    );
  end if;
  -- Idle is said only under the partition's lock; who cannot have it at once stays ready.
  if not v_hold then
    v_locked := array(
      select p.id
      from queen.partitions p
      where p.id = any (v_ids)
      for no key update skip locked
    );
  end if;

  -- What each request still wants after this.
  for v_slot in 1 .. v_found loop
    if v_takes[v_slot] > 0 then
      v_left[v_slots[v_slot]] := v_left[v_slots[v_slot]] - v_takes[v_slot];
      v_lanes_left[v_slots[v_slot]] := v_lanes_left[v_slots[v_slot]] - 1;
    end if;
  end loop;

  with take as materialized (
    select
      v_slots[t.slot] as request,
      t.slot,
      t.partition_id,
      t.ctid,
      t.claimed as first_offset,
      t.claimed + t.take as end_offset,
      t.take,
      case when not p_auto then nextval('queen.delivery_ids') end as delivery_id,
      case when not p_auto then gen_random_uuid() end as token,
      p_now + make_interval(secs => coalesce(p_leases[v_slots[t.slot]], p_queue.lease_seconds)) as until
    from unnest(v_ids, v_ctids, v_claimeds, v_takes) with ordinality t (partition_id, ctid, claimed, take, slot)
    where t.take > 0
  ),
  moved as (
    update queen.consumers c
    set
      version = c.version + 1,
      claimed = t.end_offset,
      held = v_hold,
      idle_at = case when not v_hold and t.is_idle then greatest(p_now, t.newest_at) end,
      ready_at = case
        when v_hold or t.is_idle then null
        when p_queue.rate_per = 'partition' then greatest(t.ready_at, queen.rate_opens_at(
          queen.spend(c.recent, p_queue.rate_ms, p_now, t.take), p_queue.rate_max, p_queue.rate_ms, p_now
        ))
        else t.ready_at
      end,
      recent = case
        when p_queue.rate_per = 'partition' then queen.spend(c.recent, p_queue.rate_ms, p_now, t.take)
      end
    from (
      select
        t.*,
        n.created_at as newest_at,
        t.end_offset >= n.next_offset and t.partition_id = any (v_locked) as is_idle,
        case
          when v_hold then null
          when t.end_offset >= n.next_offset or v_wait = 0 then queen.now()
          else queen.head_ready(t.partition_id, t.end_offset, v_wait, queen.now())
        end as ready_at
      from take t
      -- Who holds the pair will look when it is settled.
      left join lateral (
        select s.base_offset + s.message_count as next_offset, s.created_at
        from queen.segments s
        where s.partition_id = t.partition_id and not v_hold
        order by s.base_offset desc
        limit 1
      ) n on true
      offset 0
    ) t
    where c.ctid = t.ctid
  ),
  lent as (
    insert into queen.deliveries (id, token, group_id, partition_id, priority, pending, until, held, ordered)
    select
      t.delivery_id, t.token, p_group_id, t.partition_id, p_level,
      int8multirange(int8range(t.first_offset, t.end_offset)), t.until, true, p_queue.in_order
    from take t
    where not p_auto
  )
  select
    count(t.slot)::integer,
    coalesce(sum(t.take), 0)::bigint,
    v_first_at,
    v_expired,
    v_found = cardinality(v_slots),
    array_agg(t.request order by t.slot),
    array_agg(t.delivery_id order by t.slot),
    array_agg(t.token order by t.slot),
    array_agg(t.partition_id order by t.slot),
    array_agg(0 order by t.slot),
    array_agg(case when not p_auto then t.until end order by t.slot),
    array_agg(t.first_offset order by t.slot),
    array_agg(t.end_offset order by t.slot),
    array_agg(null::bytea),
    array_agg(null::bytea),
    array_agg(null::timestamptz),
    v_left,
    v_lanes_left
  into v_claim
  from take t;
  return v_claim;
end
$$;


--
-- Name: configure(text, text, text, jsonb, boolean, bigint, jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.configure(p_name text, p_namespace text, p_task text, p_options jsonb, p_replace boolean, p_version bigint, p_defaults jsonb) RETURNS SETOF queen.queues
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  v_defaults jsonb := queen.default_options() || coalesce(p_defaults, '{}');
  v_unknown  text;
  v_old      queen.queues;
  v_new      queen.queues;
begin
  select k into v_unknown from jsonb_object_keys(p_options) k where not queen.default_options() ? k limit 1;
  if v_unknown is not null then
    raise exception 'there is no option %', v_unknown using errcode = 'QN006';
  end if;

  insert into queen.queues overriding system value
  select r.*
  from (select queen.new_queue(p_defaults) || jsonb_build_object('name', p_name) as columns offset 0) n
  cross join lateral jsonb_populate_record(null::queen.queues, n.columns) r
  where not exists (select 1 from queen.queues q where q.name = p_name and q.deleted_at is null)
  on conflict (name) where deleted_at is null do nothing;
  select q.* into v_old
  from queen.queues q
  where q.name = p_name and q.deleted_at is null
  for no key update;
  if p_version is not null and v_old.version <> p_version then
    raise exception 'queue % is at version %, not %', p_name, v_old.version, p_version using errcode = 'QN007';
  end if;

  begin
    v_new := jsonb_populate_record(
      v_old,
      case when p_replace then v_defaults else '{}' end || (
        select coalesce(jsonb_object_agg(o.key, case when o.value = 'null' then v_defaults -> o.key else o.value end), '{}')
        from jsonb_each(p_options) o
      )
    );
  exception when invalid_text_representation or numeric_value_out_of_range then
    raise exception 'an option has a value that it cannot have: %', sqlerrm using errcode = 'QN006';
  end;
  -- While nothing is out there is nothing to wait for.
  if not exists (
    select 1 from queen.groups g join queen.deliveries d on d.group_id = g.id where g.queue_id = v_old.id
  ) then
    v_new.in_order := v_new.ordered;
  end if;
  if queen.dedup_class(v_new.dedup_seconds) <> queen.dedup_class(v_old.dedup_seconds) then
    v_new.old_dedup_class := queen.dedup_class(v_old.dedup_seconds);
    v_new.old_dedup_until := queen.now() + make_interval(secs => v_old.dedup_seconds);
  end if;

  return query
  update queen.queues q
  set
    namespace = coalesce(p_namespace, q.namespace), task = coalesce(p_task, q.task), version = q.version + 1,
    in_order = v_new.in_order, old_dedup_class = v_new.old_dedup_class, old_dedup_until = v_new.old_dedup_until,
    lease_seconds = v_new.lease_seconds, retry_limit = v_new.retry_limit, retry_delay_ms = v_new.retry_delay_ms,
    max_retry_delay_ms = v_new.max_retry_delay_ms, retry_backoff = v_new.retry_backoff, priority = v_new.priority,
    delay_seconds = v_new.delay_seconds, window_seconds = v_new.window_seconds, dead_letter = v_new.dead_letter,
    max_size = v_new.max_size, ttl_seconds = v_new.ttl_seconds, dedup_seconds = v_new.dedup_seconds,
    ordered = v_new.ordered, rate_max = v_new.rate_max, rate_ms = v_new.rate_ms, rate_per = v_new.rate_per,
    concurrency_limit = v_new.concurrency_limit, paused = v_new.paused,
    max_payload_bytes = v_new.max_payload_bytes
  where q.id = v_old.id
  returning q.*;
end
$$;


--
-- Name: configure_partition(text, text, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.configure_partition(p_queue text, p_partition text, p_priority integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  v_queue_id bigint;
  v_ids      bigint[];
begin
  select q.id into v_queue_id from queen.queues q where q.name = p_queue and q.deleted_at is null;
  if not found then
    raise exception 'there is no queue %', p_queue using errcode = 'QN001';
  end if;
  perform pg_advisory_xact_lock(hashtextextended('queen.queue', v_queue_id));
  select array_agg(l.id) into v_ids
  from (
    select p.id
    from queen.partitions p
    where p.queue_id = v_queue_id and p.name = p_partition
    order by p.id
    for no key update
  ) l;
  if v_ids is null then
    raise exception 'queue % has no partition %', p_queue, p_partition using errcode = 'QN004';
  end if;
  update queen.partitions p set priority = p_priority where p.id = any (v_ids);
  update queen.consumers c
  set version = c.version + 1, priority = p_priority * 10 + p.level
  from queen.partitions p
  where p.id = any (v_ids) and c.partition_id = p.id;
  update queen.deliveries d
  set priority = p_priority * 10 + p.level
  from queen.partitions p
  where p.id = any (v_ids) and d.partition_id = p.id;
  update queen.queues q
  set levels = array(
    select distinct l
    from unnest(q.levels || array(select p_priority * 10 + p.level from queen.partitions p where p.id = any (v_ids))) l
    order by l desc
  )
  where q.id = v_queue_id;
end
$$;


--
-- Name: count_of(int8multirange); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.count_of(p_offsets int8multirange) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select coalesce(sum(upper(u) - lower(u)), 0)::bigint from unnest(p_offsets) as u
$$;


--
-- Name: dedup_class(double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.dedup_class(p_seconds double precision) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$
  select case
    when p_seconds <= 3600 then 0
    when p_seconds <= 86400 then 1
    when p_seconds <= 604800 then 2
    else 3
  end
$$;


--
-- Name: dedup_generation(integer, timestamp with time zone, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.dedup_generation(p_class integer, p_at timestamp with time zone, p_back integer) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$
  select (p_class * 3 + (floor(extract(epoch from p_at) / queen.dedup_length(p_class))::bigint - p_back) % 3)::smallint
$$;


--
-- Name: dedup_key(bigint, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.dedup_key(p_partition_id bigint, p_transaction_id text) RETURNS uuid
    LANGUAGE sql IMMUTABLE
    AS $$
  select encode(substr(sha256(int8send(p_partition_id) || convert_to(p_transaction_id, 'UTF8')), 1, 16), 'hex')::uuid
$$;


--
-- Name: dedup_length(integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.dedup_length(p_class integer) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$
  select (array[3600, 86400, 604800, 2678400])[p_class + 1]::bigint
$$;


--
-- Name: default_options(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.default_options() RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    AS $$
  select jsonb_build_object(
    'lease_seconds', 300,
    'retry_limit', 3,
    'retry_delay_ms', 1000,
    'max_retry_delay_ms', 300000,
    'retry_backoff', 2,
    'priority', 0,
    'delay_seconds', 0,
    'window_seconds', 0,
    'dead_letter', true,
    'max_size', 0,
    'ttl_seconds', 0,
    'dedup_seconds', 86400,
    'ordered', true,
    'rate_max', null,
    'rate_ms', null,
    'rate_per', null,
    'concurrency_limit', 0,
    'paused', false,
    'max_payload_bytes', null
  )
$$;


--
-- Name: delete_group(text, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.delete_group(p_queue text, p_group text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  v_queue_id bigint;
  v_id       bigint;
begin
  select q.id into v_queue_id from queen.queues q where q.name = p_queue and q.deleted_at is null;
  if not found then
    raise exception 'there is no queue %', p_queue using errcode = 'QN001';
  end if;
  update queen.groups g
  set deleted_at = queen.now()
  where g.queue_id = v_queue_id and g.name = p_group and g.deleted_at is null
  returning g.id into v_id;
  if not found then
    raise exception 'queue % has no group %', p_queue, p_group using errcode = 'QN003';
  end if;
  return v_id;
end
$$;


--
-- Name: delete_queue(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.delete_queue(p_queue text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  v_id bigint;
begin
  update queen.queues q
  set deleted_at = queen.now(), version = q.version + 1
  where q.name = p_queue and q.deleted_at is null
  returning q.id into v_id;
  if not found then
    raise exception 'there is no queue %', p_queue using errcode = 'QN001';
  end if;
  update queen.groups g set deleted_at = queen.now() where g.queue_id = v_id and g.deleted_at is null;
  return v_id;
end
$$;


--
-- Name: drop_expired(queen.deliveries, int8multirange); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.drop_expired(p_delivery queen.deliveries, p_dead int8multirange) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if p_dead @> p_delivery.pending then
    perform queen.shrink(p_delivery, p_dead);
    return;
  end if;
  update queen.deliveries d
  set
    pending = d.pending - p_dead,
    head = case when p_dead @> d.head then null else d.head end,
    attempts = case when p_dead @> d.head then 0 else d.attempts end
  where d.id = p_delivery.id;
end
$$;


--
-- Name: due_deliveries(bigint, integer, bigint[], timestamp with time zone, timestamp with time zone, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.due_deliveries(p_group_id bigint, p_level integer, p_lanes bigint[], p_since timestamp with time zone, p_now timestamp with time zone, p_limit integer) RETURNS SETOF queen.deliveries
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if p_lanes is null then
    return query
    select d.*
    from queen.deliveries d
    where d.group_id = p_group_id and d.priority = p_level and d.until >= p_since and d.until <= p_now
    order by d.until
    limit p_limit
    for no key update skip locked;
  else
    return query
    select d.*
    from unnest(p_lanes) l (id)
    cross join lateral (
      select d.*
      from queen.deliveries d
      where d.partition_id = l.id and d.group_id = p_group_id and d.until >= p_since and d.until <= p_now
      order by d.until
      limit p_limit
      for no key update skip locked
    ) d
    where d.priority = p_level
    limit p_limit;
  end if;
end
$$;


--
-- Name: end_at(bytea, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.end_at(p_ends bytea, p_index integer) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$
  select get_byte(p_ends, 4 * p_index)
    + (get_byte(p_ends, 4 * p_index + 1) << 8)
    + (get_byte(p_ends, 4 * p_index + 2) << 16)
    + (get_byte(p_ends, 4 * p_index + 3) << 24)
$$;


--
-- Name: end_bytes(integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.end_bytes(p_end integer) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$
  select substr(b, 4, 1) || substr(b, 3, 1) || substr(b, 2, 1) || substr(b, 1, 1)
  from int4send(p_end) as b
$$;


--
-- Name: ends_of(bytea[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.ends_of(p_values bytea[]) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$
  select '\x00000000'::bytea || string_agg(queen.end_bytes(v.until::integer), '' order by v.ordinal)
  from (
    select e.ordinal, sum(length(coalesce(e.value, ''))) over (order by e.ordinal) as until
    from unnest(p_values) with ordinality as e (value, ordinal)
  ) v
$$;


--
-- Name: erase(integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.erase(p_limit integer) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
declare
  v_id       bigint;
  v_group    queen.groups;
  v_ids      bigint[];
begin
  select q.id into v_id
  from queen.queues q where q.deleted_at is not null order by q.id limit 1 for update skip locked;
  if found then
    v_ids := array(
      select p.id from queen.partitions p where p.queue_id = v_id order by p.id limit p_limit for update
    );
    delete from queen.deliveries d
    using queen.groups g
    where g.queue_id = v_id and d.group_id = g.id and d.partition_id = any (v_ids);
    delete from queen.consumers c where c.partition_id = any (v_ids);
    delete from queen.segments s where s.partition_id = any (v_ids);
    delete from queen.scheduled s where s.queue_id = v_id and s.partition_id = any (v_ids);
    delete from queen.partitions p where p.id = any (v_ids);
    if cardinality(v_ids) < p_limit then
      delete from queen.limits l using queen.groups g where g.queue_id = v_id and l.group_id = g.id;
      delete from queen.groups g where g.queue_id = v_id;
      delete from queen.queues q where q.id = v_id;
    end if;
    return false;
  end if;

  select g.* into v_group
  from queen.groups g where g.deleted_at is not null order by g.id limit 1 for update skip locked;
  if not found then
    return true;
  end if;
  -- The cursor of filling counts on from the start again, this time erasing.
  v_ids := array(
    select p.id
    from queen.partitions p
    where p.queue_id = v_group.queue_id and p.id > coalesce(-nullif(v_group.fill_end, abs(v_group.fill_end)), 0)
    order by p.id
    limit p_limit
  );
  delete from queen.deliveries d where d.group_id = v_group.id and d.partition_id = any (v_ids);
  delete from queen.consumers c where c.group_id = v_group.id and c.partition_id = any (v_ids);
  if cardinality(v_ids) < p_limit then
    delete from queen.limits l where l.group_id = v_group.id;
    delete from queen.groups g where g.id = v_group.id;
  else
    update queen.groups g set fill_end = -v_ids[p_limit] where g.id = v_group.id;
  end if;
  return false;
end
$$;


--
-- Name: expired_of(queen.deliveries, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.expired_of(p_delivery queen.deliveries, p_now timestamp with time zone) RETURNS int8multirange
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select p_delivery.pending * coalesce(
    range_agg(int8range(s.base_offset, s.base_offset + s.message_count)), '{}'::int8multirange
  )
  from queen.segments s
  where p_delivery.payload is null
    and s.partition_id = p_delivery.partition_id
    and s.base_offset >= (
      select h.base_offset
      from queen.segments h
      where h.partition_id = p_delivery.partition_id and h.base_offset <= lower(p_delivery.pending)
      order by h.base_offset desc
      limit 1
    )
    and s.base_offset < upper(p_delivery.pending)
    and s.expires_at <= p_now
$$;


--
-- Name: extend(bigint[], uuid[], double precision[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.extend(p_ids bigint[], p_tokens uuid[], p_seconds double precision[]) RETURNS TABLE(ordinal integer, until timestamp with time zone, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  v_now timestamptz;
begin
  perform 1 from (select d.id from queen.deliveries d where d.id = any (p_ids) order by d.id for no key update) l;
  -- Only now: the wait for the locks must not come out of the lease.
  v_now := queen.now();
  return query
  with moved as (
    update queen.deliveries d
    set until = greatest(d.until, v_now + make_interval(secs => a.seconds))
    from (
      select a.ordinal, a.seconds, d.ctid
      from unnest(p_ids, p_tokens, p_seconds) with ordinality a (id, token, seconds, ordinal)
      cross join lateral (
        select d.ctid from queen.deliveries d where d.id = a.id and d.token = a.token and d.held offset 0
      ) d
    ) a
    where d.ctid = a.ctid
    returning a.ordinal, d.until
  )
  select a.ordinal::integer, m.until, case when m.ordinal is null then 'QN002' end
  from unnest(p_ids) with ordinality a (id, ordinal)
  left join moved m on m.ordinal = a.ordinal
  order by a.ordinal;
end
$$;


--
-- Name: extra_at(bytea, integer, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.extra_at(p_extras bytea, p_count integer, p_index integer) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$
  select nullif(queen.payload_at(substr(p_extras, 4 * (p_count + 1) + 1), p_extras, p_index), ''::bytea)
$$;


--
-- Name: fail(queen.deliveries, queen.queues, bigint, text, text, double precision, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.fail(p_delivery queen.deliveries, p_queue queen.queues, p_offset bigint, p_kind text, p_error text, p_delay double precision, p_from timestamp with time zone, p_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  v_failed   int8multirange := int8multirange(int8range(p_offset, p_offset + 1));
  v_left     int8multirange := p_delivery.pending - v_failed;
  v_attempts integer := case when p_offset = p_delivery.head then p_delivery.attempts else 0 end;
  v_due      timestamptz;
begin
  if p_kind in ('failed', 'expired') then
    v_attempts := v_attempts + 1;
  end if;

  if p_kind = 'dead' or (p_kind <> 'retry' and v_attempts > p_queue.retry_limit) then
    if p_kind = 'dead' or p_queue.dead_letter then
      perform queen.bury(
        p_delivery, p_offset, v_attempts + (p_kind = 'dead')::integer, p_kind, p_error, p_now
      );
    end if;
    if p_kind = 'dead' or isempty(v_left) or (p_kind = 'failed' and not p_delivery.ordered) then
      perform queen.shrink(p_delivery, v_failed);
    else
      -- The rest is due at once, and free of the blame.
      update queen.deliveries d
      set
        id = nextval('queen.delivery_ids'), token = gen_random_uuid(), pending = v_left,
        head = null, attempts = 0, error = null, out_end = null, held = false, until = p_now
      where d.id = p_delivery.id;
    end if;
    return null;
  end if;

  v_due := case
    when p_delay is not null then p_now + make_interval(secs => p_delay)
    when p_kind = 'retry' then p_now
    else p_from + queen.backoff(p_queue, v_attempts)
  end;
  if p_delivery.ordered or isempty(v_left) then
    update queen.deliveries d
    set
      id = nextval('queen.delivery_ids'), token = gen_random_uuid(), head = p_offset,
      attempts = v_attempts, error = coalesce(p_error, d.error), out_end = null, held = false, until = v_due
    where d.id = p_delivery.id;
  else
    insert into queen.deliveries (
      group_id, partition_id, priority, pending, head, until, held, ordered, attempts, error
    ) values (
      p_delivery.group_id, p_delivery.partition_id, p_delivery.priority, v_failed, p_offset, v_due, false,
      false, v_attempts, p_error
    );
    if p_kind = 'expired' then
      update queen.deliveries d
      set id = nextval('queen.delivery_ids'), token = gen_random_uuid(), pending = v_left, held = false, until = p_now
      where d.id = p_delivery.id;
    else
      update queen.deliveries d set pending = v_left where d.id = p_delivery.id;
    end if;
  end if;
  return v_due;
end
$$;


--
-- Name: fill(bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.fill(p_group_id bigint, p_limit integer) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
declare
  v_group queen.groups;
  v_queue queen.queues;
  v_ids   bigint[];
  v_now   timestamptz;
begin
  select g.* into v_group from queen.groups g where g.id = p_group_id for no key update;
  if not found or v_group.filled_to is null or v_group.deleted_at is not null then
    return true;
  end if;
  select q.* into v_queue from queen.queues q where q.id = v_group.queue_id;
  select array_agg(l.id) into v_ids
  from (
    select p.id
    from queen.partitions p
    where p.queue_id = v_group.queue_id and p.id > v_group.filled_to and p.id <= v_group.fill_end
    order by p.id
    limit p_limit
    for no key update
  ) l;
  v_now := queen.now();
  insert into queen.consumers (partition_id, group_id, claimed, ready_at, idle_at, priority)
  select
    p.id,
    p_group_id,
    f.first_offset,
    case when f.first_offset < n.next_offset then
      queen.head_ready(p.id, f.first_offset, greatest(v_queue.delay_seconds, v_queue.window_seconds), v_now)
    end,
    case when f.first_offset >= coalesce(n.next_offset, 0) then greatest(v_now, n.created_at) end,
    p.priority * 10 + p.level
  from unnest(v_ids) k (id)
  join queen.partitions p on p.id = k.id
  left join lateral (
    select s.base_offset + s.message_count as next_offset, s.created_at
    from queen.segments s
    where s.partition_id = p.id
    order by s.base_offset desc
    limit 1
  ) n on true
  cross join lateral (
    select case
      when v_group.start_mode <> 'all' then queen.offset_after(p.id, v_group.start_at)
      else coalesce(
        (select s.base_offset from queen.segments s where s.partition_id = p.id order by s.base_offset limit 1), 0
      )
    end as first_offset
  ) f;
  update queen.groups g
  set filled_to = case when coalesce(cardinality(v_ids), 0) = p_limit then v_ids[p_limit] end
  where g.id = p_group_id;
  return coalesce(cardinality(v_ids), 0) < p_limit;
end
$$;


--
-- Name: find_delivery(text, bigint, uuid, bigint, text, bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.find_delivery(p_group text, p_delivery_id bigint, p_token uuid, p_partition_id bigint, p_transaction_id text, p_place_id bigint, p_place_offset bigint) RETURNS TABLE(id bigint, token uuid, partition_id bigint, "offset" bigint, is_settled boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  v_ids bigint[];
begin
  -- Which deliveries it may be in: each way of naming them is a search of its own, by its own index.
  if p_delivery_id is not null then
    v_ids := array(
      select d.id from queen.deliveries d where d.id = p_delivery_id and d.token = p_token and d.held
    );
  elsif p_partition_id is not null then
    v_ids := array(
      select d.id
      from queen.deliveries d
      where d.partition_id = p_partition_id
        and d.held
        and exists (
          select 1 from queen.groups g where g.id = d.group_id and g.name = p_group and g.deleted_at is null offset 0
        )
    );
  else
    v_ids := array(
      select d.id
      from queen.groups g
      cross join lateral (select d.id from queen.deliveries d where d.group_id = g.id and d.held offset 0) d
      where g.name = p_group and g.deleted_at is null
    );
  end if;

  return query
  select d.id, d.token, d.partition_id, k."offset", false
  from queen.deliveries d
  cross join lateral (
    select k."offset"
    from queen.dedup k
    where k.key = queen.dedup_key(d.partition_id, p_transaction_id)
    offset 0
  ) k
  where d.id = any (v_ids)
    and d.partition_id = coalesce(p_partition_id, d.partition_id)
    and queen.handed_out(d) @> k."offset"
  limit 2;
  if found then
    return;
  end if;

  if p_delivery_id is not null or p_partition_id is not null then
    -- Not remembered as a key any more, or never: it stands beside the message.
    return query
    select d.id, d.token, d.partition_id, m."offset", false
    from queen.deliveries d
    cross join lateral (
      select s.base_offset + i as "offset", queen.extra_at(s.extras, s.message_count, i) as extra
      from queen.segments s
      cross join lateral generate_series(0, s.message_count - 1) i
      where d.payload is null
        and s.partition_id = d.partition_id
        and s.base_offset >= (
          select h.base_offset
          from queen.segments h
          where h.partition_id = d.partition_id and h.base_offset <= lower(d.pending)
          order by h.base_offset desc
          limit 1
        )
        and s.base_offset < upper(d.pending)
        and s.extras is not null
      union all
      select lower(d.pending), d.extras where d.payload is not null
    ) m
    where d.id = any (v_ids)
      and d.partition_id = coalesce(p_partition_id, d.partition_id)
      and queen.handed_out(d) @> m."offset"
      and convert_from(m.extra, 'UTF8')::json ->> 'transactionId' = p_transaction_id
    limit 2;
    if found then
      return;
    end if;
  end if;

  if p_delivery_id is not null then
    -- The lease is current, and the message was one of it that is settled.
    return query
    select null::bigint, null::uuid, d.partition_id, k."offset", true
    from queen.deliveries d
    cross join lateral (
      select k."offset"
      from queen.dedup k
      where k.key = queen.dedup_key(d.partition_id, p_transaction_id)
      offset 0
    ) k
    where d.id = p_delivery_id and d.token = p_token and d.held
    limit 1;
    if found then
      return;
    end if;
  end if;

  if p_place_id is not null then
    return query
    select
      d.id, d.token, d.partition_id, p_place_offset,
      d.id is null
        and c.claimed > p_place_offset
        and not exists (
          select 1 from queen.deliveries o
          where o.group_id = g.id and o.partition_id = p_place_id and o.pending @> p_place_offset
        )
        and (p_delivery_id is null or not queen.is_over(p_delivery_id, p_token))
    from queen.partitions p
    join queen.groups g on g.queue_id = p.queue_id and g.name = p_group and g.deleted_at is null
    cross join lateral (
      select c.claimed
      from queen.consumers c
      where c.partition_id = p.id and c.group_id = g.id
      order by c.version desc
      limit 1
    ) c
    left join lateral (
      select d.id, d.token, d.partition_id
      from queen.deliveries d
      where d.partition_id = p_place_id and d.group_id = g.id and d.held and queen.handed_out(d) @> p_place_offset
      offset 0
    ) d on true
    where p.id = p_place_id;
  end if;
end
$$;


--
-- Name: first_of(int8multirange, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.first_of(p_offsets int8multirange, p_count bigint) RETURNS int8multirange
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select coalesce(
    range_agg(int8range(r.low, least(r.high, r.low + p_count - r.before))) filter (where r.before < p_count),
    '{}'::int8multirange
  )
  from (
    select
      lower(u) as low,
      upper(u) as high,
      (sum(upper(u) - lower(u)) over (order by lower(u)))::bigint - (upper(u) - lower(u)) as before
    from unnest(p_offsets) as u
  ) r
$$;


--
-- Name: free(bigint[], bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.free(p_partition_ids bigint[], p_group_ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
declare
  v_ctids    tid[];
  v_claimeds bigint[];
  v_parked   integer[];
  v_drained  bigint[];
  v_locked   bigint[];
  v_now      timestamptz;
begin
  select
    array_agg(c.ctid order by r.ordinal),
    array_agg(c.claimed order by r.ordinal),
    array_agg(c.parked order by r.ordinal),
    array_agg(r.partition_id) filter (where c.claimed >= n.next_offset)
  into v_ctids, v_claimeds, v_parked, v_drained
  from unnest(p_partition_ids, p_group_ids) with ordinality r (partition_id, group_id, ordinal)
  cross join lateral (
    select c.ctid, c.claimed, c.parked
    from queen.consumers c
    where c.partition_id = r.partition_id and c.group_id = r.group_id
    order by c.version desc
    limit 1
  ) c
  cross join lateral (
    select s.base_offset + s.message_count as next_offset
    from queen.segments s
    where s.partition_id = r.partition_id
    order by s.base_offset desc
    limit 1
  ) n;
  if v_drained is not null then
    v_locked := array(
      select p.id from queen.partitions p where p.id = any (v_drained) for no key update skip locked
    );
  end if;
  v_now := queen.now();

  update queen.consumers c
  set
    version = c.version + 1,
    held = n.parked_id is not null,
    parked = c.parked - (n.parked_id is not null)::integer,
    idle_at = case when n.is_idle and n.parked_id is null then greatest(v_now, n.created_at) end,
    ready_at = case
      when n.is_idle or n.parked_id is not null then null
      when n.rate_per = 'partition' then greatest(n.ready_at, queen.rate_opens_at(c.recent, n.rate_max, n.rate_ms, v_now))
      else n.ready_at
    end
  from (
    select
      r.ctid, s.created_at, q.rate_per, q.rate_max, q.rate_ms,
      r.claimed >= s.next_offset and r.partition_id = any (v_locked) as is_idle,
      case
        when r.claimed >= s.next_offset or q.wait_seconds = 0 then v_now
        else queen.head_ready(r.partition_id, r.claimed, q.wait_seconds, v_now)
      end as ready_at,
      case when r.parked > 0 then queen.unpark(r.partition_id, r.group_id, v_now) end as parked_id
    from (
      -- A few groups, read once.
      select g.id, q.rate_per, q.rate_max, q.rate_ms, greatest(q.delay_seconds, q.window_seconds) as wait_seconds
      from (select distinct u.id from unnest(p_group_ids) u (id)) u
      cross join lateral (select g.id, g.queue_id from queen.groups g where g.id = u.id offset 0) g
      cross join lateral (select q.* from queen.queues q where q.id = g.queue_id offset 0) q
      offset 0
    ) q
    join unnest(p_partition_ids, p_group_ids, v_ctids, v_claimeds, v_parked)
      r (partition_id, group_id, ctid, claimed, parked) on r.group_id = q.id
    cross join lateral (
      select s.base_offset + s.message_count as next_offset, s.created_at
      from queen.segments s
      where s.partition_id = r.partition_id
      order by s.base_offset desc
      limit 1
    ) s
    offset 0
  ) n
  where c.ctid = n.ctid;
end
$$;


--
-- Name: handed_out(queen.deliveries); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.handed_out(p_delivery queen.deliveries) RETURNS int8multirange
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select p_delivery.pending * int8multirange(case
    when p_delivery.head is not null then int8range(p_delivery.head, p_delivery.head + 1)
    else int8range(null, p_delivery.out_end)
  end)
$$;


--
-- Name: head_ready(bigint, bigint, double precision, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.head_ready(p_partition_id bigint, p_offset bigint, p_seconds double precision, p_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select greatest(p_now, s.created_at + make_interval(secs => p_seconds))
  from queen.segments s
  where s.partition_id = p_partition_id
    and s.base_offset >= coalesce(
      (
        select h.base_offset
        from queen.segments h
        where h.partition_id = p_partition_id and h.base_offset <= p_offset
        order by h.base_offset desc
        limit 1
      ),
      p_offset
    )
    and s.base_offset + s.message_count > p_offset
  order by s.base_offset
  limit 1
$$;


--
-- Name: is_over(bigint, uuid); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.is_over(p_id bigint, p_token uuid) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select not exists (select 1 from queen.deliveries d where d.id = p_id and d.token = p_token and d.held)
$$;


--
-- Name: join_extras(bytea[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.join_extras(p_extras bytea[]) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$
  select case
    when count(e.extra) > 0
    then queen.ends_of(p_extras) || string_agg(coalesce(e.extra, ''), '' order by e.ordinal)
  end
  from unnest(p_extras) with ordinality as e (extra, ordinal)
$$;


--
-- Name: levels_by_turn(queen.queues, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.levels_by_turn(p_queue queen.queues, p_turn integer) RETURNS integer[]
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select case
    when p_queue.in_order or p_turn % 4 <> 3 or cardinality(p_queue.levels) = 1 then p_queue.levels
    else array(
      select u.level
      from unnest(p_queue.levels) with ordinality u (level, ordinal)
      order by (u.ordinal + p_turn / 4) % cardinality(p_queue.levels)
    )
  end
$$;


--
-- Name: lock_consumers(bigint[], uuid[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.lock_consumers(p_ids bigint[], p_tokens uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
begin
  perform 1
  from (
    select distinct d.partition_id, d.group_id
    from unnest(p_ids, p_tokens) a (id, token)
    cross join lateral (
      select d.partition_id, d.group_id
      from queen.deliveries d
      where d.id = a.id and d.token = a.token and d.ordered
      offset 0
    ) d
    order by d.partition_id, d.group_id
  ) d
  cross join lateral (
    select c.version
    from queen.consumers c
    where c.partition_id = d.partition_id and c.group_id = d.group_id
    order by c.version desc
    limit 1
    for no key update
  ) c;
end
$$;


--
-- Name: lock_limit(bigint, queen.queues, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.lock_limit(p_group_id bigint, p_queue queen.queues, p_now timestamp with time zone) RETURNS TABLE(version bigint, budget bigint, slots bigint, opens_at timestamp with time zone)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  v_limit queen.limits;
begin
  if not exists (select 1 from queen.limits l where l.group_id = p_group_id) then
    -- Whoever comes second must not wait for the first one's commit.
    if not pg_try_advisory_xact_lock(hashtextextended('queen.limit', p_group_id)) then
      return query select null::bigint, 0::bigint, null::bigint, p_now + interval '5 milliseconds';
      return;
    end if;
    insert into queen.limits (group_id, version, recent) values (p_group_id, 0, '{}') on conflict do nothing;
  end if;
  select l.* into v_limit
  from queen.limits l
  where l.group_id = p_group_id
  order by l.version desc
  limit 1
  for no key update skip locked;
  if not found then
    return query select null::bigint, 0::bigint, null::bigint, p_now + interval '5 milliseconds';
    return;
  end if;
  return query select
    v_limit.version,
    case when p_queue.rate_per = 'queue' then
      queen.allowance(v_limit.recent, p_queue.rate_max, p_queue.rate_ms, p_now)
    end,
    case when p_queue.concurrency_limit > 0 then
      p_queue.concurrency_limit - (
        select count(*)
        from (
          select 1
          from queen.deliveries d
          where d.group_id = p_group_id and d.held and d.until > p_now
          limit p_queue.concurrency_limit
        ) d
      )
    end,
    case when p_queue.rate_per = 'queue' then
      nullif(queen.rate_opens_at(v_limit.recent, p_queue.rate_max, p_queue.rate_ms, p_now), p_now)
    end;
end
$$;


--
-- Name: message_at(queen.deliveries, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.message_at(p_delivery queen.deliveries, p_offset bigint) RETURNS TABLE(payload bytea, extras bytea, created_at timestamp with time zone)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select p_delivery.payload, p_delivery.extras, p_delivery.created_at
  where p_delivery.payload is not null
  union all
  (
    select
      queen.payload_at(s.body, s.ends, (p_offset - s.base_offset)::integer),
      queen.extra_at(s.extras, s.message_count, (p_offset - s.base_offset)::integer),
      s.created_at
    from queen.segments s
    where p_delivery.payload is null
      and s.partition_id = p_delivery.partition_id
      and s.base_offset <= p_offset
      and s.body is not null
    order by s.base_offset desc
    limit 1
  )
$$;


--
-- Name: nack(bigint[], uuid[], bigint[], bigint[], text[], text[], double precision[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.nack(p_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_offsets bigint[], p_kinds text[], p_errors text[], p_delays double precision[]) RETURNS TABLE(ordinal integer, group_id bigint, due_seconds double precision, is_dead boolean, is_over boolean, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  v_request  record;
  v_delivery queen.deliveries;
  v_queue    queen.queues;
  v_now      timestamptz;
  v_due      timestamptz;
  v_ended    bigint[] := '{}';
begin
  perform queen.lock_consumers(p_ids, p_tokens);
  perform 1 from (select d.id from queen.deliveries d where d.id = any (p_ids) order by d.id for no key update) l;
  v_now := queen.now();

  for v_request in
    select a.*
    from unnest(p_ids, p_tokens, p_partition_ids, p_offsets, p_kinds, p_errors, p_delays)
      with ordinality a (id, token, partition_id, "offset", kind, error, delay, ordinal)
    -- What is done or dead leaves while the delivery is still there to leave from.
    order by a.id, a.kind <> 'completed', a.kind <> 'dead', a."offset"
  loop
    if v_request.id = any (v_ended) then
      -- The delivery ended at a lower message of this call; this one goes back uncounted.
      return query select v_request.ordinal::integer, v_delivery.group_id, 0::double precision, false, true, null::text;
      continue;
    end if;
    select d.* into v_delivery
    from queen.deliveries d
    where d.id = v_request.id and d.token = v_request.token and d.held
      and d.partition_id = coalesce(v_request.partition_id, d.partition_id);
    if not found then
      return query select
        v_request.ordinal::integer, null::bigint, null::double precision, null::boolean, null::boolean, 'QN002';
      continue;
    end if;
    if v_request.kind = 'completed' then
      perform queen.shrink(
        v_delivery,
        queen.handed_out(v_delivery) * int8multirange(int8range(v_request."offset", v_request."offset" + 1))
      );
      return query select
        v_request.ordinal::integer, v_delivery.group_id, null::double precision, false,
        queen.is_over(v_request.id, v_request.token), null::text;
      continue;
    end if;
    if not queen.handed_out(v_delivery) @> v_request."offset" then
      return query
      select
        v_request.ordinal::integer, v_delivery.group_id, null::double precision, null::boolean, false, 'QN010';
      continue;
    end if;
    select q.* into v_queue
    from queen.groups g join queen.queues q on q.id = g.queue_id
    where g.id = v_delivery.group_id;
    v_due := queen.fail(
      v_delivery, v_queue, v_request."offset", v_request.kind, v_request.error, v_request.delay, v_now, v_now
    );
    if v_delivery.ordered and v_request.kind <> 'dead' then
      v_ended := v_ended || v_request.id;
    end if;
    return query
    select
      v_request.ordinal::integer, v_delivery.group_id, extract(epoch from v_due - v_now)::double precision,
      v_due is null and (v_request.kind = 'dead' or v_queue.dead_letter), queen.is_over(v_request.id, v_request.token), null::text;
  end loop;
end
$$;


--
-- Name: new_queue(jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.new_queue(p_defaults jsonb) RETURNS jsonb
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select queen.default_options() || coalesce(p_defaults, '{}') || jsonb_build_object(
    'id', nextval('queen.queues_id_seq'), 'namespace', '', 'task', '', 'version', 1, 'created_at', queen.now(), 'levels', array[0], 'in_order',
    coalesce(p_defaults -> 'ordered', queen.default_options() -> 'ordered')
  )
$$;


--
-- Name: next_at(bigint, queen.queues, bigint, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.next_at(p_group_id bigint, p_queue queen.queues, p_slots bigint, p_opens_at timestamp with time zone, p_now timestamp with time zone) RETURNS double precision
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select extract(epoch from greatest(coalesce(min(n.at), p_opens_at), p_opens_at, p_now) - p_now)::double precision
  -- Nothing in sight and no limit in the way: null, until somebody wakes.
  from (
    select (
      select c.ready_at
      from queen.consumers c
      where c.group_id = p_group_id and c.priority = l.level and c.ready_at > p_now
      order by c.ready_at
      limit 1
    )
    from unnest(p_queue.levels) l (level)
    where p_slots is null or p_slots > 0
    union all
    select (
      select d.until
      from queen.deliveries d
      where d.group_id = p_group_id and d.priority = l.level and d.until > p_now and d.until < 'infinity'
      order by d.until
      limit 1
    )
    from unnest(p_queue.levels) l (level)
    union all
    (
      select s.due_at
      from queen.scheduled s
      where s.queue_id = p_queue.id and s.due_at > p_now
      order by s.due_at
      limit 1
    )
  ) n (at)
  having min(n.at) is not null or p_opens_at is not null
$$;


--
-- Name: now(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.now() RETURNS timestamp with time zone
    LANGUAGE sql
    AS $$select clock_timestamp()$$;


--
-- Name: offset_after(bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.offset_after(p_partition_id bigint, p_at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  v_low    bigint;
  v_high   bigint;
  v_middle record;
begin
  select s.base_offset into v_low
  from queen.segments s where s.partition_id = p_partition_id order by s.base_offset limit 1;
  if v_low is null then
    return 0;
  end if;
  select s.base_offset + s.message_count into v_high
  from queen.segments s where s.partition_id = p_partition_id order by s.base_offset desc limit 1;
  -- Everything below v_low is not after p_at, everything from v_high on is.
  while v_low < v_high loop
    select s.base_offset, s.base_offset + s.message_count as next, s.created_at into v_middle
    from queen.segments s
    where s.partition_id = p_partition_id and s.base_offset <= (v_low + v_high) / 2
    order by s.base_offset desc
    limit 1;
    if v_middle.created_at > p_at then
      v_high := v_middle.base_offset;
    else
      v_low := v_middle.next;
    end if;
  end loop;
  return v_low;
end
$$;


--
-- Name: partition_ids(text[], text[], smallint[], boolean, jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.partition_ids(p_queues text[], p_partitions text[], p_levels smallint[], p_create boolean, p_defaults jsonb) RETURNS TABLE(ordinal bigint, queue_id bigint, partition_id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
declare
  v_now timestamptz;
begin
  if p_create then
    if exists (
      select 1 from unnest(p_queues) n (name)
      where not exists (select 1 from queen.queues q where q.name = n.name and q.deleted_at is null offset 0)
    ) then
      insert into queen.queues overriding system value
      select r.*
      from (
        select queen.new_queue(p_defaults) || jsonb_build_object('name', n.name) as columns
        from (
          select distinct n.name
          from unnest(p_queues) n (name)
          where not exists (select 1 from queen.queues q where q.name = n.name and q.deleted_at is null offset 0)
          order by n.name
        ) n
        offset 0
      ) n
      cross join lateral jsonb_populate_record(null::queen.queues, n.columns) r
      on conflict (name) where deleted_at is null do nothing;
    end if;

    if exists (
      select 1
      from unnest(p_queues, p_partitions, p_levels) n (queue, partition, level)
      cross join lateral (
        select q.id from queen.queues q where q.name = n.queue and q.deleted_at is null offset 0
      ) q
      where not exists (
        select 1 from queen.partitions p
        where p.queue_id = q.id and p.name = n.partition and p.level = n.level
        offset 0
      )
    ) then
      -- A group is made under the exclusive form of this lock: it sees all partitions, or they see it.
      perform pg_advisory_xact_lock_shared(hashtextextended('queen.queue', q.id))
      from (
        select distinct q.id
        from unnest(p_queues) n (name)
        cross join lateral (
          select q.id from queen.queues q where q.name = n.name and q.deleted_at is null offset 0
        ) q
        order by q.id
      ) q;
      v_now := queen.now();
      with made as (
        insert into queen.partitions (queue_id, name, level, priority)
        select q.id, n.partition, n.level, coalesce(
          (select max(p.priority) from queen.partitions p where p.queue_id = q.id and p.name = n.partition), 0
        )
        from (
          select distinct n.queue, n.partition, n.level
          from unnest(p_queues, p_partitions, p_levels) n (queue, partition, level)
        ) n
        cross join lateral (
          select q.id from queen.queues q where q.name = n.queue and q.deleted_at is null offset 0
        ) q
        where not exists (
          select 1 from queen.partitions p
          where p.queue_id = q.id and p.name = n.partition and p.level = n.level
          offset 0
        )
        order by q.id, n.partition, n.level
        on conflict on constraint partitions_are_named_once do nothing
        returning partitions.id, partitions.queue_id, partitions.level, partitions.priority
      ), entered as (
        insert into queen.consumers (partition_id, group_id, claimed, idle_at, priority)
        select m.id, g.id, 0, v_now, m.priority * 10 + m.level
        from made m
        cross join lateral (
          select g.id from queen.groups g where g.queue_id = m.queue_id and g.deleted_at is null offset 0
        ) g
      )
      update queen.queues q
      set levels = array(select distinct l from unnest(q.levels || l.levels) l order by l desc)
      from (
        select m.queue_id, array_agg(distinct m.priority * 10 + m.level) as levels
        from made m
        group by m.queue_id
      ) l
      where q.id = l.queue_id and not (q.levels @> l.levels);
    end if;
  end if;

  return query
  select n.ordinal, q.id, p.id
  from unnest(p_queues, p_partitions, p_levels) with ordinality n (queue, partition, level, ordinal)
  left join lateral (
    select q.id from queen.queues q where q.name = n.queue and q.deleted_at is null offset 0
  ) q on true
  left join lateral (
    select p.id
    from queen.partitions p
    where p.queue_id = q.id and p.name = n.partition and p.level = n.level
    offset 0
  ) p on true;
end
$$;


--
-- Name: pass(tid[], bigint[], queen.queues); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.pass(p_ctids tid[], p_partition_ids bigint[], p_queue queen.queues) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  v_locked  bigint[];
  v_now     timestamptz;
  v_expired bigint;
begin
  v_locked := array(
    select p.id from queen.partitions p where p.id = any (p_partition_ids) for no key update skip locked
  );
  -- Later than the instant at which the caller searched, so that it does not find these again.
  v_now := queen.now();
  with passed as (
    select
      c.ctid,
      c.partition_id,
      c.recent,
      n.next_offset,
      n.created_at,
      greatest(c.claimed, coalesce(a.alive_offset, a.ahead_offset, n.next_offset)) as claimed,
      c.claimed as was_claimed
    from unnest(p_ctids, p_partition_ids) k (ctid, partition_id)
    cross join lateral (
      select c.ctid, c.partition_id, c.recent, c.claimed from queen.consumers c where c.ctid = k.ctid offset 0
    ) c
    cross join lateral (
      select
        coalesce(max(s.base_offset + s.message_count), 0) as next_offset,
        coalesce(max(s.created_at), '-infinity') as created_at
      from (
        select s.base_offset, s.message_count, s.created_at
        from queen.segments s
        where s.partition_id = k.partition_id
        order by s.base_offset desc
        limit 1
      ) s
    ) n
    cross join lateral (
      select
        min(s.base_offset) filter (where s.is_alive) as alive_offset,
        max(s.next_offset) as ahead_offset
      from (
        select
          s.base_offset,
          s.base_offset + s.message_count as next_offset,
          s.body is not null and coalesce(s.expires_at > v_now, true) as is_alive
        from queen.segments s
        where s.partition_id = k.partition_id
          and s.base_offset >= coalesce(
            (
              select h.base_offset
              from queen.segments h
              where h.partition_id = k.partition_id and h.base_offset <= c.claimed
              order by h.base_offset desc
              limit 1
            ),
            c.claimed
          )
          and s.base_offset + s.message_count > c.claimed
        order by s.base_offset
        -- The first message that is alive, at most a thousand segments further on.
        limit 1000
      ) s
    ) a
    offset 0
  ),
  moved as (
    update queen.consumers c
    set
      version = c.version + 1,
      claimed = p.claimed,
      idle_at = case
        when p.claimed >= p.next_offset and p.partition_id = any (v_locked) then greatest(v_now, p.created_at)
      end,
      ready_at = case
        when p.claimed >= p.next_offset and p.partition_id = any (v_locked) then null
        else greatest(
          v_now,
          queen.head_ready(
            p.partition_id, p.claimed, greatest(p_queue.delay_seconds, p_queue.window_seconds), v_now
          ),
          case when p_queue.rate_per = 'partition' then
            queen.rate_opens_at(p.recent, p_queue.rate_max, p_queue.rate_ms, v_now)
          end
        )
      end
    from passed p
    where c.ctid = p.ctid
  )
  select coalesce(sum(p.claimed - p.was_claimed), 0) into v_expired from passed p;
  return v_expired;
end
$$;


--
-- Name: pass_over(bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.pass_over(p_partition_id bigint, p_end bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  v_now      timestamptz;
  v_delivery queen.deliveries;
begin
  v_now := queen.now();
  update queen.consumers c
  set
    version = c.version + 1,
    claimed = p_end,
    ready_at = case
      when c.held then null
      when p_end < n.next_offset then greatest(v_now, c.ready_at)
    end,
    idle_at = case when not c.held and p_end >= n.next_offset then greatest(v_now, n.created_at) end
  from (
    select s.base_offset + s.message_count as next_offset, s.created_at
    from queen.segments s
    where s.partition_id = p_partition_id
    order by s.base_offset desc
    limit 1
  ) n
  where c.partition_id = p_partition_id and c.claimed < p_end;
  for v_delivery in
    select d.*
    from queen.consumers c
    join queen.deliveries d on d.group_id = c.group_id and d.partition_id = c.partition_id
    where c.partition_id = p_partition_id and d.payload is null and lower(d.pending) < p_end
    order by d.id
    for no key update of d
  loop
    -- A new pair: whoever holds it must not settle what is left by the old one.
    update queen.deliveries d
    set id = nextval('queen.delivery_ids'), token = gen_random_uuid(), held = false, out_end = null
    where d.id = v_delivery.id
    returning d.* into v_delivery;
    perform queen.shrink(v_delivery, int8multirange(int8range(null, p_end)));
    update queen.deliveries d
    set
      head = case when d.head >= p_end then d.head end,
      attempts = case when d.head >= p_end then d.attempts else 0 end,
      until = case when d.until < 'infinity' then v_now else d.until end
    where d.id = v_delivery.id;
  end loop;
end
$$;


--
-- Name: payload_at(bytea, bytea, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.payload_at(p_body bytea, p_ends bytea, p_index integer) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$
  select substr(
    p_body,
    queen.end_at(p_ends, p_index) + 1,
    queen.end_at(p_ends, p_index + 1) - queen.end_at(p_ends, p_index)
  )
$$;


--
-- Name: pop(bigint[], timestamp with time zone[], timestamp with time zone[], text, integer[], integer[], double precision[], boolean, boolean, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.pop(p_group_ids bigint[], p_ready_since timestamp with time zone[], p_due_since timestamp with time zone[], p_partition text, p_batches integer[], p_partitions integer[], p_leases double precision[], p_auto boolean, p_due_first boolean, p_turn integer) RETURNS SETOF queen.popped
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
declare
  c_margin     constant interval := interval '5 seconds';
  c_rounds     constant integer := 12;
  v_now        timestamptz;
  v_queue      queen.queues;
  v_levels     integer[];
  v_level      integer;
  v_lanes      bigint[];
  v_phase      text;
  v_round      integer;
  v_left       integer[] := p_batches;
  v_lanes_left integer[] := p_partitions;
  v_claim      queen.claim;
  v_limit      record;
  v_budget     bigint;
  v_slots      bigint;
  v_spent      bigint;
  v_opens_at   timestamptz;
  v_is_fresh   boolean;
  v_has_looked boolean;
  v_has_news   boolean;
  v_had_news   boolean;
  v_marks      timestamptz[];
  v_note       queen.popped;
begin
  if not p_auto then
    perform set_config('synchronous_commit', 'off', true);
  end if;

  for v_index in 1 .. cardinality(p_group_ids) loop
    v_now := queen.now();
    v_note := null;
    v_note.group_id := p_group_ids[v_index];
    v_note.ready_since := p_ready_since[v_index];
    v_note.due_since := p_due_since[v_index];
    v_note.expired := 0;
    select q.* into v_queue
    from queen.groups g
    join queen.queues q on q.id = g.queue_id
    where g.id = v_note.group_id and g.deleted_at is null and q.deleted_at is null;
    if not found then
      v_note.code := 'QN003';
      return next v_note;
      continue;
    end if;
    if v_queue.paused then
      return next v_note;
      continue;
    end if;

    v_is_fresh := v_queue.in_order = v_queue.ordered or queen.change_order(v_queue.id);
    v_queue.in_order := case when v_is_fresh then v_queue.ordered else v_queue.in_order end;
    v_opens_at := null;
    if v_queue.rate_per = 'queue' or v_queue.concurrency_limit > 0 then
      select l.* into v_limit from queen.lock_limit(v_note.group_id, v_queue, v_now) l;
      v_budget := v_limit.budget;
      v_slots := v_limit.slots;
      v_opens_at := v_limit.opens_at;
    else
      v_budget := null;
      v_slots := null;
    end if;
    v_spent := 0;
    v_levels := queen.levels_by_turn(v_queue, p_turn);
    if p_partition is not null then
      v_lanes := array(
        select p.id from queen.partitions p where p.queue_id = v_queue.id and p.name = p_partition
      );
    end if;

    -- First all that is new and all that is due; then again, as long as something was promoted, freed or passed
    -- over: what stands behind it is ready since then, which is later than this search began.
    v_phase := case when p_due_first then 'due' else 'new' end;
    v_round := 0;
    v_had_news := false;
    loop
      exit when not queen.wants_more(v_left, v_lanes_left) or v_round >= c_rounds;
      v_round := v_round + 1;
      v_has_news := v_phase = 'due' and queen.promote(v_queue.id, 1000) > 0;
      -- The earliest instant found at any level: below it all was empty. The marks move only when every level was
      -- looked at.
      v_marks := array[v_now];
      foreach v_level in array v_levels loop
        v_has_looked := false;
        loop
          exit when not queen.wants_more(v_left, v_lanes_left)
            or least(v_budget, v_slots) <= 0
            or (v_phase = 'new' and not v_is_fresh);
          v_has_looked := true;
          if v_phase = 'due' then
            v_claim := queen.claim_due(
              v_note.group_id, v_queue, v_level, v_lanes, coalesce(v_note.due_since, '-infinity'), v_left,
              v_lanes_left, p_leases, p_auto, v_budget, v_slots, v_now
            );
            v_has_news := v_has_news or v_claim.first_at is not null;
          else
            v_claim := queen.claim_new(
              v_note.group_id, v_queue, v_level, v_lanes, coalesce(v_note.ready_since, '-infinity'), v_left,
              v_lanes_left, p_leases, p_auto, v_budget, v_slots, v_now
            );
            v_has_news := v_has_news or v_claim.expired > 0;
          end if;
          v_marks := v_marks || v_claim.first_at;
          v_note.expired := v_note.expired + v_claim.expired;
          if v_claim.taken > 0 then
            return query select r.* from queen.runs_of(v_note.group_id, v_claim) r;
            v_left := v_claim.left_messages;
            v_lanes_left := v_claim.left_lanes;
            v_spent := v_spent + v_claim.messages;
            v_budget := v_budget - v_claim.messages;
            v_slots := v_slots - v_claim.taken;
          end if;
          exit when not v_claim.has_more;
        end loop;
        exit when not v_has_looked;
      end loop;
      -- A search for one partition says nothing of the others.
      if v_has_looked and p_partition is null then
        if v_phase = 'due' then
          v_note.due_since := (select min(m) from unnest(v_marks) m) - c_margin;
        else
          v_note.ready_since := (select min(m) from unnest(v_marks) m) - c_margin;
        end if;
      end if;
      exit when v_round >= 2 and not (v_has_news or v_had_news);
      v_had_news := v_has_news;
      if v_has_news then
        v_now := queen.now();
      end if;
      v_phase := case when v_phase = 'due' then 'new' else 'due' end;
    end loop;

    if v_spent > 0 and v_queue.rate_per = 'queue' then
      update queen.limits l
      set version = l.version + 1, recent = queen.spend(l.recent, v_queue.rate_ms, v_now, v_spent)
      where l.group_id = v_note.group_id and l.version = v_limit.version
      returning queen.rate_opens_at(l.recent, v_queue.rate_max, v_queue.rate_ms, v_now) into v_opens_at;
    end if;
    if queen.wants_more(v_left, v_lanes_left) then
      v_note.wait_seconds := queen.next_at(v_note.group_id, v_queue, v_slots, v_opens_at, v_now);
    end if;
    return next v_note;
  end loop;
end
$$;


--
-- Name: promote(bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.promote(p_queue_id bigint, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
declare
  v_now        timestamptz := queen.now();
  v_ids        bigint[];
  v_locked     bigint[];
  v_pairs      bigint[];
  v_partitions bigint[];
  v_counts     integer[];
  v_bodies     bytea[];
  v_ends       bytea[];
  v_extras     bytea[];
  v_ttls       double precision[];
  v_keys       text[];
  v_row        record;
  v_count      bigint := 0;
begin
  if not exists (select 1 from queen.scheduled s where s.queue_id = p_queue_id and s.due_at <= v_now) then
    return 0;
  end if;
  select array_agg(d.id) into v_ids
  from (
    select d.id, sum(d.bytes) over (order by d.due_at, d.id) - d.bytes as bytes_before
    from (
      select s.id, s.due_at, length(s.payload) + coalesce(length(s.extras), 0) as bytes
      from queen.scheduled s
      where s.queue_id = p_queue_id and s.due_at <= v_now
      order by s.due_at, s.id
      limit p_limit
      for update skip locked
    ) d
  ) d
  where d.bytes_before < 16 * 1024 * 1024;
  v_locked := array(
    select p.id
    from queen.partitions p
    where p.id in (select s.partition_id from queen.scheduled s where s.id = any (v_ids))
    order by p.id
    for no key update skip locked
  );

  -- A push would wait for the pairs that it wakes, and a pop must not.
  v_pairs := array(
    select c.partition_id
    from queen.consumers c
    where c.partition_id = any (v_locked) and c.idle_at is not null
    for no key update skip locked
  );
  v_locked := array(
    select l.id
    from unnest(v_locked) l (id)
    where (select count(*) from queen.consumers c where c.partition_id = l.id and c.idle_at is not null)
      = (select count(*) from unnest(v_pairs) k (id) where k.id = l.id)
  );

  with due as (
    delete from queen.scheduled s
    where s.id = any (v_ids) and s.partition_id = any (v_locked)
    returning s.id, s.partition_id, s.due_at, s.ttl_seconds, s.key, s.payload, s.extras
  ),
  alive as (
    -- A time to live counts from when the message was due, unless it is promoted about then.
    select
      d.id, d.partition_id, d.due_at, d.key, d.payload, d.extras,
      t.seconds - case when v_now - d.due_at > interval '1 second' then extract(epoch from v_now - d.due_at) else 0 end
        as ttl_seconds
    from due d
    cross join lateral (
      select coalesce(d.ttl_seconds, (select nullif(q.ttl_seconds, 0) from queen.queues q where q.id = p_queue_id)) as seconds
    ) t
  ),
  run as (
    select
      d.*,
      row_number() over (partition by d.partition_id order by d.due_at, d.id)
        - row_number() over (partition by d.partition_id, d.ttl_seconds order by d.due_at, d.id) as run
    from alive d
    where coalesce(d.ttl_seconds > 0, true)
  ),
  entry as (
    -- A segment has one time to live: one segment for each run of messages that share it.
    select
      d.partition_id,
      d.ttl_seconds,
      count(*)::integer as message_count,
      array_agg(d.payload order by d.due_at, d.id) as payloads,
      array_agg(d.extras order by d.due_at, d.id) as extras,
      array_agg(d.key order by d.due_at, d.id) as keys,
      row_number() over (order by d.partition_id, min(d.due_at), min(d.id)) as ordinal
    from run d
    group by d.partition_id, d.ttl_seconds, d.run
  )
  select
    array_agg(e.partition_id order by e.ordinal),
    array_agg(e.message_count order by e.ordinal),
    array_agg(
      (select string_agg(u.payload, '' order by u.n) from unnest(e.payloads) with ordinality u (payload, n))
      order by e.ordinal
    ),
    array_agg(queen.ends_of(e.payloads) order by e.ordinal),
    array_agg(queen.join_extras(e.extras) order by e.ordinal),
    array_agg(e.ttl_seconds order by e.ordinal),
    array_agg(array_to_string(e.keys, ',', '') order by e.ordinal)
  into v_partitions, v_counts, v_bodies, v_ends, v_extras, v_ttls, v_keys
  from entry e;
  if v_partitions is null then
    return 0;
  end if;

  -- A statement of its own: inside the one above nothing would say that it is run at all.
  for v_row in select p.* from queen.push(v_partitions, v_counts, v_bodies, v_ends, v_extras, v_ttls) p loop
    if v_row.kind <> 'stored' then
      raise exception 'scheduled messages of queue % could not be stored: %', p_queue_id, v_row.code;
    end if;
    v_count := v_count + v_counts[v_row.ordinal];
    -- A duplicate that comes later is told where the first one went.
    update queen.dedup d
    set "offset" = v_row."offset" + k.n - 1
    from unnest(string_to_array(v_keys[v_row.ordinal], ',')) with ordinality k (key, n)
    where k.key <> ''
      and d.key = nullif(k.key, '')::uuid
      and d."offset" is null;
  end loop;
  return v_count;
end
$$;


--
-- Name: purge(text, text, boolean, timestamp with time zone, bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.purge(p_queue text, p_partition text, p_completed boolean, p_before timestamp with time zone, p_after bigint, p_limit integer) RETURNS TABLE(partition_id bigint, messages bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  v_queue queen.queues;
  v_ids   bigint[];
  v_id    bigint;
  v_end   bigint;
  v_count bigint := 0;
  v_step  bigint;
begin
  select q.* into v_queue from queen.queues q where q.name = p_queue and q.deleted_at is null;
  if not found then
    raise exception 'there is no queue %', p_queue using errcode = 'QN001';
  end if;
  select array_agg(l.id) into v_ids
  from (
    select p.id
    from queen.partitions p
    where p.queue_id = v_queue.id
      and p.id > coalesce(p_after, 0)
      and (p_partition is null or p.name = p_partition)
    order by p.id
    limit p_limit
    for no key update
  ) l;
  if v_ids is null then
    return;
  end if;
  if not p_completed then
    perform 1
    from (
      select c.partition_id
      from queen.consumers c
      where c.partition_id = any (v_ids)
      order by c.partition_id, c.group_id
      for no key update
    ) l;
    perform 1
    from (select d.id from queen.deliveries d where d.partition_id = any (v_ids) order by d.id for update) l;
  end if;
  if not p_completed and p_before is null then
    delete from queen.scheduled s where s.queue_id = v_queue.id and s.partition_id = any (v_ids);
  end if;

  foreach v_id in array v_ids loop
    -- The end of what goes, as an offset at the edge of a segment.
    select max(s.base_offset + s.message_count) into v_end
    from queen.segments s
    where s.partition_id = v_id and (p_before is null or s.created_at < p_before);
    if p_completed then
      v_end := least(v_end, (
        select min(least(c.claimed, (
          select min(lower(d.pending))
          from queen.deliveries d
          where d.group_id = c.group_id and d.partition_id = v_id and d.payload is null
        )))
        from queen.consumers c
        join queen.groups g on g.id = c.group_id and g.deleted_at is null
        where c.partition_id = v_id
      ));
      if exists (
        select 1 from queen.groups g
        where g.queue_id = v_queue.id and g.deleted_at is null and g.filled_to < v_id and g.fill_end >= v_id
      ) then
        v_end := null;
      end if;
    else
      perform queen.pass_over(v_id, v_end);
    end if;
    with gone as (
      delete from queen.segments s
      where s.partition_id = v_id
        and s.base_offset + s.message_count <= v_end
        and s.base_offset < (select max(n.base_offset) from queen.segments n where n.partition_id = v_id)
      returning case when s.body is not null then s.message_count else 0 end as messages
    ),
    emptied as (
      update queen.segments s
      set body = null, ends = null, extras = null
      where s.partition_id = v_id
        and s.base_offset + s.message_count <= v_end
        and s.base_offset = (select max(n.base_offset) from queen.segments n where n.partition_id = v_id)
        and s.body is not null
      returning s.message_count as messages
    )
    select coalesce(sum(messages), 0) into v_step
    from (select messages from gone union all select messages from emptied) m;
    v_count := v_count + v_step;
  end loop;
  return query select v_ids[cardinality(v_ids)], v_count;
end
$$;


--
-- Name: push(bigint[], integer[], bytea[], bytea[], bytea[], double precision[], uuid[], integer[], integer[], text[], bigint[], bigint[], double precision[], timestamp with time zone[], bytea[], bytea[], double precision[], double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.push(p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys uuid[] DEFAULT NULL::uuid[], p_key_entries integer[] DEFAULT NULL::integer[], p_key_places integer[] DEFAULT NULL::integer[], p_producers text[] DEFAULT NULL::text[], p_sequences bigint[] DEFAULT NULL::bigint[], p_scheduled_partition_ids bigint[] DEFAULT NULL::bigint[], p_scheduled_delays double precision[] DEFAULT NULL::double precision[], p_scheduled_dues timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], p_scheduled_payloads bytea[] DEFAULT NULL::bytea[], p_scheduled_extras bytea[] DEFAULT NULL::bytea[], p_scheduled_ttls double precision[] DEFAULT NULL::double precision[], p_max_delay double precision DEFAULT NULL::double precision) RETURNS TABLE(kind text, ordinal integer, "offset" bigint, created_at timestamp with time zone, xid bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  v_now       timestamptz;
  v_wanted    bigint[] := p_partition_ids || p_scheduled_partition_ids;
  v_found     bigint[];
  v_queue_ids bigint[];
  v_ttls      double precision[];
  v_delays    double precision[];
  v_windows   double precision[];
  v_xid       xid8;
begin
  -- One row an entry, also where two entries are of one partition.
  select
    array_agg(l.id),
    array_agg(l.queue_id order by l.ordinal),
    array_agg(l.ttl_seconds order by l.ordinal),
    array_agg(l.delay_seconds order by l.ordinal),
    array_agg(l.window_seconds order by l.ordinal)
  into v_found, v_queue_ids, v_ttls, v_delays, v_windows
  from (
    select w.ordinal, p.id, p.queue_id, q.ttl_seconds, q.delay_seconds, q.window_seconds
    from (select u.id, u.ordinal from unnest(v_wanted) with ordinality u (id, ordinal) order by u.id) w
    cross join lateral (
      select p.id, p.queue_id from queen.partitions p where p.id = w.id for no key update
    ) p
    cross join lateral (
      select q.ttl_seconds, q.delay_seconds, q.window_seconds
      from queen.queues q
      where q.id = p.queue_id and q.deleted_at is null
      offset 0
    ) q
  ) l;
  -- Only now: a time read before the last wait could run against the offsets.
  v_now := queen.now();

  if coalesce(cardinality(v_found), 0) < cardinality(v_wanted) then
    return query
    select 'partition', w.ordinal::integer, w.id, null::timestamptz, null::bigint, 'QN004'
    from unnest(v_wanted) with ordinality w (id, ordinal)
    where v_found is null or w.id <> all (v_found);
    return;
  end if;

  if cardinality(p_scheduled_partition_ids) > 0 then
    return query
    select 'scheduled', s.ordinal::integer, null::bigint, null::timestamptz, null::bigint, 'QN014'
    from unnest(p_scheduled_dues) with ordinality s (due_at, ordinal)
    where s.due_at > v_now + make_interval(secs => p_max_delay);
    if found then
      return;
    end if;
  end if;
  if p_producers is not null then
    return query select p.* from queen.check_producers(p_producers, p_sequences, v_now) p;
    if found then
      return;
    end if;
  end if;

  if p_keys is not null then
    return query
    select k.*
    from queen.push_keys(p_keys, p_key_entries, p_key_places, v_wanted, p_counts, v_now) k;
    if found then
      return;
    end if;
  end if;
  if p_producers is not null then
    perform queen.record_producers(p_producers, p_sequences, v_now);
  end if;

  if cardinality(p_scheduled_partition_ids) > 0 then
    insert into queen.scheduled (queue_id, partition_id, due_at, ttl_seconds, key, payload, extras)
    select
      v_queue_ids[cardinality(p_partition_ids) + s.ordinal],
      s.partition_id,
      coalesce(s.due_at, v_now + make_interval(secs => s.delay)),
      s.ttl,
      k.key,
      s.payload,
      s.extras
    from unnest(
      p_scheduled_partition_ids, p_scheduled_delays, p_scheduled_dues, p_scheduled_payloads,
      p_scheduled_extras, p_scheduled_ttls
    ) with ordinality s (partition_id, delay, due_at, payload, extras, ttl, ordinal)
    left join unnest(p_keys, p_key_entries, p_key_places) k (key, entry, place)
      on k.entry = cardinality(p_partition_ids) + s.ordinal
    order by s.ordinal;
  end if;

  if cardinality(p_partition_ids) = 0 then
    return;
  end if;

  v_xid := pg_current_xact_id();
  return query
  with placed as materialized (
    select
      e.ordinal::integer as ordinal,
      e.partition_id,
      e.message_count,
      e.ttl,
      coalesce(n.next_offset, 0)
        + sum(e.message_count) over (partition by e.partition_id order by e.ordinal)
        - e.message_count as base_offset,
      row_number() over (partition by e.partition_id order by e.ordinal) = 1 as is_first,
      greatest(v_now, n.created_at) as created_at,
      coalesce(n.created_at, '-infinity') as last_at
    from unnest(p_partition_ids, p_counts, p_ttls)
      with ordinality e (partition_id, message_count, ttl, ordinal)
    left join lateral (
      select s.base_offset + s.message_count as next_offset, s.created_at
      from queen.segments s
      where s.partition_id = e.partition_id
      order by s.base_offset desc
      limit 1
    ) n on true
  ),
  stored as (
    insert into queen.segments (
      partition_id, base_offset, message_count, created_at, queue_id, xid, expires_at, body, ends, extras
    )
    select
      p.partition_id,
      p.base_offset,
      p.message_count,
      p.created_at,
      v_queue_ids[p.ordinal],
      v_xid,
      case
        when coalesce(p.ttl, v_ttls[p.ordinal]) > 0
        then p.created_at + make_interval(secs => v_delays[p.ordinal] + coalesce(p.ttl, v_ttls[p.ordinal]))
      end,
      p_bodies[p.ordinal],
      p_ends[p.ordinal],
      p_extras[p.ordinal]
    from placed p
  ),
  -- Every push wakes all that are idle, so those that are idle now went idle since the newest segment.
  woken as (
    update queen.consumers c
    set
      version = c.version + 1,
      idle_at = null,
      ready_at = w.created_at + make_interval(secs => w.wait_seconds)
    from (
      select i.ctid, p.created_at, greatest(v_delays[p.ordinal], v_windows[p.ordinal]) as wait_seconds
      from placed p
      cross join lateral (
        select i.ctid
        from queen.consumers i
        where i.partition_id = p.partition_id and i.idle_at >= p.last_at
        offset 0
      ) i
      where p.is_first
    ) w
    -- Who is idle changes only under the partition's lock, so this row is still the newest.
    where c.ctid = w.ctid
  )
  select 'stored', p.ordinal, p.base_offset::bigint, p.created_at, v_xid::text::bigint, null
  from placed p
  order by p.ordinal;
end
$$;


--
-- Name: push_keys(uuid[], integer[], integer[], bigint[], integer[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.push_keys(p_keys uuid[], p_key_entries integer[], p_key_places integer[], p_partition_ids bigint[], p_counts integer[], p_now timestamp with time zone) RETURNS TABLE(kind text, ordinal integer, "offset" bigint, created_at timestamp with time zone, xid bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  v_bases       bigint[];
  v_windows     interval[];
  v_generations smallint[];
  v_searched    smallint[];
  v_generation  smallint;
  v_is_known    boolean := false;
begin
  select
    array_agg(e.base_offset order by e.ordinal),
    array_agg(e.dedup_window order by e.ordinal),
    array_agg(e.generation order by e.ordinal)
  into v_bases, v_windows, v_generations
  from (
    select
      t.ordinal,
      coalesce(n.next_offset, 0)
        + sum(coalesce(t.message_count, 0)) over (partition by t.partition_id order by t.ordinal)
        - coalesce(t.message_count, 0) as base_offset,
      make_interval(secs => q.dedup_seconds) as dedup_window,
      queen.dedup_generation(queen.dedup_class(q.dedup_seconds), p_now, 0) as generation
    from unnest(p_partition_ids, p_counts) with ordinality t (partition_id, message_count, ordinal)
    cross join lateral (
      select p.queue_id from queen.partitions p where p.id = t.partition_id offset 0
    ) p
    cross join lateral (
      select q.dedup_seconds from queen.queues q where q.id = p.queue_id offset 0
    ) q
    left join lateral (
      select s.base_offset + s.message_count as next_offset
      from queen.segments s
      where s.partition_id = t.partition_id
      order by s.base_offset desc
      limit 1
    ) n on true
  ) e;

  -- Where they may be known: the two newest generations of a class, also of the class that was before.
  v_searched := array(
    select distinct g.generation
    from (
      select distinct p.queue_id
      from queen.partitions p
      where p.id = any (p_partition_ids)
    ) p
    cross join lateral (
      select q.dedup_seconds, q.old_dedup_class, q.old_dedup_until
      from queen.queues q
      where q.id = p.queue_id
      offset 0
    ) q
    cross join (values (0), (1)) b (back)
    cross join lateral (
      select queen.dedup_generation(queen.dedup_class(q.dedup_seconds), p_now, b.back)
      union all
      select queen.dedup_generation(q.old_dedup_class, p_now, b.back) where q.old_dedup_until > p_now
    ) g (generation)
  );
  foreach v_generation in array v_searched loop
    return query
    select 'duplicate', k.ordinal::integer, d."offset", d.at, null::bigint, null::text
    from unnest(p_keys, p_key_entries) with ordinality k (key, entry, ordinal)
    cross join lateral (
      select d."offset", d.at
      from queen.dedup d
      where d.generation = v_generation and d.key = k.key and d.at > p_now - v_windows[k.entry]
      limit 1
    ) d;
    v_is_known := v_is_known or found;
  end loop;
  if v_is_known then
    return;
  end if;

  insert into queen.dedup (generation, key, "offset", at)
  select v_generations[k.entry], k.key, v_bases[k.entry] + k.place, p_now
  from unnest(p_keys, p_key_entries, p_key_places) k (key, entry, place);
end
$$;


--
-- Name: rate_opens_at(bigint[], integer, integer, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.rate_opens_at(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select case
    when queen.allowance(p_recent, p_max, p_ms, p_now) > 0 then p_now
    else greatest(p_now, to_timestamp((min(p_recent[i]) + 17) * p_ms / 16000.0))
  end
  from generate_series(1, coalesce(cardinality(p_recent), 0), 2) as i
  where p_recent[i] >= floor(extract(epoch from p_now) * 16000 / p_ms)::bigint - 16
$$;


--
-- Name: ready_groups(bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.ready_groups(p_group_ids bigint[]) RETURNS TABLE(group_id bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  -- Read once: a volatile clock could be no index condition.
  v_now timestamptz := queen.now();
begin
  return query
  select k.id
  from unnest(p_group_ids) k (id)
  left join lateral (
    select g.* from queen.groups g where g.id = k.id and g.deleted_at is null offset 0
  ) g on true
  left join lateral (select q.* from queen.queues q where q.id = g.queue_id offset 0) q on true
  cross join lateral (
    select
      (
        select bool_or(c.is_ready)
        from unnest(q.levels) l (level)
        cross join lateral (
          select true as is_ready
          from queen.consumers c
          where c.group_id = g.id and c.priority = l.level and c.ready_at <= v_now
          order by c.ready_at
          limit 1
        ) c
      ) as is_ready,
      (
        select bool_or(d.is_due)
        from unnest(q.levels) l (level)
        cross join lateral (
          select true as is_due
          from queen.deliveries d
          where d.group_id = g.id and d.priority = l.level and d.until <= v_now
          order by d.until
          limit 1
        ) d
      ) as is_due,
      (
        select true
        from queen.scheduled s
        where s.queue_id = q.id and s.due_at <= v_now
        order by s.due_at
        limit 1
      ) as is_scheduled
  ) h
  where g.id is null or (not q.paused and (g.filled_to is not null or h.is_ready or h.is_due or h.is_scheduled));
end
$$;


--
-- Name: record_producers(text[], bigint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.record_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  update queen.producers p
  set sequence = n.sequence, at = p_now
  from (
    select n.producer_id, max(n.sequence) as sequence
    from unnest(p_producers, p_sequences) n (producer_id, sequence)
    group by n.producer_id
  ) n
  cross join lateral (
    select l.sequence as last
    from queen.producers l
    where l.producer_id = n.producer_id
    order by l.sequence desc
    limit 1
  ) l
  where p.producer_id = n.producer_id and p.sequence = l.last
$$;


--
-- Name: redrive(bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.redrive(p_ids bigint[]) RETURNS TABLE(id bigint, group_id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  v_letter   record;
  v_consumer queen.consumers;
  v_ordered  boolean;
  v_now      timestamptz;
begin
  perform 1
  from (
    select p.id
    from queen.partitions p
    where p.id = any (array(select l.partition_id from queen.dead_letters l where l.id = any (p_ids)))
    order by p.id
    for no key update
  ) l;
  for v_letter in
    select l.*, q.in_order
    from queen.dead_letters l
    join queen.groups g on g.id = l.group_id and g.deleted_at is null
    join queen.queues q on q.id = g.queue_id and q.deleted_at is null
    where l.id = any (p_ids)
    order by l.partition_id, l.group_id, l."offset"
    for update of l
  loop
    select c.* into v_consumer
    from queen.consumers c
    where c.partition_id = v_letter.partition_id and c.group_id = v_letter.group_id
    order by c.version desc
    limit 1
    for no key update;
    if not found then
      continue;
    end if;
    -- A seek has given the message back already: then the letter is all that goes.
    if v_letter."offset" >= v_consumer.claimed or exists (
      select 1
      from queen.deliveries d
      where d.partition_id = v_letter.partition_id
        and d.group_id = v_letter.group_id
        and d.pending @> v_letter."offset"
    ) then
      delete from queen.dead_letters l where l.id = v_letter.id;
      return query select v_letter.id, v_letter.group_id;
      continue;
    end if;
    v_now := queen.now();
    v_ordered := v_letter.in_order;
    insert into queen.deliveries (
      group_id, partition_id, priority, pending, until, held, ordered, payload, extras, created_at
    ) values (
      v_letter.group_id, v_letter.partition_id, v_consumer.priority,
      int8multirange(int8range(v_letter."offset", v_letter."offset" + 1)),
      case when v_ordered and v_consumer.held then 'infinity' else v_now end, false, v_ordered,
      v_letter.payload, v_letter.extras, v_letter.created_at
    );
    if v_ordered then
      update queen.consumers c
      set
        version = c.version + 1,
        parked = c.parked + c.held::integer,
        held = true,
        ready_at = null,
        idle_at = null
      where c.partition_id = v_consumer.partition_id
        and c.group_id = v_consumer.group_id
        and c.version = v_consumer.version;
    end if;
    delete from queen.dead_letters l where l.id = v_letter.id;
    return query select v_letter.id, v_letter.group_id;
  end loop;
end
$$;


--
-- Name: release(bigint[], uuid[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.release(p_ids bigint[], p_tokens uuid[]) RETURNS TABLE(ordinal integer, group_id bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  v_now timestamptz;
begin
  perform 1 from (select d.id from queen.deliveries d where d.id = any (p_ids) order by d.id for no key update) l;
  v_now := queen.now();
  return query
  with released as (
    update queen.deliveries d
    set id = nextval('queen.delivery_ids'), token = gen_random_uuid(), held = false, out_end = null, until = v_now
    from (
      select a.ordinal, d.ctid
      from unnest(p_ids, p_tokens) with ordinality a (id, token, ordinal)
      cross join lateral (
        select d.ctid from queen.deliveries d where d.id = a.id and d.token = a.token and d.held offset 0
      ) d
    ) a
    where d.ctid = a.ctid
    returning a.ordinal, d.group_id
  )
  select a.ordinal::integer, r.group_id, case when r.ordinal is null then 'QN002' end
  from unnest(p_ids) with ordinality a (id, ordinal)
  left join released r on r.ordinal = a.ordinal
  order by a.ordinal;
end
$$;


--
-- Name: runs_of(bigint, queen.claim); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.runs_of(p_group_id bigint, p_claim queen.claim) RETURNS SETOF queen.popped
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
  select
    t.request, p_group_id, t.delivery_id, t.token, t.partition_id, p.name, p.level, t.attempts, t.until,
    greatest(t.first_offset, s.base_offset), least(t.end_offset, s.base_offset + s.message_count),
    s.base_offset, s.message_count, s.created_at, s.xid, t.payload, t.extras,
    null::double precision, null::timestamptz, null::timestamptz, null::bigint, null::text
  from unnest(
    p_claim.requests, p_claim.delivery_ids, p_claim.tokens, p_claim.partition_ids, p_claim.attempts, p_claim.untils,
    p_claim.firsts, p_claim.ends, p_claim.payloads, p_claim.extras, p_claim.created_ats
  ) with ordinality t (
    request, delivery_id, token, partition_id, attempts, until, first_offset, end_offset, payload, extras,
    created_at, ordinal
  )
  cross join lateral (
    select p.name, p.level from queen.partitions p where p.id = t.partition_id offset 0
  ) p
  cross join lateral (
    select s.base_offset, s.message_count, s.created_at, s.xid::text::bigint as xid
    from queen.segments s
    where t.payload is null
      and s.partition_id = t.partition_id
      and s.base_offset >= (
        select h.base_offset
        from queen.segments h
        where h.partition_id = t.partition_id and h.base_offset <= t.first_offset
        order by h.base_offset desc
        limit 1
      )
      and s.base_offset < t.end_offset
    union all
    select t.first_offset, 1, t.created_at, null where t.payload is not null
  ) s
  order by t.ordinal, s.base_offset
$$;


--
-- Name: seek(text, text, text, timestamp with time zone, bigint, bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.seek(p_queue text, p_group text, p_partition text, p_at timestamp with time zone, p_offset bigint, p_after bigint, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
declare
  v_group_id bigint;
  v_queue    queen.queues;
  v_ids      bigint[];
  v_now      timestamptz;
begin
  select q.* into v_queue from queen.queues q where q.name = p_queue and q.deleted_at is null;
  if not found then
    raise exception 'there is no queue %', p_queue using errcode = 'QN001';
  end if;
  select g.id into v_group_id
  from queen.groups g
  where g.queue_id = v_queue.id and g.name = p_group and g.deleted_at is null;
  if not found then
    raise exception 'queue % has no group %', p_queue, p_group using errcode = 'QN003';
  end if;
  while not queen.fill(v_group_id, 1000) loop
  end loop;

  select array_agg(l.id) into v_ids
  from (
    select p.id
    from queen.partitions p
    where p.queue_id = v_queue.id
      and p.id > coalesce(p_after, 0)
      and (p_partition is null or p.name = p_partition)
    order by p.id
    limit p_limit
    for no key update
  ) l;
  if v_ids is null then
    if p_partition is not null and p_after is null then
      raise exception 'queue % has no partition %', p_queue, p_partition using errcode = 'QN004';
    end if;
    return null;
  end if;
  perform 1
  from (
    select c.partition_id
    from queen.consumers c
    where c.partition_id = any (v_ids) and c.group_id = v_group_id
    order by c.partition_id
    for no key update
  ) l;
  perform 1
  from (
    select d.id
    from queen.deliveries d
    where d.group_id = v_group_id and d.partition_id = any (v_ids)
    order by d.id
    for update
  ) l;
  delete from queen.deliveries d where d.group_id = v_group_id and d.partition_id = any (v_ids);
  v_now := queen.now();

  update queen.consumers c
  set
    version = c.version + 1,
    claimed = n.claimed,
    held = false,
    parked = 0,
    ready_at = n.ready_at,
    idle_at = case when n.ready_at is null then greatest(v_now, n.newest_at) end
  from (
    select
      k.id,
      f.claimed,
      b.newest_at,
      case when f.claimed < b.next_offset then
        queen.head_ready(k.id, f.claimed, greatest(v_queue.delay_seconds, v_queue.window_seconds), v_now)
      end as ready_at
    from unnest(v_ids) k (id)
    cross join lateral (
      select
        coalesce(max(s.base_offset + s.message_count), 0) as next_offset,
        coalesce(max(s.created_at), '-infinity') as newest_at
      from (
        select s.base_offset, s.message_count, s.created_at
        from queen.segments s
        where s.partition_id = k.id
        order by s.base_offset desc
        limit 1
      ) s
    ) b
    cross join lateral (
      select coalesce(min(s.base_offset), 0) as first_offset
      from (
        select s.base_offset from queen.segments s where s.partition_id = k.id order by s.base_offset limit 1
      ) s
    ) a
    cross join lateral (
      select case
        when p_offset is not null then least(greatest(p_offset, a.first_offset), b.next_offset)
        when p_at is null then b.next_offset
        else queen.offset_after(k.id, p_at)
      end as claimed
    ) f
    offset 0
  ) n
  where c.partition_id = n.id and c.group_id = v_group_id;
  return v_ids[cardinality(v_ids)];
end
$$;


--
-- Name: settle(bigint, uuid, int8multirange); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.settle(p_id bigint, p_token uuid, p_offsets int8multirange) RETURNS TABLE(group_id bigint, settled bigint, is_over boolean, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  v_delivery queen.deliveries;
  v_out      int8multirange;
  v_done     int8multirange;
begin
  select d.* into v_delivery
  from queen.deliveries d
  where d.id = p_id and d.token = p_token and d.held
  for no key update;
  if not found then
    return query select null::bigint, 0::bigint, null::boolean, 'QN002';
    return;
  end if;
  v_out := queen.handed_out(v_delivery);
  v_done := v_out * coalesce(p_offsets, v_out);
  perform queen.shrink(v_delivery, v_done);
  return query
  select v_delivery.group_id, queen.count_of(v_done), isempty(v_out - v_done), null::text;
end
$$;


--
-- Name: shrink(queen.deliveries, int8multirange); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.shrink(p_delivery queen.deliveries, p_done int8multirange) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  v_left int8multirange := p_delivery.pending - p_done;
begin
  if isempty(v_left) then
    delete from queen.deliveries d where d.id = p_delivery.id;
    if p_delivery.ordered then
      perform queen.free(array[p_delivery.partition_id], array[p_delivery.group_id]);
    end if;
  elsif isempty(queen.handed_out(p_delivery) - p_done) then
    update queen.deliveries d
    set
      id = nextval('queen.delivery_ids'), token = gen_random_uuid(), pending = v_left,
      head = null, attempts = 0, error = null, out_end = null, held = false, until = queen.now()
    where d.id = p_delivery.id;
  elsif not isempty(p_done) then
    update queen.deliveries d set pending = v_left where d.id = p_delivery.id;
  end if;
end
$$;


--
-- Name: spend(bigint[], integer, timestamp with time zone, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.spend(p_recent bigint[], p_ms integer, p_now timestamp with time zone, p_count bigint) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select array_agg(v.value order by s.slice, v.ordinal)
  from (
    select h.slice, sum(h.count)::bigint as count
    from (
      select p_recent[i] as slice, p_recent[i + 1] as count
      from generate_series(1, coalesce(cardinality(p_recent), 0), 2) as i
      union all
      select floor(extract(epoch from p_now) * 16000 / p_ms)::bigint, p_count
    ) h
    where h.slice >= floor(extract(epoch from p_now) * 16000 / p_ms)::bigint - 16
    group by h.slice
  ) s
  cross join lateral (values (1, s.slice), (2, s.count)) as v (ordinal, value)
$$;


--
-- Name: subscribe(text, text, text, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.subscribe(p_queue text, p_group text, p_mode text, p_from timestamp with time zone) RETURNS TABLE(queue_id bigint, group_id bigint, is_filled boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  v_queue_id bigint;
  v_group    queen.groups;
  v_now      timestamptz;
begin
  select q.id into v_queue_id from queen.queues q where q.name = p_queue and q.deleted_at is null;
  if not found then
    return;
  end if;
  select g.* into v_group
  from queen.groups g
  where g.queue_id = v_queue_id and g.name = p_group and g.deleted_at is null;
  if not found then
    perform pg_advisory_xact_lock(hashtextextended('queen.queue', v_queue_id));
    v_now := queen.now();
    insert into queen.groups (queue_id, name, start_mode, start_at, created_at, filled_to, fill_end)
    values (
      v_queue_id,
      p_group,
      coalesce(p_mode, 'all'),
      case coalesce(p_mode, 'all') when 'all' then '-infinity' when 'new' then v_now else least(p_from, v_now) end,
      v_now,
      0,
      coalesce(
        (select p.id from queen.partitions p where p.queue_id = v_queue_id order by p.id desc limit 1), 0
      )
    )
    on conflict (queue_id, name) where deleted_at is null do nothing;
    select g.* into v_group
    from queen.groups g
    where g.queue_id = v_queue_id and g.name = p_group and g.deleted_at is null;
    perform queen.fill(v_group.id, 1000);
    select g.* into v_group from queen.groups g where g.id = v_group.id;
  end if;
  if p_mode is not null and (
    p_mode <> v_group.start_mode or (p_mode = 'time' and least(p_from, v_group.created_at) <> v_group.start_at)
  ) then
    raise exception 'group % of queue % was made with start %', p_group, p_queue, v_group.start_mode
      using errcode = 'QN005', hint = 'Seek moves a group that exists.';
  end if;
  return query select v_queue_id, v_group.id, v_group.filled_to is null;
end
$$;


--
-- Name: transact(bigint[], uuid[], int8multirange[], bigint[], uuid[], bigint[], bigint[], text[], text[], double precision[], bigint[], uuid[], bigint[], integer[], bytea[], bytea[], bytea[], double precision[], uuid[], integer[], integer[], text[], bigint[], bigint[], double precision[], timestamp with time zone[], bytea[], bytea[], double precision[], double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.transact(p_ack_ids bigint[], p_ack_tokens uuid[], p_ack_offsets int8multirange[], p_nack_ids bigint[], p_nack_tokens uuid[], p_nack_partition_ids bigint[], p_nack_offsets bigint[], p_nack_kinds text[], p_nack_errors text[], p_nack_delays double precision[], p_lease_ids bigint[], p_lease_tokens uuid[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys uuid[], p_key_entries integer[], p_key_places integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision) RETURNS TABLE(kind text, ordinal integer, "offset" bigint, created_at timestamp with time zone, xid bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  v_row record;
begin
  perform 1
  from (
    select p.id
    from queen.partitions p
    where p.id = any (p_partition_ids || p_scheduled_partition_ids)
    order by p.id
    for no key update
  ) l;
  if p_producers is not null then
    -- Before the acks are judged: a repeat finds its leases settled, and must hear what it heard first.
    return query select p.* from queen.check_producers(p_producers, p_sequences, queen.now()) p;
    if found then
      return;
    end if;
  end if;
  perform queen.lock_consumers(p_ack_ids || p_nack_ids, p_ack_tokens || p_nack_tokens);
  perform 1
  from (
    select d.id
    from queen.deliveries d
    where d.id = any (p_ack_ids || p_nack_ids || p_lease_ids)
    order by d.id
    for no key update
  ) l;

  -- Judge all of it first; then nothing has to be undone.
  return query
  select r.kind, r.ordinal::integer, null::bigint, null::timestamptz, null::bigint, r.code
  from (
    select 'ack' as kind, a.ordinal, case
      when d.id is null then 'QN002'
      when not queen.handed_out(d) @> coalesce(a.offsets, queen.handed_out(d)) then 'QN010'
    end as code
    from unnest(p_ack_ids, p_ack_tokens, p_ack_offsets) with ordinality a (id, token, offsets, ordinal)
    left join lateral (
      select d.* from queen.deliveries d where d.id = a.id and d.token = a.token and d.held offset 0
    ) d on true
    union all
    select 'nack', a.ordinal, case
      when d.id is null then 'QN002'
      when not queen.handed_out(d) @> a."offset" then 'QN010'
    end
    from unnest(p_nack_ids, p_nack_tokens, p_nack_partition_ids, p_nack_offsets)
      with ordinality a (id, token, partition_id, "offset", ordinal)
    left join lateral (
      select d.*
      from queen.deliveries d
      where d.id = a.id and d.token = a.token and d.held and d.partition_id = coalesce(a.partition_id, d.partition_id)
      offset 0
    ) d on true
    union all
    select 'lease', a.ordinal, case when d.id is null then 'QN002' end
    from unnest(p_lease_ids, p_lease_tokens) with ordinality a (id, token, ordinal)
    left join lateral (
      select d.* from queen.deliveries d where d.id = a.id and d.token = a.token and d.held offset 0
    ) d on true
  ) r
  where r.code is not null;
  if found then
    return;
  end if;

  for v_row in
    select p.*
    from queen.push(
      p_partition_ids, p_counts, p_bodies, p_ends, p_extras, p_ttls, p_keys, p_key_entries, p_key_places, null, null,
      p_scheduled_partition_ids, p_scheduled_delays, p_scheduled_dues, p_scheduled_payloads, p_scheduled_extras,
      p_scheduled_ttls, p_max_delay
    ) p
  loop
    return query select v_row.kind, v_row.ordinal, v_row."offset", v_row.created_at, v_row.xid, v_row.code;
  end loop;
  if v_row.kind <> 'stored' then
    return;
  end if;
  if p_producers is not null then
    perform queen.record_producers(p_producers, p_sequences, queen.now());
  end if;
  perform queen.ack(p_ack_ids, p_ack_tokens, p_ack_offsets);
  perform queen.nack(
    p_nack_ids, p_nack_tokens, p_nack_partition_ids, p_nack_offsets, p_nack_kinds, p_nack_errors, p_nack_delays
  );
end
$$;


--
-- Name: unpark(bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.unpark(p_partition_id bigint, p_group_id bigint, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  update queen.deliveries d
  set until = p_now
  where d.id = (
    select min(d.id)
    from queen.deliveries d
    where d.group_id = p_group_id and d.partition_id = p_partition_id and d.until = 'infinity'
  )
  returning d.id
$$;


--
-- Name: wants_more(integer[], integer[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.wants_more(p_left integer[], p_lanes_left integer[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select exists (select 1 from unnest(p_left, p_lanes_left) o (messages, lanes) where o.messages > 0 and o.lanes > 0)
$$;


--
-- Name: consumers; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.consumers (
    partition_id bigint NOT NULL,
    group_id bigint NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    claimed bigint NOT NULL,
    held boolean DEFAULT false NOT NULL,
    ready_at timestamp with time zone,
    idle_at timestamp with time zone,
    priority integer NOT NULL,
    parked integer DEFAULT 0 NOT NULL,
    recent bigint[],
    CONSTRAINT consumers_are_held_ready_or_idle CHECK ((num_nonnulls(ready_at, idle_at, NULLIF(held, false)) = 1))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', vacuum_truncate=off);


--
-- Name: dead_letters; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dead_letters (
    id bigint NOT NULL,
    queue_id bigint NOT NULL,
    group_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    "offset" bigint NOT NULL,
    queue text NOT NULL,
    "group" text NOT NULL,
    partition text NOT NULL,
    level smallint NOT NULL,
    payload bytea NOT NULL,
    extras bytea,
    created_at timestamp with time zone NOT NULL,
    attempts integer NOT NULL,
    reason text NOT NULL,
    error text,
    failed_at timestamp with time zone NOT NULL
);


--
-- Name: dead_letters_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.dead_letters ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.dead_letters_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: dedup; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
)
PARTITION BY LIST (generation);


--
-- Name: dedup_0; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_0 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_1; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_1 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_10; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_10 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_11; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_11 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_2; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_2 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_3; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_3 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_4; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_4 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_5; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_5 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_6; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_6 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_7; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_7 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_8; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_8 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_9; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_9 (
    generation smallint NOT NULL,
    key uuid NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: groups; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.groups (
    id bigint NOT NULL,
    queue_id bigint NOT NULL,
    name text NOT NULL,
    start_mode text NOT NULL,
    start_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    filled_to bigint,
    fill_end bigint NOT NULL,
    CONSTRAINT start_mode_is_known CHECK ((start_mode = ANY (ARRAY['all'::text, 'new'::text, 'time'::text])))
);


--
-- Name: groups_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.groups ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: limits; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.limits (
    group_id bigint NOT NULL,
    version bigint NOT NULL,
    recent bigint[] NOT NULL
);


--
-- Name: partitions; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.partitions (
    id bigint NOT NULL,
    queue_id bigint NOT NULL,
    name text NOT NULL,
    level smallint DEFAULT 0 NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    CONSTRAINT level_is_from_0_to_9 CHECK (((level >= 0) AND (level <= 9))),
    CONSTRAINT partition_priority_is_within_1000 CHECK (((priority >= '-1000'::integer) AND (priority <= 1000)))
);


--
-- Name: segments; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.segments (
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    message_count integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    queue_id bigint NOT NULL,
    xid xid8 NOT NULL,
    codec smallint DEFAULT 0 NOT NULL,
    expires_at timestamp with time zone,
    body bytea,
    ends bytea,
    extras bytea,
    CONSTRAINT segments_are_not_empty CHECK ((message_count > 0))
);
ALTER TABLE ONLY queen.segments ALTER COLUMN body SET COMPRESSION lz4;
ALTER TABLE ONLY queen.segments ALTER COLUMN ends SET STORAGE MAIN;
ALTER TABLE ONLY queen.segments ALTER COLUMN ends SET COMPRESSION lz4;
ALTER TABLE ONLY queen.segments ALTER COLUMN extras SET COMPRESSION lz4;


--
-- Name: messages; Type: VIEW; Schema: queen; Owner: -
--

CREATE VIEW queen.messages AS
 SELECT q.name AS queue,
    p.name AS partition,
    (s.base_offset + i.n) AS "offset",
    s.created_at,
    convert_from(queen.payload_at(s.body, s.ends, i.n), 'UTF8'::name) AS payload,
    (convert_from(queen.extra_at(s.extras, s.message_count, i.n), 'UTF8'::name))::json AS extras,
    p.level AS priority,
    s.expires_at,
    s.partition_id,
    s.xid
   FROM (((queen.segments s
     JOIN queen.partitions p ON ((p.id = s.partition_id)))
     JOIN queen.queues q ON ((q.id = p.queue_id)))
     CROSS JOIN LATERAL generate_series(0, (s.message_count - 1)) i(n))
  WHERE (s.body IS NOT NULL);


--
-- Name: migrations; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.migrations (
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);


--
-- Name: partitions_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.partitions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.partitions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: producers; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.producers (
    producer_id text NOT NULL,
    sequence bigint NOT NULL,
    at timestamp with time zone NOT NULL
);


--
-- Name: queues_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.queues ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.queues_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: scheduled; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.scheduled (
    id bigint NOT NULL,
    queue_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    ttl_seconds double precision,
    key uuid,
    payload bytea NOT NULL,
    extras bytea
);


--
-- Name: scheduled_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.scheduled ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.scheduled_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: dedup_0; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_0 FOR VALUES IN ('0');


--
-- Name: dedup_1; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_1 FOR VALUES IN ('1');


--
-- Name: dedup_10; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_10 FOR VALUES IN ('10');


--
-- Name: dedup_11; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_11 FOR VALUES IN ('11');


--
-- Name: dedup_2; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_2 FOR VALUES IN ('2');


--
-- Name: dedup_3; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_3 FOR VALUES IN ('3');


--
-- Name: dedup_4; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_4 FOR VALUES IN ('4');


--
-- Name: dedup_5; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_5 FOR VALUES IN ('5');


--
-- Name: dedup_6; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_6 FOR VALUES IN ('6');


--
-- Name: dedup_7; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_7 FOR VALUES IN ('7');


--
-- Name: dedup_8; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_8 FOR VALUES IN ('8');


--
-- Name: dedup_9; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup ATTACH PARTITION queen.dedup_9 FOR VALUES IN ('9');


--
-- Name: consumers consumers_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.consumers
    ADD CONSTRAINT consumers_pkey PRIMARY KEY (partition_id, group_id, version);


--
-- Name: dead_letters dead_letters_are_one_per_message_and_group; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dead_letters
    ADD CONSTRAINT dead_letters_are_one_per_message_and_group UNIQUE (partition_id, "offset", group_id);


--
-- Name: dead_letters dead_letters_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (id);


--
-- Name: deliveries deliveries_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (id);


--
-- Name: groups groups_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.groups
    ADD CONSTRAINT groups_pkey PRIMARY KEY (id);


--
-- Name: limits limits_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.limits
    ADD CONSTRAINT limits_pkey PRIMARY KEY (group_id, version);


--
-- Name: migrations migrations_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (name);


--
-- Name: partitions partitions_are_named_once; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.partitions
    ADD CONSTRAINT partitions_are_named_once UNIQUE (queue_id, name, level);


--
-- Name: partitions partitions_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.partitions
    ADD CONSTRAINT partitions_pkey PRIMARY KEY (id);


--
-- Name: producers producers_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.producers
    ADD CONSTRAINT producers_pkey PRIMARY KEY (producer_id, sequence);


--
-- Name: queues queues_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (id);


--
-- Name: scheduled scheduled_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.scheduled
    ADD CONSTRAINT scheduled_pkey PRIMARY KEY (id);


--
-- Name: segments segments_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.segments
    ADD CONSTRAINT segments_pkey PRIMARY KEY (partition_id, base_offset);


--
-- Name: consumers_idle; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX consumers_idle ON queen.consumers USING btree (partition_id, idle_at) WHERE (idle_at IS NOT NULL);


--
-- Name: consumers_ready; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX consumers_ready ON queen.consumers USING btree (group_id, priority, ready_at) WHERE (ready_at IS NOT NULL);


--
-- Name: dead_letters_of_queue; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dead_letters_of_queue ON queen.dead_letters USING btree (queue_id, id);


--
-- Name: dedup_key; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_key ON ONLY queen.dedup USING hash (key);


--
-- Name: dedup_0_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_0_key_idx ON queen.dedup_0 USING hash (key);


--
-- Name: dedup_10_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_10_key_idx ON queen.dedup_10 USING hash (key);


--
-- Name: dedup_11_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_11_key_idx ON queen.dedup_11 USING hash (key);


--
-- Name: dedup_1_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_1_key_idx ON queen.dedup_1 USING hash (key);


--
-- Name: dedup_2_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_2_key_idx ON queen.dedup_2 USING hash (key);


--
-- Name: dedup_3_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_3_key_idx ON queen.dedup_3 USING hash (key);


--
-- Name: dedup_4_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_4_key_idx ON queen.dedup_4 USING hash (key);


--
-- Name: dedup_5_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_5_key_idx ON queen.dedup_5 USING hash (key);


--
-- Name: dedup_6_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_6_key_idx ON queen.dedup_6 USING hash (key);


--
-- Name: dedup_7_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_7_key_idx ON queen.dedup_7 USING hash (key);


--
-- Name: dedup_8_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_8_key_idx ON queen.dedup_8 USING hash (key);


--
-- Name: dedup_9_key_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_9_key_idx ON queen.dedup_9 USING hash (key);


--
-- Name: deliveries_due; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX deliveries_due ON queen.deliveries USING btree (group_id, priority, until);


--
-- Name: deliveries_of_partition; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX deliveries_of_partition ON queen.deliveries USING btree (partition_id, group_id, until);


--
-- Name: groups_deleted; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX groups_deleted ON queen.groups USING btree (id) WHERE (deleted_at IS NOT NULL);


--
-- Name: groups_name; Type: INDEX; Schema: queen; Owner: -
--

CREATE UNIQUE INDEX groups_name ON queen.groups USING btree (queue_id, name) WHERE (deleted_at IS NULL);


--
-- Name: partitions_of_queue; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX partitions_of_queue ON queen.partitions USING btree (queue_id, id);


--
-- Name: queues_deleted; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX queues_deleted ON queen.queues USING btree (id) WHERE (deleted_at IS NOT NULL);


--
-- Name: queues_name; Type: INDEX; Schema: queen; Owner: -
--

CREATE UNIQUE INDEX queues_name ON queen.queues USING btree (name) WHERE (deleted_at IS NULL);


--
-- Name: queues_scope; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX queues_scope ON queen.queues USING btree (namespace, task, priority DESC, id) WHERE (deleted_at IS NULL);


--
-- Name: scheduled_due; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX scheduled_due ON queen.scheduled USING btree (queue_id, due_at, id);


--
-- Name: segments_xid; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX segments_xid ON queen.segments USING btree (queue_id, xid);


--
-- Name: dedup_0_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_0_key_idx;


--
-- Name: dedup_10_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_10_key_idx;


--
-- Name: dedup_11_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_11_key_idx;


--
-- Name: dedup_1_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_1_key_idx;


--
-- Name: dedup_2_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_2_key_idx;


--
-- Name: dedup_3_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_3_key_idx;


--
-- Name: dedup_4_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_4_key_idx;


--
-- Name: dedup_5_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_5_key_idx;


--
-- Name: dedup_6_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_6_key_idx;


--
-- Name: dedup_7_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_7_key_idx;


--
-- Name: dedup_8_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_8_key_idx;


--
-- Name: dedup_9_key_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_key ATTACH PARTITION queen.dedup_9_key_idx;


--
-- Name: FUNCTION ack(p_ids bigint[], p_tokens uuid[], p_offsets int8multirange[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.ack(p_ids bigint[], p_tokens uuid[], p_offsets int8multirange[]) FROM PUBLIC;


--
-- Name: FUNCTION allowance(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.allowance(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION backlog(p_queue_id bigint, p_most bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.backlog(p_queue_id bigint, p_most bigint) FROM PUBLIC;


--
-- Name: FUNCTION backoff(p_queue queen.queues, p_attempts integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.backoff(p_queue queen.queues, p_attempts integer) FROM PUBLIC;


--
-- Name: FUNCTION bury(p_delivery queen.deliveries, p_offset bigint, p_attempts integer, p_kind text, p_error text, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.bury(p_delivery queen.deliveries, p_offset bigint, p_attempts integer, p_kind text, p_error text, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION change_order(p_queue_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.change_order(p_queue_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION check_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.check_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION claim_due(p_group_id bigint, p_queue queen.queues, p_level integer, p_lanes bigint[], p_since timestamp with time zone, p_left integer[], p_lanes_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_slots bigint, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.claim_due(p_group_id bigint, p_queue queen.queues, p_level integer, p_lanes bigint[], p_since timestamp with time zone, p_left integer[], p_lanes_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_slots bigint, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION claim_new(p_group_id bigint, p_queue queen.queues, p_level integer, p_lanes bigint[], p_since timestamp with time zone, p_left integer[], p_lanes_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_slots bigint, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.claim_new(p_group_id bigint, p_queue queen.queues, p_level integer, p_lanes bigint[], p_since timestamp with time zone, p_left integer[], p_lanes_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_slots bigint, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION configure(p_name text, p_namespace text, p_task text, p_options jsonb, p_replace boolean, p_version bigint, p_defaults jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.configure(p_name text, p_namespace text, p_task text, p_options jsonb, p_replace boolean, p_version bigint, p_defaults jsonb) FROM PUBLIC;


--
-- Name: FUNCTION configure_partition(p_queue text, p_partition text, p_priority integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.configure_partition(p_queue text, p_partition text, p_priority integer) FROM PUBLIC;


--
-- Name: FUNCTION count_of(p_offsets int8multirange); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.count_of(p_offsets int8multirange) FROM PUBLIC;


--
-- Name: FUNCTION dedup_class(p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.dedup_class(p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION dedup_generation(p_class integer, p_at timestamp with time zone, p_back integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.dedup_generation(p_class integer, p_at timestamp with time zone, p_back integer) FROM PUBLIC;


--
-- Name: FUNCTION dedup_key(p_partition_id bigint, p_transaction_id text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.dedup_key(p_partition_id bigint, p_transaction_id text) FROM PUBLIC;


--
-- Name: FUNCTION dedup_length(p_class integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.dedup_length(p_class integer) FROM PUBLIC;


--
-- Name: FUNCTION default_options(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.default_options() FROM PUBLIC;


--
-- Name: FUNCTION delete_group(p_queue text, p_group text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.delete_group(p_queue text, p_group text) FROM PUBLIC;


--
-- Name: FUNCTION delete_queue(p_queue text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.delete_queue(p_queue text) FROM PUBLIC;


--
-- Name: FUNCTION drop_expired(p_delivery queen.deliveries, p_dead int8multirange); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.drop_expired(p_delivery queen.deliveries, p_dead int8multirange) FROM PUBLIC;


--
-- Name: FUNCTION due_deliveries(p_group_id bigint, p_level integer, p_lanes bigint[], p_since timestamp with time zone, p_now timestamp with time zone, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.due_deliveries(p_group_id bigint, p_level integer, p_lanes bigint[], p_since timestamp with time zone, p_now timestamp with time zone, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION end_at(p_ends bytea, p_index integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.end_at(p_ends bytea, p_index integer) FROM PUBLIC;


--
-- Name: FUNCTION end_bytes(p_end integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.end_bytes(p_end integer) FROM PUBLIC;


--
-- Name: FUNCTION ends_of(p_values bytea[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.ends_of(p_values bytea[]) FROM PUBLIC;


--
-- Name: FUNCTION erase(p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.erase(p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION expired_of(p_delivery queen.deliveries, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.expired_of(p_delivery queen.deliveries, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION extend(p_ids bigint[], p_tokens uuid[], p_seconds double precision[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.extend(p_ids bigint[], p_tokens uuid[], p_seconds double precision[]) FROM PUBLIC;


--
-- Name: FUNCTION extra_at(p_extras bytea, p_count integer, p_index integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.extra_at(p_extras bytea, p_count integer, p_index integer) FROM PUBLIC;


--
-- Name: FUNCTION fail(p_delivery queen.deliveries, p_queue queen.queues, p_offset bigint, p_kind text, p_error text, p_delay double precision, p_from timestamp with time zone, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.fail(p_delivery queen.deliveries, p_queue queen.queues, p_offset bigint, p_kind text, p_error text, p_delay double precision, p_from timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION fill(p_group_id bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.fill(p_group_id bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION find_delivery(p_group text, p_delivery_id bigint, p_token uuid, p_partition_id bigint, p_transaction_id text, p_place_id bigint, p_place_offset bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.find_delivery(p_group text, p_delivery_id bigint, p_token uuid, p_partition_id bigint, p_transaction_id text, p_place_id bigint, p_place_offset bigint) FROM PUBLIC;


--
-- Name: FUNCTION first_of(p_offsets int8multirange, p_count bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.first_of(p_offsets int8multirange, p_count bigint) FROM PUBLIC;


--
-- Name: FUNCTION free(p_partition_ids bigint[], p_group_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.free(p_partition_ids bigint[], p_group_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION handed_out(p_delivery queen.deliveries); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.handed_out(p_delivery queen.deliveries) FROM PUBLIC;


--
-- Name: FUNCTION head_ready(p_partition_id bigint, p_offset bigint, p_seconds double precision, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.head_ready(p_partition_id bigint, p_offset bigint, p_seconds double precision, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION is_over(p_id bigint, p_token uuid); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.is_over(p_id bigint, p_token uuid) FROM PUBLIC;


--
-- Name: FUNCTION join_extras(p_extras bytea[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.join_extras(p_extras bytea[]) FROM PUBLIC;


--
-- Name: FUNCTION levels_by_turn(p_queue queen.queues, p_turn integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.levels_by_turn(p_queue queen.queues, p_turn integer) FROM PUBLIC;


--
-- Name: FUNCTION lock_consumers(p_ids bigint[], p_tokens uuid[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.lock_consumers(p_ids bigint[], p_tokens uuid[]) FROM PUBLIC;


--
-- Name: FUNCTION lock_limit(p_group_id bigint, p_queue queen.queues, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.lock_limit(p_group_id bigint, p_queue queen.queues, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION message_at(p_delivery queen.deliveries, p_offset bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.message_at(p_delivery queen.deliveries, p_offset bigint) FROM PUBLIC;


--
-- Name: FUNCTION nack(p_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_offsets bigint[], p_kinds text[], p_errors text[], p_delays double precision[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.nack(p_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_offsets bigint[], p_kinds text[], p_errors text[], p_delays double precision[]) FROM PUBLIC;


--
-- Name: FUNCTION new_queue(p_defaults jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.new_queue(p_defaults jsonb) FROM PUBLIC;


--
-- Name: FUNCTION next_at(p_group_id bigint, p_queue queen.queues, p_slots bigint, p_opens_at timestamp with time zone, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.next_at(p_group_id bigint, p_queue queen.queues, p_slots bigint, p_opens_at timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION now(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.now() FROM PUBLIC;


--
-- Name: FUNCTION offset_after(p_partition_id bigint, p_at timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.offset_after(p_partition_id bigint, p_at timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION partition_ids(p_queues text[], p_partitions text[], p_levels smallint[], p_create boolean, p_defaults jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.partition_ids(p_queues text[], p_partitions text[], p_levels smallint[], p_create boolean, p_defaults jsonb) FROM PUBLIC;


--
-- Name: FUNCTION pass(p_ctids tid[], p_partition_ids bigint[], p_queue queen.queues); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.pass(p_ctids tid[], p_partition_ids bigint[], p_queue queen.queues) FROM PUBLIC;


--
-- Name: FUNCTION pass_over(p_partition_id bigint, p_end bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.pass_over(p_partition_id bigint, p_end bigint) FROM PUBLIC;


--
-- Name: FUNCTION payload_at(p_body bytea, p_ends bytea, p_index integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.payload_at(p_body bytea, p_ends bytea, p_index integer) FROM PUBLIC;


--
-- Name: FUNCTION pop(p_group_ids bigint[], p_ready_since timestamp with time zone[], p_due_since timestamp with time zone[], p_partition text, p_batches integer[], p_partitions integer[], p_leases double precision[], p_auto boolean, p_due_first boolean, p_turn integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.pop(p_group_ids bigint[], p_ready_since timestamp with time zone[], p_due_since timestamp with time zone[], p_partition text, p_batches integer[], p_partitions integer[], p_leases double precision[], p_auto boolean, p_due_first boolean, p_turn integer) FROM PUBLIC;


--
-- Name: FUNCTION promote(p_queue_id bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.promote(p_queue_id bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION purge(p_queue text, p_partition text, p_completed boolean, p_before timestamp with time zone, p_after bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.purge(p_queue text, p_partition text, p_completed boolean, p_before timestamp with time zone, p_after bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION push(p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys uuid[], p_key_entries integer[], p_key_places integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.push(p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys uuid[], p_key_entries integer[], p_key_places integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision) FROM PUBLIC;


--
-- Name: FUNCTION push_keys(p_keys uuid[], p_key_entries integer[], p_key_places integer[], p_partition_ids bigint[], p_counts integer[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.push_keys(p_keys uuid[], p_key_entries integer[], p_key_places integer[], p_partition_ids bigint[], p_counts integer[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION rate_opens_at(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.rate_opens_at(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION ready_groups(p_group_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.ready_groups(p_group_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION record_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.record_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION redrive(p_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.redrive(p_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION release(p_ids bigint[], p_tokens uuid[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.release(p_ids bigint[], p_tokens uuid[]) FROM PUBLIC;


--
-- Name: FUNCTION runs_of(p_group_id bigint, p_claim queen.claim); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.runs_of(p_group_id bigint, p_claim queen.claim) FROM PUBLIC;


--
-- Name: FUNCTION seek(p_queue text, p_group text, p_partition text, p_at timestamp with time zone, p_offset bigint, p_after bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.seek(p_queue text, p_group text, p_partition text, p_at timestamp with time zone, p_offset bigint, p_after bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION settle(p_id bigint, p_token uuid, p_offsets int8multirange); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.settle(p_id bigint, p_token uuid, p_offsets int8multirange) FROM PUBLIC;


--
-- Name: FUNCTION shrink(p_delivery queen.deliveries, p_done int8multirange); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.shrink(p_delivery queen.deliveries, p_done int8multirange) FROM PUBLIC;


--
-- Name: FUNCTION spend(p_recent bigint[], p_ms integer, p_now timestamp with time zone, p_count bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.spend(p_recent bigint[], p_ms integer, p_now timestamp with time zone, p_count bigint) FROM PUBLIC;


--
-- Name: FUNCTION subscribe(p_queue text, p_group text, p_mode text, p_from timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.subscribe(p_queue text, p_group text, p_mode text, p_from timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION transact(p_ack_ids bigint[], p_ack_tokens uuid[], p_ack_offsets int8multirange[], p_nack_ids bigint[], p_nack_tokens uuid[], p_nack_partition_ids bigint[], p_nack_offsets bigint[], p_nack_kinds text[], p_nack_errors text[], p_nack_delays double precision[], p_lease_ids bigint[], p_lease_tokens uuid[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys uuid[], p_key_entries integer[], p_key_places integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.transact(p_ack_ids bigint[], p_ack_tokens uuid[], p_ack_offsets int8multirange[], p_nack_ids bigint[], p_nack_tokens uuid[], p_nack_partition_ids bigint[], p_nack_offsets bigint[], p_nack_kinds text[], p_nack_errors text[], p_nack_delays double precision[], p_lease_ids bigint[], p_lease_tokens uuid[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys uuid[], p_key_entries integer[], p_key_places integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision) FROM PUBLIC;


--
-- Name: FUNCTION unpark(p_partition_id bigint, p_group_id bigint, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.unpark(p_partition_id bigint, p_group_id bigint, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION wants_more(p_left integer[], p_lanes_left integer[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.wants_more(p_left integer[], p_lanes_left integer[]) FROM PUBLIC;


--
-- PostgreSQL database dump complete
--
