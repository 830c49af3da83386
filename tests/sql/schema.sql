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
	left_partitions integer[],
	lapsed bigint,
	buried bigint,
	dropped bigint,
	evicted bigint,
	unkept bigint
);


--
-- Name: combined; Type: TYPE; Schema: queen; Owner: -
--

CREATE TYPE queen.combined AS (
	kind text,
	ordinal integer,
	"offset" bigint,
	created_at timestamp with time zone,
	xid bigint,
	code text,
	group_id bigint,
	settled bigint,
	refused int8multirange,
	is_over boolean,
	has_more boolean,
	due_at timestamp with time zone,
	due_seconds double precision,
	is_dead boolean,
	request integer,
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
	payload bytea,
	extras bytea,
	wait_seconds double precision,
	ready_since timestamp with time zone,
	due_since timestamp with time zone,
	expired bigint,
	lapsed bigint,
	buried bigint,
	dropped bigint,
	evicted bigint,
	unkept bigint
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
	code text,
	lapsed bigint,
	buried bigint,
	dropped bigint,
	evicted bigint,
	unkept bigint
);


--
-- Name: abandon_batch(text, text, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.abandon_batch(p_queue text, p_producer text, p_sequence bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: ack(bigint[], uuid[], int8multirange[], bigint[], integer[], bigint[], text[], bytea[], double precision[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.ack(p_ids bigint[], p_tokens uuid[], p_offsets int8multirange[], p_partition_ids bigint[] DEFAULT NULL::bigint[], p_result_ordinals integer[] DEFAULT NULL::integer[], p_result_offsets bigint[] DEFAULT NULL::bigint[], p_transaction_ids text[] DEFAULT NULL::text[], p_results bytea[] DEFAULT NULL::bytea[], p_seconds double precision[] DEFAULT NULL::double precision[]) RETURNS TABLE(ordinal integer, group_id bigint, settled bigint, refused int8multirange, is_over boolean, has_more boolean, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: add_limit(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.add_limit(p_group_id bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

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
    order_changed_at timestamp with time zone,
    shortened_at timestamp with time zone,
    old_dedup_untils timestamp with time zone[],
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
    schema jsonb,
    retention_enabled boolean DEFAULT false NOT NULL,
    retention_seconds double precision DEFAULT 0 NOT NULL,
    completed_retention_seconds double precision DEFAULT 0 NOT NULL,
    partition_retention_seconds double precision DEFAULT 0 NOT NULL,
    max_wait_seconds double precision DEFAULT 0 NOT NULL,
    encrypted boolean DEFAULT false NOT NULL,
    managed_by text,
    slot smallint,
    placement text DEFAULT 'home'::text NOT NULL,
    CONSTRAINT concurrency_limit_is_not_negative CHECK ((concurrency_limit >= 0)),
    CONSTRAINT dedup_window_is_at_most_31_days CHECK (((dedup_seconds >= (0)::double precision) AND (dedup_seconds <= (2678400)::double precision))),
    CONSTRAINT delay_is_at_most_a_year CHECK (((delay_seconds >= (0)::double precision) AND (delay_seconds <= (31536000)::double precision))),
    CONSTRAINT lease_is_positive_and_at_most_12_hours CHECK (((lease_seconds > (0)::double precision) AND (lease_seconds <= (43200)::double precision))),
    CONSTRAINT max_payload_is_positive CHECK ((max_payload_bytes > 0)),
    CONSTRAINT max_size_is_not_negative CHECK ((max_size >= 0)),
    CONSTRAINT max_wait_is_at_most_10_years CHECK (((max_wait_seconds >= (0)::double precision) AND (max_wait_seconds <= (315360000)::double precision))),
    CONSTRAINT placement_is_known CHECK ((placement = ANY (ARRAY['home'::text, 'spread'::text]))),
    CONSTRAINT priority_is_within_1000 CHECK (((priority >= '-1000'::integer) AND (priority <= 1000))),
    CONSTRAINT queue_managers_are_named CHECK (((length(managed_by) >= 1) AND (length(managed_by) <= 255))),
    CONSTRAINT rate_limit_is_whole CHECK ((((rate_max IS NULL) AND (rate_ms IS NULL) AND (rate_per IS NULL)) OR ((rate_max IS NOT NULL) AND (rate_max > 0) AND (rate_ms IS NOT NULL) AND (rate_ms >= 16) AND (rate_per IS NOT NULL) AND (rate_per = ANY (ARRAY['queue'::text, 'partition'::text]))))),
    CONSTRAINT retention_is_at_most_100_years CHECK ((((retention_seconds >= (0)::double precision) AND (retention_seconds <= ('3153600000'::bigint)::double precision)) AND ((completed_retention_seconds >= (0)::double precision) AND (completed_retention_seconds <= ('3153600000'::bigint)::double precision)) AND ((partition_retention_seconds >= (0)::double precision) AND (partition_retention_seconds <= ('3153600000'::bigint)::double precision)))),
    CONSTRAINT retry_backoff_is_from_1_to_100 CHECK (((retry_backoff >= (1)::double precision) AND (retry_backoff <= (100)::double precision))),
    CONSTRAINT retry_delay_is_not_negative CHECK (((retry_delay_ms >= 0) AND (max_retry_delay_ms >= 0))),
    CONSTRAINT retry_limit_is_from_0_to_1000 CHECK (((retry_limit >= 0) AND (retry_limit <= 1000))),
    CONSTRAINT spread_queues_have_no_slot CHECK (((placement = 'spread'::text) = (slot IS NULL))),
    CONSTRAINT ttl_is_not_negative CHECK (((ttl_seconds >= (0)::double precision) AND (ttl_seconds <= (315360000)::double precision))),
    CONSTRAINT window_is_at_most_a_year CHECK (((window_seconds >= (0)::double precision) AND (window_seconds <= (31536000)::double precision)))
);


--
-- Name: add_positions(queen.groups, queen.queues, bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.add_positions(p_group queen.groups, p_queue queen.queues, p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: add_trace(bigint, text, text, text, text[], bytea); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.add_trace(p_partition_id bigint, p_transaction_id text, p_group text, p_event_type text, p_names text[], p_data bytea) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: adopt_partitions(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.adopt_partitions(p_slot smallint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: advance_step(text, text, integer, uuid, text, json, text, integer, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.advance_step(p_id text, p_name text, p_part integer, p_token uuid, p_outcome text, p_result json, p_error text, p_attempts integer, p_now timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: allow(text, double precision, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.allow(p_key_id text, p_rate double precision, p_wanted integer) RETURNS TABLE(granted integer, wait_seconds double precision)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET synchronous_commit TO 'off'
    AS $$ … $$;


--
-- Name: allowance(bigint[], integer, integer, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.allowance(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE
    AS $$ … $$;


--
-- Name: allowed_share(integer, integer, bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.allowed_share(p_wish integer, p_share integer, p_reserved bigint, p_free bigint) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: append(bigint[], bigint[], integer[], bytea[], bytea[], bytea[], double precision[], bytea, integer[], integer[], integer[], text[], bigint[], bigint[], double precision[], timestamp with time zone[], bytea[], bytea[], double precision[], double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.append(p_ids bigint[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision) RETURNS TABLE(kind text, ordinal integer, "offset" bigint, created_at timestamp with time zone, xid bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: apply_definition(jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.apply_definition(p_definition jsonb) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: apply_queue(queen.queues, jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.apply_queue(p_queue queen.queues, p_values jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: apply_shares(bigint[], bigint[], integer[], integer[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.apply_shares(p_group_ids bigint[], p_revisions bigint[], p_rates integer[], p_concurrencies integer[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: archive_batch(text, bigint, bigint, bigint, bigint, bigint, bigint, text, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.archive_batch(p_name text, p_batch bigint, p_token bigint, p_files bigint, p_messages bigint, p_bytes bigint, p_missed bigint DEFAULT 0, p_gaps text DEFAULT NULL::text, p_misfits bigint DEFAULT 0) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: are_settled(text[], bigint[], bigint[], text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.are_settled(p_groups text[], p_partition_ids bigint[], p_offsets bigint[], p_transaction_ids text[]) RETURNS TABLE(ordinal integer, is_settled boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: audit(text, text, text, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.audit(p_actor text, p_action text, p_queue text, p_record text) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: audit_batch(text[], text[], text[], text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.audit_batch(p_actors text[], p_actions text[], p_queues text[], p_records text[]) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: audit_hash(bytea, bigint, timestamp with time zone, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.audit_hash(p_before bytea, p_id bigint, p_at timestamp with time zone, p_record text) RETURNS bytea
    LANGUAGE sql STABLE
    AS $$ … $$;


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
    AS $$ … $$;


--
-- Name: backoff(queen.queues, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.backoff(p_queue queen.queues, p_attempts integer) RETURNS interval
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: workflow_steps; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.workflow_steps (
    workflow_id text NOT NULL,
    name text NOT NULL,
    ordinal integer NOT NULL,
    kind text NOT NULL,
    queue text,
    partition text,
    template json,
    priority integer,
    delay_seconds double precision,
    items json,
    items_of text,
    signal text,
    timeout_seconds double precision,
    signal_outcome text,
    signal_data json,
    undoes text,
    on_success text[] DEFAULT '{}'::text[] NOT NULL,
    on_failure text[] DEFAULT '{}'::text[] NOT NULL,
    needs_all boolean NOT NULL,
    sources integer NOT NULL,
    waits_for integer NOT NULL,
    led_by integer DEFAULT 0 NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    token uuid,
    tries integer DEFAULT 0 NOT NULL,
    parts integer,
    open_parts integer,
    failed_parts integer,
    attempts integer,
    result json,
    error text,
    outbox_id bigint,
    place integer,
    look_at timestamp with time zone,
    seen_at timestamp with time zone,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT parts_are_settled_once CHECK (((open_parts >= 0) AND (failed_parts >= 0) AND ((open_parts + failed_parts) <= parts))),
    CONSTRAINT sources_are_settled_once CHECK (((waits_for >= 0) AND (led_by >= 0) AND ((led_by + waits_for) <= sources))),
    CONSTRAINT step_kind_is_known CHECK ((kind = ANY (ARRAY['message'::text, 'map'::text, 'signal'::text, 'undo'::text]))),
    CONSTRAINT step_state_is_known CHECK ((state = ANY (ARRAY['pending'::text, 'active'::text, 'waiting'::text, 'completed'::text, 'failed'::text, 'skipped'::text, 'cancelled'::text])))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000');


--
-- Name: workflows; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.workflows (
    id text NOT NULL,
    number bigint NOT NULL,
    name text NOT NULL,
    state text DEFAULT 'running'::text NOT NULL,
    is_cancelled boolean DEFAULT false NOT NULL,
    is_undone boolean DEFAULT true NOT NULL,
    correlation_id text,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    metadata json NOT NULL,
    digest bytea NOT NULL,
    headers json,
    trace_id text,
    open_steps integer NOT NULL,
    settled_steps integer DEFAULT 0 NOT NULL,
    result json,
    error text,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT open_steps_are_not_negative CHECK ((open_steps >= 0)),
    CONSTRAINT workflow_state_is_known CHECK ((state = ANY (ARRAY['running'::text, 'stopping'::text, 'compensating'::text, 'completed'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT workflows_end_when_they_stop CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text]))))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000');


--
-- Name: begin_step(queen.workflows, queen.workflow_steps, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.begin_step(p_run queen.workflows, p_step queen.workflow_steps, p_now timestamp with time zone, OUT state text, OUT result json, OUT error text) RETURNS record
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: birthplace(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.birthplace() RETURNS integer
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: blocks_after(bigint, bigint, smallint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.blocks_after(p_partition_id bigint, p_offset bigint, p_generations smallint[], p_valid_from timestamp with time zone) RETURNS TABLE(base_offset bigint, at timestamp with time zone, keys bytea)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: deliveries; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.deliveries (
    id bigint NOT NULL,
    token uuid DEFAULT gen_random_uuid() NOT NULL,
    group_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    priority integer NOT NULL,
    pending int8multirange NOT NULL,
    head bigint,
    out_end bigint,
    until timestamp with time zone NOT NULL,
    parked_until timestamp with time zone,
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
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: bury_stale(bigint, queen.queues, bigint[], bigint[], bigint[], timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.bury_stale(p_group_id bigint, p_queue queen.queues, p_partition_ids bigint[], p_firsts bigint[], p_ends bigint[], p_stale timestamp with time zone, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: by_readiness(bigint[], timestamp with time zone[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.by_readiness(p_group_ids bigint[], p_ready_since timestamp with time zone[]) RETURNS integer[]
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: cancel(bigint, text, text, bigint, bigint, bigint, double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.cancel(p_queue_id bigint, p_transaction_id text, p_group text, p_scheduled_id bigint, p_partition_id bigint, p_offset bigint, p_seconds double precision) RETURNS TABLE(status text, group_id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: cancel_scheduled(bigint, bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.cancel_scheduled(p_queue_id bigint, p_partition_ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: cancel_workflow(text, text, boolean); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.cancel_workflow(p_id text, p_reason text, p_is_undone boolean, OUT was_running boolean, OUT has_ended boolean, OUT open_steps integer) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: change_order(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.change_order(p_queue_id bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: change_pin(bigint, text, bigint, boolean); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.change_pin(p_queue_id bigint, p_partition text, p_revision bigint, p_is_ready boolean) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: check_movable(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.check_movable(p_slot smallint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: check_producers(text[], bigint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.check_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone) RETURNS TABLE(kind text, ordinal integer, "offset" bigint, created_at timestamp with time zone, xid bigint, code text)
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: chosen_placement(jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.chosen_placement(p_options jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: claim_due(bigint, queen.queues, integer, bigint[], timestamp with time zone, integer[], integer[], double precision[], boolean, bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.claim_due(p_group_id bigint, p_queue queen.queues, p_level integer, p_partition_ids bigint[], p_since timestamp with time zone, p_left integer[], p_partitions_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_free bigint, p_now timestamp with time zone) RETURNS queen.claim
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: claim_homes(text[], text[], boolean[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.claim_homes(p_names text[], p_namespaces text[], p_are_spread boolean[] DEFAULT NULL::boolean[]) RETURNS TABLE(name text, slot smallint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: claim_new(bigint, queen.queues, integer, bigint[], timestamp with time zone, integer[], integer[], double precision[], boolean, bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.claim_new(p_group_id bigint, p_queue queen.queues, p_level integer, p_partition_ids bigint[], p_since timestamp with time zone, p_left integer[], p_partitions_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_free bigint, p_now timestamp with time zone) RETURNS queen.claim
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: close_given_slots(smallint[], bigint[], text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.close_given_slots(p_slots smallint[], p_epochs bigint[], p_to text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: close_slot(smallint, text, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.close_slot(p_slot smallint, p_to text, p_epoch bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: combine(bigint[], integer[], bytea[], bytea[], bytea[], double precision[], double precision, bigint[], uuid[], int8multirange[], bigint[], bigint[], uuid[], bigint[], bigint[], text[], text[], double precision[], text[], bytea[], double precision[], integer[], bigint[], timestamp with time zone[], timestamp with time zone[], text, integer[], integer[], double precision[], boolean, text, integer, text[], bigint[], bytea[], bytea[], integer[], integer[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.combine(p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_max_delay double precision, p_ids bigint[], p_tokens uuid[], p_offsets int8multirange[], p_ack_partition_ids bigint[], p_nack_ids bigint[], p_nack_tokens uuid[], p_nack_partition_ids bigint[], p_nack_offsets bigint[], p_nack_kinds text[], p_nack_errors text[], p_nack_delays double precision[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[], p_request_ends integer[], p_group_ids bigint[], p_ready_since timestamp with time zone[], p_due_since timestamp with time zone[], p_partition text, p_batches integer[], p_partitions integer[], p_leases double precision[], p_auto boolean, p_due text, p_turn integer, p_producers text[], p_sequences bigint[], p_digests bytea[], p_outcomes bytea[], p_base_producers integer[], p_base_entries integer[]) RETURNS SETOF queen.combined
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET synchronous_commit TO 'on'
    SET lock_timeout TO '50ms'
    AS $$ … $$;


--
-- Name: compare_blocks(bigint[], bigint[], timestamp with time zone[], double precision[], bigint, interval[], smallint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.compare_blocks(p_partition_ids bigint[], p_known_offsets bigint[], p_known_ats timestamp with time zone[], p_known_seconds double precision[], p_gap_bytes bigint, p_windows interval[], p_generations smallint[], p_now timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: complete(bigint[], uuid[], bigint[], bigint[], text[], text[], bytea[], double precision[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.complete(p_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_offsets bigint[], p_kinds text[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[]) RETURNS TABLE(ordinal integer, group_id bigint, due_at timestamp with time zone, due_seconds double precision, is_dead boolean, is_over boolean, code text)
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: configure(text, text, text, jsonb, boolean, bigint, jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.configure(p_name text, p_namespace text, p_task text, p_options jsonb, p_replace boolean, p_version bigint, p_defaults jsonb) RETURNS SETOF queen.queues
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: configure_partition(text, text, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.configure_partition(p_queue text, p_partition text, p_priority integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: copy_homes(text[], smallint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.copy_homes(p_names text[], p_slots smallint[]) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: copy_slot(smallint, text, uuid); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.copy_slot(p_slot smallint, p_to text, p_copier uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: count(bigint, timestamp with time zone, jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.count(p_process bigint, p_minute timestamp with time zone, p_rows jsonb) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: count_of(int8multirange); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.count_of(p_offsets int8multirange) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: count_purge(text, text, boolean, timestamp with time zone, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.count_purge(p_queue text, p_partition text, p_completed boolean, p_before timestamp with time zone, p_most integer) RETURNS TABLE(messages bigint, is_complete boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: cut(bigint, bigint, bigint, integer, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.cut(p_partition_id bigint, p_queue_id bigint, p_end bigint, p_most integer, p_reason text, OUT messages bigint, OUT segments integer) RETURNS record
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: decide_shares(bigint, jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.decide_shares(p_group_id bigint, p_reports jsonb) RETURNS TABLE(database text, revision bigint, rate_share integer, concurrency_share integer)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: dedup_class(double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.dedup_class(p_seconds double precision) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: dedup_generation(integer, timestamp with time zone, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.dedup_generation(p_class integer, p_at timestamp with time zone, p_back integer) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: dedup_generations(bigint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.dedup_generations(p_partition_ids bigint[], p_now timestamp with time zone) RETURNS smallint[]
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: dedup_key(bigint, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.dedup_key(p_partition_id bigint, p_transaction_id text) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: dedup_length(integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.dedup_length(p_class integer) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: dedup_windows(bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.dedup_windows(p_partition_ids bigint[]) RETURNS interval[]
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: default_options(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.default_options() RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: defer(bigint[], uuid[], double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.defer(p_ids bigint[], p_tokens uuid[], p_seconds double precision) RETURNS TABLE(ordinal integer, group_id bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: definition(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.definition(p_queue_id bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: definition_digest(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.definition_digest(p_queue_id bigint) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    AS $$ … $$;


--
-- Name: delete_group(text, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.delete_group(p_queue text, p_group text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: delete_queue(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.delete_queue(p_queue text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: delete_workflow(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.delete_workflow(p_id text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: delivery_id(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.delivery_id(p_partition_id bigint) RETURNS bigint
    LANGUAGE sql
    AS $$ … $$;


--
-- Name: drop_archive(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.drop_archive(p_name text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: drop_expired(queen.deliveries, int8multirange); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.drop_expired(p_delivery queen.deliveries, p_dead int8multirange) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: drop_steps(text, text[], integer[], uuid[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.drop_steps(p_id text, p_steps text[], p_parts integer[], p_tokens uuid[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: due_deliveries(bigint, boolean, integer, bigint[], timestamp with time zone, timestamp with time zone, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.due_deliveries(p_group_id bigint, p_is_spread boolean, p_level integer, p_partition_ids bigint[], p_since timestamp with time zone, p_now timestamp with time zone, p_limit integer) RETURNS SETOF queen.deliveries
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: due_partitions(bigint, text, timestamp with time zone, xid8, integer, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.due_partitions(p_queue_id bigint, p_kind text, p_cut timestamp with time zone, p_before xid8, p_limit integer, p_now timestamp with time zone, OUT partition_ids bigint[], OUT is_over boolean, OUT lag_seconds double precision) RETURNS record
    LANGUAGE plpgsql
    SET enable_sort TO 'off'
    AS $$ … $$;


--
-- Name: due_schedules(bigint, double precision, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.due_schedules(p_holder bigint, p_seconds double precision, p_limit integer) RETURNS TABLE(name text, queue text, partition text, cron text, time_zone text, missed text, message bytea, next_at timestamp with time zone, now timestamp with time zone, wait_seconds double precision)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: end_at(bytea, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.end_at(p_ends bytea, p_index integer) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: end_batch(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.end_batch(p_sequence bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: end_bytes(integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.end_bytes(p_end integer) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: end_forwards(text, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.end_forwards(p_queue text, p_sequence bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: end_reservation(text, text, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.end_reservation(p_name text, p_database text, p_until timestamp with time zone) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: end_workflow(queen.workflows, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.end_workflow(p_run queen.workflows, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: ends_of(bytea[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.ends_of(p_values bytea[]) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: enqueue(text, json, text, text, double precision, timestamp with time zone, double precision, integer, json, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.enqueue(queue text, payload json, partition text DEFAULT 'Default'::text, transaction_id text DEFAULT NULL::text, delay_seconds double precision DEFAULT NULL::double precision, available_at timestamp with time zone DEFAULT NULL::timestamp with time zone, ttl_seconds double precision DEFAULT NULL::double precision, priority integer DEFAULT NULL::integer, headers json DEFAULT NULL::json, trace_id text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: enqueue_step(queen.workflows, queen.workflow_steps, json, json, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.enqueue_step(p_run queen.workflows, p_step queen.workflow_steps, p_ours json, p_item json, p_part integer) RETURNS bigint
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: enter(bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.enter(p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: enter_all_partitions(queen.queues, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.enter_all_partitions(p_queue queen.queues, p_partition text) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: enter_named(text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.enter_named(p_queues text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: enter_partitions(bigint, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.enter_partitions(p_queue_id bigint, p_partition text) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: enter_queue(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.enter_queue(p_queue_id bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: enter_spread(queen.queues); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.enter_spread(p_queue queen.queues) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: erase(integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.erase(p_limit integer) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: erase_history(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.erase_history(p_queue_id bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: erase_messages(bigint, bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.erase_messages(p_queue_id bigint, p_partition_ids bigint[]) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: erase_places(bigint[], bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.erase_places(p_partition_ids bigint[], p_group_id bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: erase_result(bigint, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.erase_result(p_partition_id bigint, p_transaction_id text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: evict(bigint, bigint, integer, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.evict(p_epoch bigint, p_queue_id bigint, p_limit integer, p_messages integer) RETURNS TABLE(partitions integer, messages bigint, group_ids bigint[], counts bigint[], is_kept boolean, is_over boolean, lag_seconds double precision)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: evict_pair(queen.queues, bigint, bigint, bigint, timestamp with time zone, bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.evict_pair(p_queue queen.queues, p_partition_id bigint, p_group_id bigint, p_claimed bigint, p_stale timestamp with time zone, p_messages bigint, p_bytes bigint, p_now timestamp with time zone, OUT messages bigint, OUT bytes bigint, OUT has_more boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: expired_of(queen.deliveries, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.expired_of(p_delivery queen.deliveries, p_now timestamp with time zone) RETURNS int8multirange
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: extend(bigint[], uuid[], double precision[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.extend(p_ids bigint[], p_tokens uuid[], p_seconds double precision[]) RETURNS TABLE(ordinal integer, until timestamp with time zone, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: extra_at(bytea, integer, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.extra_at(p_extras bytea, p_count integer, p_index integer) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: fail(queen.deliveries, queen.queues, bigint, text, text, double precision, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.fail(p_delivery queen.deliveries, p_queue queen.queues, p_offset bigint, p_kind text, p_error text, p_delay double precision, p_from timestamp with time zone, p_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: fail_step(text, text, integer, uuid, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.fail_step(p_id text, p_step text, p_part integer, p_token uuid, p_error text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: fill(bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.fill(p_group_id bigint, p_limit integer) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: find_deliveries(text[], bigint[], uuid[], bigint[], text[], bigint[], bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.find_deliveries(p_groups text[], p_delivery_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_transaction_ids text[], p_place_ids bigint[], p_place_offsets bigint[]) RETURNS TABLE(ordinal integer, id bigint, token uuid, partition_id bigint, "offset" bigint, is_settled boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: find_delivery(text, bigint, uuid, bigint, text, bigint, bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.find_delivery(p_group text, p_delivery_id bigint, p_token uuid, p_partition_id bigint, p_transaction_id text, p_place_id bigint, p_place_offset bigint, p_most integer) RETURNS TABLE(id bigint, token uuid, partition_id bigint, "offset" bigint, is_settled boolean)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: find_message(bigint, text, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.find_message(p_partition_id bigint, p_transaction_id text, p_most integer) RETURNS TABLE("offset" bigint, scheduled_id bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: find_named(bigint[], uuid[], bigint[], text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.find_named(p_delivery_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_transaction_ids text[]) RETURNS TABLE(ordinal integer, id bigint, token uuid, partition_id bigint, "offset" bigint)
    LANGUAGE plpgsql STABLE
    SET enable_hashjoin TO 'on'
    AS $$ … $$;


--
-- Name: find_place(bigint, text, text, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.find_place(p_queue_id bigint, p_partition text, p_transaction_id text, p_most integer) RETURNS TABLE(partition_id bigint, "offset" bigint, scheduled_id bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: find_results(bigint[], text[], bigint[], bigint[], text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.find_results(p_queue_ids bigint[], p_transaction_ids text[], p_partition_ids bigint[], p_offsets bigint[], p_group text) RETURNS TABLE(ordinal integer, partition_id bigint, "offset" bigint, status text, attempts integer, until timestamp with time zone, error text, dead_letter_id bigint, settled_at timestamp with time zone, result bytea, progress bytea)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: fire(text[], timestamp with time zone[], timestamp with time zone[], timestamp with time zone[], bigint[], integer[], bytea[], bytea[], bytea[], double precision[], bytea, integer[], integer[], integer[], text[], bigint[], bigint[], double precision[], timestamp with time zone[], bytea[], bytea[], double precision[], double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.fire(p_names text[], p_ticks timestamp with time zone[], p_lasts timestamp with time zone[], p_nexts timestamp with time zone[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision) RETURNS TABLE(kind text, ordinal integer, "offset" bigint, created_at timestamp with time zone, xid bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: first_of(int8multirange, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.first_of(p_offsets int8multirange, p_count bigint) RETURNS int8multirange
    LANGUAGE plpgsql IMMUTABLE
    AS $$ … $$;


--
-- Name: follows_forwards(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.follows_forwards(p_slot smallint) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_audit(bigint, double precision, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_audit(p_epoch bigint, p_seconds double precision, p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_copy(smallint, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_copy(p_slot smallint, p_to text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_counters(bigint, double precision, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_counters(p_epoch bigint, p_seconds double precision, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_generation(bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_generation(p_epoch bigint, p_class integer) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_keys(bytea[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_keys(p_keys bytea[]) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: forget_producers(bigint, double precision, text, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_producers(p_epoch bigint, p_seconds double precision, p_after text, p_limit integer) RETURNS TABLE(looked integer, removed integer, last text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_recalled(double precision, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_recalled(p_seconds double precision, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_removals(bigint, double precision, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_removals(p_epoch bigint, p_seconds double precision, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_results(bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_results(p_epoch bigint, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_rollups(integer, double precision, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_rollups(p_grain_seconds integer, p_seconds double precision, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$ … $$;


--
-- Name: forget_staged(double precision, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_staged(p_seconds double precision, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_traces(bigint, double precision, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_traces(p_epoch bigint, p_seconds double precision, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forget_workflows(bigint, double precision, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forget_workflows(p_epoch bigint, p_seconds double precision, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forward(bigint[], text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forward(p_ids bigint[], p_queues text[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: forward_pushes(text[], text[], text[], double precision[], bigint[], text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.forward_pushes(p_queues text[], p_items text[], p_payloads text[], p_delays double precision[], p_ids bigint[], p_kinds text[]) RETURNS SETOF text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: free(bigint[], bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.free(p_partition_ids bigint[], p_group_ids bigint[]) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: free_shares(bigint, queen.queues, jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.free_shares(p_group_id bigint, p_queue queen.queues, p_reports jsonb, OUT rate bigint, OUT concurrency bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: give_back(bigint[], uuid[], double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.give_back(p_ids bigint[], p_tokens uuid[], p_seconds double precision) RETURNS TABLE(ordinal integer, group_id bigint, code text)
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: give_up(bigint, bigint, text, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.give_up(p_partition_id bigint, p_offset bigint, p_group text, p_error text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: group_figures(bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.group_figures(p_group_id bigint, p_most integer) RETURNS TABLE(lag bigint, oldest_at timestamp with time zone, held bigint, waiting bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: group_of(bigint, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.group_of(p_partition_id bigint, p_group text) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: handed_out(queen.deliveries); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.handed_out(p_delivery queen.deliveries) RETURNS int8multirange
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: has_partition(bigint, text, smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.has_partition(p_queue_id bigint, p_partition text, p_slot smallint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: hashed_slot(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.hashed_slot(p_name text) RETURNS smallint
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: head_ready(bigint, bigint, double precision, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.head_ready(p_partition_id bigint, p_offset bigint, p_seconds double precision, p_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: hindrances(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.hindrances(p_slot smallint) RETURNS TABLE(reason text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: hold(text, text, xid8); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.hold(p_queue text, p_name text, p_xid xid8) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: hold_duty(text, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.hold_duty(p_name text, p_epoch bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: hold_recalled(text, text, double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.hold_recalled(p_queue text, p_name text, p_seconds double precision) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: home_slot(text, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.home_slot(p_name text, p_namespace text) RETURNS smallint
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: is_alive(bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.is_alive(p_partition_id bigint, p_offset bigint, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: is_applied(text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.is_applied(p_kinds text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: is_empty_slot(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.is_empty_slot(p_slot smallint) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: is_first(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.is_first() RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: is_in_log(queen.workflow_steps); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.is_in_log(p_step queen.workflow_steps) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: is_newer(xid, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.is_newer(p_xmin xid, p_since bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ … $$;


--
-- Name: is_over(bigint, uuid); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.is_over(p_id bigint, p_token uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: is_owned(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.is_owned(p_partition_id bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: is_passed(bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.is_passed(p_queue_id bigint, p_partition_id bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: join_databases(smallint, text, text, jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.join_databases(p_number smallint, p_name text, p_first text, p_values jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: join_extras(bytea[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.join_extras(p_extras bytea[]) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: keep(bigint[], bigint[], text[], bytea[], double precision[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.keep(p_partition_ids bigint[], p_offsets bigint[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[]) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: keep_redriven(bigint, bigint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.keep_redriven(p_group_id bigint, p_partition_ids bigint[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: samples; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.samples (
    minute timestamp with time zone NOT NULL,
    queue_id bigint NOT NULL,
    group_id bigint NOT NULL,
    sampled_at timestamp with time zone NOT NULL,
    depth bigint NOT NULL,
    oldest_age_seconds double precision,
    deliveries bigint NOT NULL,
    dead_letters bigint NOT NULL,
    scheduled bigint NOT NULL,
    bytes bigint,
    ready_partitions bigint,
    leased_partitions bigint,
    idle_partitions bigint,
    is_exact boolean NOT NULL,
    mean_bytes double precision
)
WITH (fillfactor='60');


--
-- Name: keep_sample(queen.samples); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.keep_sample(p_sample queen.samples) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: keep_slot(smallint, uuid); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.keep_slot(p_slot smallint, p_copier uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: key_blocks(bigint[], bigint[], bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.key_blocks(p_partition_ids bigint[], p_offsets bigint[], p_most_bytes bigint) RETURNS TABLE(partition_id bigint, seconds double precision, bytes bigint, base_offset bigint, at timestamp with time zone, keys bytea)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: key_in_blocks(bytea, bigint, bigint, smallint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.key_in_blocks(p_key bytea, p_partition_id bigint, p_offset bigint, p_generations smallint[], p_valid_from timestamp with time zone) RETURNS TABLE("offset" bigint, at timestamp with time zone)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: key_in_range(bigint, text, bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.key_in_range(p_partition_id bigint, p_transaction_id text, p_first bigint, p_end bigint) RETURNS TABLE("offset" bigint)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: keys_in_blocks(bytea, integer[], integer[], integer[], bigint[], bigint[], integer[], integer[], bigint[], text[], interval[], smallint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.keys_in_blocks(p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_partition_ids bigint[], p_known_offsets bigint[], p_hits integer[], p_hit_entries integer[], p_hit_offsets bigint[], p_states text[], p_windows interval[], p_generations smallint[], p_now timestamp with time zone) RETURNS TABLE(ordinal integer, "offset" bigint, at timestamp with time zone)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: keys_of(bytea, integer[], integer[], integer[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.keys_of(p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[]) RETURNS TABLE(ordinal integer, key bytea, entry integer, place integer)
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: lag_of(bigint, integer[], integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.lag_of(p_group_id bigint, p_levels integer[], p_most integer) RETURNS TABLE(messages bigint, oldest_at timestamp with time zone, deliveries bigint, is_exact boolean)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: last_pop_at(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.last_pop_at(p_group_id bigint) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: last_request(text, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.last_request(p_producer_id text, p_scope text) RETURNS TABLE(sequence bigint, digest bytea, outcome bytea, bases bigint[], stale integer[])
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: lead_appending(bigint, double precision, boolean); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.lead_appending(p_holder bigint, p_seconds double precision, p_is_awake boolean) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: lead_sampling(bigint, double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.lead_sampling(p_holder bigint, p_seconds double precision) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: leaders_of(text, queen.workflow_steps); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.leaders_of(p_id text, p_step queen.workflow_steps) RETURNS TABLE(name text, ordinal integer, result json, error text)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: leave_slot(smallint, text, uuid); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.leave_slot(p_slot smallint, p_to text, p_copier uuid) RETURNS TABLE(epoch bigint, partition_id bigint, delivery_id bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: leave_slots(smallint[], text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.leave_slots(p_slots smallint[], p_to text) RETURNS SETOF smallint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: levels_by_turn(integer[], integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.levels_by_turn(p_levels integer[], p_turn integer) RETURNS integer[]
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: list_database(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.list_database(p_name text) RETURNS smallint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: live_leases(bigint, boolean, timestamp with time zone, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.live_leases(p_group_id bigint, p_is_spread boolean, p_now timestamp with time zone, p_most bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: lock_consumers(bigint[], uuid[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.lock_consumers(p_ids bigint[], p_tokens uuid[]) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: lock_forwards(text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.lock_forwards(p_queues text[]) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: lock_limit(bigint, queen.queues, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.lock_limit(p_group_id bigint, p_queue queen.queues, p_now timestamp with time zone) RETURNS TABLE(version bigint, rate_max integer, budget bigint, free bigint, opens_at timestamp with time zone)
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: lock_slot(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.lock_slot(p_slot smallint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: log_start(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.log_start(p_partition_id bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: look_again(bigint, text, bigint[], bigint[], bigint[], double precision, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.look_again(p_queue_id bigint, p_kind text, p_ids bigint[], p_locked bigint[], p_lagging bigint[], p_again double precision, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: loss_of(queen.workflow_steps); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.loss_of(p_step queen.workflow_steps) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: mark_rollup(timestamp with time zone, xid8); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.mark_rollup(p_planned_at timestamp with time zone, p_xid xid8) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: may_enter(smallint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.may_enter(p_slots smallint[]) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: may_enter_queue(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.may_enter_queue(p_queue_id bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: mean_bytes(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.mean_bytes(p_queue_id bigint) RETURNS double precision
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: message_at(queen.deliveries, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.message_at(p_delivery queen.deliveries, p_offset bigint) RETURNS TABLE(payload bytea, extras bytea, created_at timestamp with time zone)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: microseconds(timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.microseconds(p_at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE
    AS $$ … $$;


--
-- Name: move_up(bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.move_up(p_partition_id bigint, p_end bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: moved_queues(text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.moved_queues(p_names text[]) RETURNS SETOF text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: nack(bigint[], uuid[], bigint[], bigint[], text[], text[], double precision[], text[], bytea[], double precision[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.nack(p_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_offsets bigint[], p_kinds text[], p_errors text[], p_delays double precision[], p_transaction_ids text[] DEFAULT NULL::text[], p_results bytea[] DEFAULT NULL::bytea[], p_seconds double precision[] DEFAULT NULL::double precision[]) RETURNS TABLE(ordinal integer, group_id bigint, due_at timestamp with time zone, due_seconds double precision, is_dead boolean, is_over boolean, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: named_messages(bigint, int8multirange, bytea, bytea); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.named_messages(p_partition_id bigint, p_pending int8multirange, p_payload bytea, p_extras bytea) RETURNS TABLE("offset" bigint, transaction_id text)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: named_producers(text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.named_producers(p_producers text[]) RETURNS TABLE(ordinal bigint, producer_id text, scope text, scopes text[])
    LANGUAGE sql STABLE ROWS 10
    AS $$ … $$;


--
-- Name: new_queue(text, text, jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.new_queue(p_name text, p_namespace text, p_defaults jsonb) RETURNS queen.queues
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: next_at(bigint, queen.queues, bigint[], timestamp with time zone, timestamp with time zone, boolean, boolean, bigint, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.next_at(p_group_id bigint, p_queue queen.queues, p_partition_ids bigint[], p_since timestamp with time zone, p_due_since timestamp with time zone, p_due boolean, p_fresh boolean, p_free bigint, p_opens_at timestamp with time zone, p_now timestamp with time zone) RETURNS double precision
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: next_offsets(bigint[], integer[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.next_offsets(p_partition_ids bigint[], p_counts integer[]) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: note_definition(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.note_definition(p_queue_id bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: note_group(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.note_group() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: note_queue(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.note_queue() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: note_reports(bigint, jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.note_reports(p_group_id bigint, p_reports jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: note_rewrites(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.note_rewrites() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: now(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.now() RETURNS timestamp with time zone
    LANGUAGE sql
    AS $$ … $$;


--
-- Name: offset_after(bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.offset_after(p_partition_id bigint, p_at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: offsets_of_key(bigint, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.offsets_of_key(p_partition_id bigint, p_transaction_id text) RETURNS TABLE("offset" bigint, at timestamp with time zone)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: open_archive(text, text, text, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.open_archive(p_name text, p_queue text, p_format text, p_location text) RETURNS TABLE(queue_id bigint, archive_queue_id bigint, format text, location text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: open_of(queen.deliveries, int8multirange); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.open_of(p_delivery queen.deliveries, p_offsets int8multirange) RETURNS int8multirange
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: open_queues(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.open_queues(p_id text) RETURNS text[]
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: limits; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.limits (
    group_id bigint NOT NULL,
    version bigint NOT NULL,
    recent bigint[] NOT NULL,
    rate_share integer,
    concurrency_share integer,
    share_revision bigint DEFAULT 0 NOT NULL,
    moved_leases integer DEFAULT 0 NOT NULL
);


--
-- Name: own_share(queen.queues, queen.limits, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.own_share(p_queue queen.queues, p_limit queen.limits, p_now timestamp with time zone, OUT rate integer, OUT concurrency integer) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: own_slot(smallint, uuid, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.own_slot(p_slot smallint, p_copier uuid, p_epoch bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: own_slots(smallint[], bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.own_slots(p_slots smallint[], p_epochs bigint[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: owns_slot(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.owns_slot(p_slot smallint) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: partition_id(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.partition_id(p_slot smallint) RETURNS bigint
    LANGUAGE sql
    AS $$ … $$;


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
    AS $$ … $$;


--
-- Name: partition_slot(bigint, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.partition_slot(p_queue_id bigint, p_partition text) RETURNS smallint
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: partition_states(bigint, integer[], integer, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.partition_states(p_queue_id bigint, p_levels integer[], p_most integer, p_now timestamp with time zone) RETURNS TABLE(ready bigint, leased bigint, idle bigint)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: pass(tid[], bigint[], bigint, queen.queues); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.pass(p_ctids tid[], p_partition_ids bigint[], p_group_id bigint, p_queue queen.queues, OUT expired bigint, OUT evicted bigint, OUT unkept bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: pass_ids(bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.pass_ids(p_partition_id bigint, p_delivery_id bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: pass_over(bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.pass_over(p_partition_id bigint, p_end bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: passable(bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.passable(p_partition_id bigint, p_end bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: payload_at(bytea, bytea, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.payload_at(p_body bytea, p_ends bytea, p_index integer) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: plan_archive(text, xid8); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.plan_archive(p_name text, p_end xid8) RETURNS TABLE(batch bigint, token bigint, start_xid bigint, end_xid bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: plan_batch(bigint, xid8, bigint, bigint, xid8, bigint, bigint, boolean); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.plan_batch(p_queue_id bigint, p_xid xid8, p_partition_id bigint, p_offset bigint, p_end xid8, p_max_messages bigint DEFAULT NULL::bigint, p_max_bytes bigint DEFAULT NULL::bigint, p_is_whole boolean DEFAULT false) RETURNS TABLE(xid xid8, partition_id bigint, end_offset bigint, stored_at timestamp with time zone, is_split boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$ … $$;


--
-- Name: plan_births(bigint, integer, xid8, xid8, bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.plan_births(p_queue_id bigint, p_birthplace integer, p_start xid8, p_end xid8, p_max_messages bigint, p_max_bytes bigint) RETURNS TABLE(xid xid8, partition_id bigint, end_offset bigint, stored_at timestamp with time zone, is_over boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$ … $$;


--
-- Name: plan_rollup(timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.plan_rollup(p_since timestamp with time zone) RETURNS TABLE(start_at timestamp with time zone, end_at timestamp with time zone, start_xid bigint, end_xid bigint, late timestamp with time zone[], planned_at timestamp with time zone)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$ … $$;


--
-- Name: pop(bigint[], timestamp with time zone[], timestamp with time zone[], text, integer[], integer[], double precision[], boolean, text, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.pop(p_group_ids bigint[], p_ready_since timestamp with time zone[], p_due_since timestamp with time zone[], p_partition text, p_batches integer[], p_partitions integer[], p_leases double precision[], p_auto boolean, p_due text, p_turn integer) RETURNS SETOF queen.popped
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: postpone(bigint, bigint[], tid[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.postpone(p_group_id bigint, p_partition_ids bigint[], p_ctids tid[], p_now timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: promote(bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.promote(p_queue_id bigint, p_limit integer, OUT promoted bigint, OUT expired bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: promote_due(bigint, bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.promote_due(p_epoch bigint, p_after bigint, p_limit integer) RETURNS TABLE(queue_id bigint, messages bigint, lag_seconds double precision)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: publish(text, bigint, bigint, uuid[], integer[], text, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.publish(p_app_id text, p_queue_id bigint, p_version bigint, p_writes uuid[], p_entries integer[], p_query_id text, p_fingerprint text, OUT outcome text, OUT messages bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$ … $$;


--
-- Name: pulse(text, text, integer, text, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.pulse(p_id text, p_host text, p_pid integer, p_version text, p_waiters integer) RETURNS TABLE(is_push_off boolean, is_pop_off boolean, redaction bigint, has_orphans boolean)
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: pulse_v2(text, text, integer, text, integer, text, text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.pulse_v2(p_id text, p_host text, p_pid integer, p_version text, p_waiters integer, p_address text, p_preferred text[]) RETURNS TABLE(is_push_off boolean, is_pop_off boolean, redaction bigint, has_orphans boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: purge(text, text, boolean, timestamp with time zone, bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.purge(p_queue text, p_partition text, p_completed boolean, p_before timestamp with time zone, p_after bigint, p_limit integer) RETURNS TABLE(partition_id bigint, messages bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: purge_dead_letters(bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.purge_dead_letters(p_ids bigint[]) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: purge_end(bigint, bigint, boolean, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.purge_end(p_partition_id bigint, p_queue_id bigint, p_completed boolean, p_before timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: push(bigint[], integer[], bytea[], bytea[], bytea[], double precision[], bytea, integer[], integer[], integer[], text[], bigint[], bigint[], double precision[], timestamp with time zone[], bytea[], bytea[], double precision[], double precision, bigint[], timestamp with time zone[], double precision[], boolean[], integer[], integer[], bigint[], bigint, bytea[], bytea[], integer[], integer[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.push(p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea DEFAULT NULL::bytea, p_key_entries integer[] DEFAULT NULL::integer[], p_key_places integer[] DEFAULT NULL::integer[], p_key_counts integer[] DEFAULT NULL::integer[], p_producers text[] DEFAULT NULL::text[], p_sequences bigint[] DEFAULT NULL::bigint[], p_scheduled_partition_ids bigint[] DEFAULT NULL::bigint[], p_scheduled_delays double precision[] DEFAULT NULL::double precision[], p_scheduled_dues timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], p_scheduled_payloads bytea[] DEFAULT NULL::bytea[], p_scheduled_extras bytea[] DEFAULT NULL::bytea[], p_scheduled_ttls double precision[] DEFAULT NULL::double precision[], p_max_delay double precision DEFAULT NULL::double precision, p_known_offsets bigint[] DEFAULT NULL::bigint[], p_known_ats timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], p_known_seconds double precision[] DEFAULT NULL::double precision[], p_in_blocks boolean[] DEFAULT NULL::boolean[], p_hits integer[] DEFAULT NULL::integer[], p_hit_entries integer[] DEFAULT NULL::integer[], p_hit_offsets bigint[] DEFAULT NULL::bigint[], p_gap_bytes bigint DEFAULT 0, p_digests bytea[] DEFAULT NULL::bytea[], p_outcomes bytea[] DEFAULT NULL::bytea[], p_base_producers integer[] DEFAULT NULL::integer[], p_base_entries integer[] DEFAULT NULL::integer[]) RETURNS TABLE(kind text, ordinal integer, "offset" bigint, created_at timestamp with time zone, xid bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: push_keys(bytea, integer[], integer[], integer[], bigint[], integer[], timestamp with time zone, bigint[], boolean[], integer[], integer[], bigint[], text[], interval[], smallint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.push_keys(p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_partition_ids bigint[], p_counts integer[], p_now timestamp with time zone, p_known_offsets bigint[], p_in_blocks boolean[], p_hits integer[], p_hit_entries integer[], p_hit_offsets bigint[], p_states text[], p_windows interval[], p_generations smallint[]) RETURNS TABLE(kind text, ordinal integer, "offset" bigint, created_at timestamp with time zone, xid bigint, code text)
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: queue_figures(bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.queue_figures(p_queue_id bigint, p_most integer) RETURNS TABLE(partitions bigint, groups bigint, pending bigint, oldest_at timestamp with time zone, held bigint, waiting bigint, scheduled bigint, dead_letters bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: queue_named(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.queue_named(p_queue text) RETURNS queen.queues
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: queue_rates(bigint, double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.queue_rates(p_queue_id bigint, p_seconds double precision) RETURNS TABLE(pushed_per_second double precision, popped_per_second double precision)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: rate_opens_at(bigint[], integer, integer, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.rate_opens_at(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql IMMUTABLE
    AS $$ … $$;


--
-- Name: ready_groups(bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.ready_groups(p_group_ids bigint[]) RETURNS TABLE(group_id bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: recall(uuid, bigint, bigint[], bigint[], bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.recall(p_recall_id uuid, p_queue_id bigint, p_partition_ids bigint[], p_starts bigint[], p_counts bigint[], OUT messages bigint, OUT is_changed boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$ … $$;


--
-- Name: recall_partition(uuid, bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.recall_partition(p_recall_id uuid, p_queue_id bigint, p_partition_id bigint, p_start bigint, p_count bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: receive_leases(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.receive_leases(p_slot smallint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: receive_slot(smallint, text, uuid); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.receive_slot(p_slot smallint, p_source text, p_copier uuid) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: recent_of(bigint[], bigint, bigint, queen.queues); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.recent_of(p_recent bigint[], p_partition_id bigint, p_group_id bigint, p_queue queen.queues) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: record_move(smallint, bigint, integer, xid8); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.record_move(p_slot smallint, p_epoch bigint, p_source integer, p_fence xid8) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: record_outcomes(text[], bigint[], bytea[], bytea[], integer[], integer[], text[], integer[], bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.record_outcomes(p_producers text[], p_sequences bigint[], p_digests bytea[], p_outcomes bytea[], p_base_producers integer[], p_base_entries integer[], p_kinds text[], p_ordinals integer[], p_offsets bigint[]) RETURNS SETOF text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: record_owner(smallint, text, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.record_owner(p_slot smallint, p_owner text, p_epoch bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: record_producers(text[], bigint[], timestamp with time zone, bytea[], bytea[], integer[], integer[], bigint[], integer[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.record_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone, p_digests bytea[] DEFAULT NULL::bytea[], p_outcomes bytea[] DEFAULT NULL::bytea[], p_base_producers integer[] DEFAULT NULL::integer[], p_base_entries integer[] DEFAULT NULL::integer[], p_offsets bigint[] DEFAULT NULL::bigint[], p_stale integer[] DEFAULT NULL::integer[]) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: record_rows(bigint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.record_rows(p_partition_ids bigint[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: redact(bigint, bigint, bigint, integer, bytea, bytea, bytea, bytea, bytea, bytea, bytea, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.redact(p_partition_id bigint, p_offset bigint, p_base_offset bigint, p_count integer, p_extra bytea, p_before_body bytea, p_before_ends bytea, p_before_extras bytea, p_after_body bytea, p_after_ends bytea, p_after_extras bytea, p_by text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: redrive(bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.redrive(p_ids bigint[]) RETURNS TABLE(id bigint, group_id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: redrive_to(bigint[], bytea[], bytea[], bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.redrive_to(p_ids bigint[], p_payloads bytea[], p_extras bytea[], p_partition_id bigint) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: reduce_parts(text, text, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.reduce_parts(p_id text, p_step text, p_failed integer, OUT state text, OUT result json, OUT error text) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: refusal_of(text, json); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.refusal_of(p_signal text, p_data json) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $_$
  select case
    when coalesce(p_data::text, 'null') = 'null' then 'signal ' || p_signal || ' said so'
    when p_data::text ~ '^"[^"\\]*"$' then btrim(p_data::text, '"')
    else p_data::text
  end
$_$;


--
-- Name: refuse_batch(bigint, bigint[], text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.refuse_batch(p_sequence bigint, p_ids bigint[], p_errors text[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: refuse_forwards(text, bigint, bigint[], text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.refuse_forwards(p_queue text, p_sequence bigint, p_ids bigint[], p_errors text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: release(bigint[], uuid[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.release(p_ids bigint[], p_tokens uuid[]) RETURNS TABLE(ordinal integer, group_id bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: remove_database(text, boolean); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.remove_database(p_name text, p_is_removed boolean) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: remove_partitions(bigint, bigint, double precision, timestamp with time zone, bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.remove_partitions(p_epoch bigint, p_queue_id bigint, p_seconds double precision, p_after_at timestamp with time zone, p_after_id bigint, p_limit integer) RETURNS TABLE(removed integer, after_at timestamp with time zone, after_id bigint, is_over boolean, lag_seconds double precision)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: remove_workflows(text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.remove_workflows(p_ids text[]) RETURNS integer
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: renumber(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.renumber() RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: report_duty(text, bigint, double precision, bigint, double precision, text, jsonb, double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.report_duty(p_name text, p_epoch bigint, p_seconds double precision, p_rows bigint, p_lag double precision, p_error text, p_cursor jsonb, p_wait double precision) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: report_progress(bigint, uuid, text, bigint, bigint, bytea, double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.report_progress(p_id bigint, p_token uuid, p_transaction_id text, p_partition_id bigint, p_offset bigint, p_progress bytea, p_seconds double precision) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: reserve(text, text, double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.reserve(p_name text, p_database text, p_seconds double precision) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: reserve_pin(text, text, smallint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.reserve_pin(p_queue text, p_partition text, p_slots smallint[]) RETURNS TABLE(queue_id bigint, slot smallint, is_ready boolean, revision bigint, is_new boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: reset_steps(text, text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.reset_steps(p_id text, p_names text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: retain(bigint, bigint, text, integer, double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.retain(p_epoch bigint, p_queue_id bigint, p_kind text, p_limit integer, p_again double precision) RETURNS TABLE(partitions integer, messages bigint, is_over boolean, lag_seconds double precision)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: retry(bigint, bigint, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.retry(p_partition_id bigint, p_offset bigint, p_group text) RETURNS TABLE(group_id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: retry_workflow(text, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.retry_workflow(p_id text, p_from text, OUT has_ended boolean) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: roll_up(jsonb); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.roll_up(p_rows jsonb) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: runs_of(bigint, queen.claim); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.runs_of(p_group_id bigint, p_claim queen.claim) RETURNS SETOF queen.popped
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: sample(bigint, integer, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.sample(p_after bigint, p_limit integer, p_most integer) RETURNS TABLE(queue_id bigint, group_id bigint, queue text, "group" text, paused boolean, depth bigint, oldest_age_seconds double precision, deliveries bigint, dead_letters bigint, scheduled bigint, bytes bigint, ready_partitions bigint, leased_partitions bigint, idle_partitions bigint, is_exact boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$ … $$;


--
-- Name: see_to_steps(bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.see_to_steps(p_epoch bigint, p_limit integer) RETURNS TABLE(looked integer, ended text[])
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: see_to_workflow(text, integer, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.see_to_workflow(p_id text, p_limit integer, p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: seek(text, text, text, timestamp with time zone, bigint, bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.seek(p_queue text, p_group text, p_partition text, p_at timestamp with time zone, p_offset bigint, p_after bigint, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: sees(text, text, text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.sees(p_queue text, p_namespace text, p_patterns text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$ … $$;


--
-- Name: send_leases(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.send_leases(p_slot smallint) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


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
-- Name: set_aside(queen.consumers, bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.set_aside(p_consumer queen.consumers, p_offset bigint, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: settle(bigint, uuid, int8multirange, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.settle(p_id bigint, p_token uuid, p_offsets int8multirange, p_partition_id bigint) RETURNS TABLE(group_id bigint, settled bigint, refused int8multirange, is_over boolean, code text)
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: settle_change(queen.queues, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.settle_change(p_queue queen.queues, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: settle_steps(text, text[], text[], text[], json[], text[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.settle_steps(p_id text, p_candidates text[], p_names text[], p_states text[], p_results json[], p_errors text[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: settled_to(bigint, bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.settled_to(p_partition_id bigint, p_queue_id bigint, p_end bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: share_reports(bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.share_reports(p_group_ids bigint[]) RETURNS TABLE(group_id bigint, revision bigint, rate_limit integer, rate_share integer, rate_reserved bigint, rate_used bigint, concurrency_limit integer, concurrency_share integer, concurrency_reserved bigint, concurrency_used bigint, moved_leases integer, is_ready boolean, has_slots boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: shared_sequences(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.shared_sequences() RETURNS TABLE(name regclass, last_value bigint)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: shorten(bigint[], uuid[], bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.shorten(p_ids bigint[], p_tokens uuid[], p_ends bigint[]) RETURNS TABLE(ordinal integer, group_id bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: shorten_waits(queen.queues, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.shorten_waits(p_queue queen.queues, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: shrink(queen.deliveries, int8multirange); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.shrink(p_delivery queen.deliveries, p_done int8multirange) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: signal_workflow(text, text, text, json); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.signal_workflow(p_id text, p_signal text, p_outcome text, p_data json, OUT steps integer, OUT taken integer, OUT has_ended boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: slot_of(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.slot_of(p_name text) RETURNS smallint
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: slots_of_names(text[], text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.slots_of_names(p_queues text[], p_partitions text[]) RETURNS smallint[]
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: spend(bigint[], integer, timestamp with time zone, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.spend(p_recent bigint[], p_ms integer, p_now timestamp with time zone, p_count bigint) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE
    AS $$ … $$;


--
-- Name: split_batch(bigint, xid8, bigint, bigint, xid8, bigint, bigint, integer, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.split_batch(p_queue_id bigint, p_xid xid8, p_partition_id bigint, p_offset bigint, p_end xid8, p_end_partition_id bigint, p_end_offset bigint, p_tasks integer, p_least bigint) RETURNS TABLE(xid xid8, partition_id bigint, base_offset bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$ … $$;


--
-- Name: spread_in(integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.spread_in(p_slot integer) RETURNS SETOF bigint
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: stale_before(queen.queues, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.stale_before(p_queue queen.queues, p_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql IMMUTABLE
    AS $$ … $$;


--
-- Name: start_workflow(text, text, bytea, json, text, text[], json, text, json, text[], text[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.start_workflow(p_id text, p_name text, p_digest bytea, p_metadata json, p_correlation_id text, p_tags text[], p_headers json, p_trace_id text, p_steps json, p_templates text[], p_items text[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: state_of(bigint, bigint, bigint, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.state_of(p_queue_id bigint, p_partition_id bigint, p_offset bigint, p_group text) RETURNS TABLE(status text, attempts integer, until timestamp with time zone, error text, dead_letter_id bigint, failed_at timestamp with time zone)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: stored_at(bigint, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.stored_at(p_partition_id bigint, p_offset bigint) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: stored_in(bigint, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.stored_in(p_queue_id bigint, p_most integer) RETURNS TABLE(messages bigint, oldest_at timestamp with time zone, is_exact boolean)
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: subscribe(text, text, text, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.subscribe(p_queue text, p_group text, p_mode text, p_from timestamp with time zone) RETURNS TABLE(queue_id bigint, group_id bigint, is_filled boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: take_batch(bigint, integer, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.take_batch(p_first_xid bigint, p_limit integer, p_bytes bigint) RETURNS TABLE(producer_id text, sequence bigint, is_again boolean, id bigint, item text, payload text, open_xid bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: take_data_key(bigint, bigint, bigint, integer, text, bytea); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.take_data_key(p_queue_id bigint, p_uses bigint, p_max_uses bigint, p_id integer, p_master_id text, p_wrapped bytea) RETURNS TABLE(id integer, master_id text, wrapped bytea, seconds double precision)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: take_duties(bigint, text[], double precision); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.take_duties(p_holder bigint, p_names text[], p_seconds double precision) RETURNS TABLE(name text, epoch bigint, cursor jsonb)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: take_forwards(text, bigint, double precision, integer, bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.take_forwards(p_queue text, p_holder bigint, p_seconds double precision, p_limit integer, p_bytes bigint) RETURNS TABLE(producer_id text, sequence bigint, outbox_id bigint, item text, payload text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: transact(bigint[], uuid[], bigint[], bigint[], text[], text[], double precision[], bigint[], uuid[], bigint[], integer[], bytea[], bytea[], bytea[], double precision[], bytea, integer[], integer[], integer[], text[], bigint[], bigint[], double precision[], timestamp with time zone[], bytea[], bytea[], double precision[], double precision, text[], bytea[], double precision[], text[], text[], integer[], uuid[], text[], text[], text[], integer[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.transact(p_nack_ids bigint[], p_nack_tokens uuid[], p_nack_partition_ids bigint[], p_nack_offsets bigint[], p_nack_kinds text[], p_nack_errors text[], p_nack_delays double precision[], p_lease_ids bigint[], p_lease_tokens uuid[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision, p_transaction_ids text[], p_results bytea[], p_seconds double precision[], p_workflows text[], p_steps text[], p_parts integer[], p_step_tokens uuid[], p_outcomes text[], p_step_results text[], p_step_errors text[], p_step_attempts integer[]) RETURNS TABLE(kind text, ordinal integer, "offset" bigint, created_at timestamp with time zone, xid bigint, code text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: trim_start(bigint, queen.queues, text, timestamp with time zone, xid8, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.trim_start(p_partition_id bigint, p_queue queen.queues, p_kind text, p_cut timestamp with time zone, p_hold xid8, p_most integer, OUT messages bigint, OUT segments integer, OUT is_lagging boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: unhold(text, text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.unhold(p_queue text, p_name text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: unlist_database(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.unlist_database(p_name text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: unpack_blocks(bigint[], smallint[], timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.unpack_blocks(p_partition_ids bigint[], p_generations smallint[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$ … $$;


--
-- Name: unpark(bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.unpark(p_partition_id bigint, p_group_id bigint, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE sql
    AS $$ … $$;


--
-- Name: waits_for_room(bigint[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.waits_for_room(p_group_ids bigint[]) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: wake_slot(smallint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.wake_slot(p_slot smallint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ … $$;


--
-- Name: wants_more(integer[], integer[]); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.wants_more(p_left integer[], p_partitions_left integer[]) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    AS $$ … $$;


--
-- Name: warm(); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.warm() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: whole_queue_named(text); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.whole_queue_named(p_queue text) RETURNS queen.queues
    LANGUAGE plpgsql STABLE
    AS $$ … $$;


--
-- Name: withdraw(bigint); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.withdraw(p_scheduled_id bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: work_figures(bigint, text, integer); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.work_figures(p_queue_id bigint, p_group text, p_most integer) RETURNS TABLE(waiting bigint, active bigint, delayed bigint, stalled bigint, dead bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ … $$;


--
-- Name: xid_at(bigint, timestamp with time zone, boolean); Type: FUNCTION; Schema: queen; Owner: -
--

CREATE FUNCTION queen.xid_at(p_queue_id bigint, p_at timestamp with time zone, p_is_start boolean DEFAULT true) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$ … $$;


--
-- Name: allowances; Type: TABLE; Schema: queen; Owner: -
--

CREATE UNLOGGED TABLE queen.allowances (
    key_id text NOT NULL,
    requests double precision NOT NULL,
    at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');


--
-- Name: appender; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.appender (
    is_only boolean DEFAULT true NOT NULL,
    holder bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    is_awake boolean NOT NULL,
    CONSTRAINT there_is_one_appender CHECK (is_only)
);


--
-- Name: archive_batches; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.archive_batches (
    archive text NOT NULL,
    batch bigint NOT NULL,
    token bigint NOT NULL,
    start_xid xid8 NOT NULL,
    end_xid xid8 NOT NULL,
    state text DEFAULT 'planned'::text NOT NULL,
    files bigint,
    messages bigint,
    bytes bigint,
    planned_at timestamp with time zone NOT NULL,
    archived_at timestamp with time zone,
    missed_messages bigint DEFAULT 0 NOT NULL,
    missed jsonb,
    misfit_messages bigint DEFAULT 0 NOT NULL,
    CONSTRAINT batches_are_not_empty CHECK ((end_xid > start_xid)),
    CONSTRAINT batches_are_planned_or_archived CHECK ((((state = 'planned'::text) AND (archived_at IS NULL)) OR ((state = 'archived'::text) AND (num_nulls(archived_at, files, messages, bytes) = 0))))
);


--
-- Name: archives; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.archives (
    name text NOT NULL,
    queue_id bigint NOT NULL,
    format text NOT NULL,
    location text NOT NULL,
    xid xid8 DEFAULT '0'::xid8 NOT NULL,
    batch bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    since_xid xid8 DEFAULT '0'::xid8 NOT NULL,
    missed_messages bigint DEFAULT 0 NOT NULL,
    misfit_messages bigint DEFAULT 0 NOT NULL,
    CONSTRAINT format_is_known CHECK ((format = ANY (ARRAY['iceberg'::text, 'delta'::text, 'parquet'::text])))
)
WITH (fillfactor='50');


--
-- Name: arrivals; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.arrivals (
    slot smallint NOT NULL,
    source text NOT NULL,
    copier uuid NOT NULL,
    copied bigint DEFAULT '-1'::integer NOT NULL,
    since bigint DEFAULT 0 NOT NULL,
    copied_bytes bigint DEFAULT 0 NOT NULL,
    total_bytes bigint
);


--
-- Name: audit; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.audit (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    queue text,
    record text NOT NULL,
    hash bytea NOT NULL
);


--
-- Name: audit_end; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.audit_end (
    id bigint NOT NULL,
    hash bytea NOT NULL
);


--
-- Name: audit_start; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.audit_start (
    id bigint NOT NULL,
    hash bytea NOT NULL
);


--
-- Name: databases; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.databases (
    number smallint NOT NULL,
    name text NOT NULL,
    is_here boolean NOT NULL,
    joined_at timestamp with time zone DEFAULT now() NOT NULL,
    removed_at timestamp with time zone,
    CONSTRAINT databases_are_from_0_to_1023 CHECK (((number >= 0) AND (number <= 1023)))
);


--
-- Name: renumberings; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.renumberings (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL
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
    born_in integer,
    born_xid xid8,
    CONSTRAINT segments_are_not_empty CHECK ((message_count > 0))
);
ALTER TABLE ONLY queen.segments ALTER COLUMN body SET COMPRESSION lz4;
ALTER TABLE ONLY queen.segments ALTER COLUMN ends SET STORAGE MAIN;
ALTER TABLE ONLY queen.segments ALTER COLUMN ends SET COMPRESSION lz4;
ALTER TABLE ONLY queen.segments ALTER COLUMN extras SET COMPRESSION lz4;


--
-- Name: births; Type: VIEW; Schema: queen; Owner: -
--

CREATE VIEW queen.births AS
 SELECT s.queue_id,
    ( SELECT (d.number + (1024 * (( SELECT count(*) AS count
                   FROM queen.renumberings))::integer))
           FROM queen.databases d
          WHERE d.is_here) AS birthplace,
    s.xid,
    s.partition_id,
    s.base_offset,
    s.message_count,
    s.created_at,
    s.expires_at,
    s.body,
    s.ends,
    s.extras
   FROM queen.segments s
  WHERE ((s.body IS NOT NULL) AND (s.born_in IS NULL))
UNION ALL
 SELECT s.queue_id,
    s.born_in AS birthplace,
    s.born_xid AS xid,
    s.partition_id,
    s.base_offset,
    s.message_count,
    s.created_at,
    s.expires_at,
    s.body,
    s.ends,
    s.extras
   FROM queen.segments s
  WHERE ((s.body IS NOT NULL) AND (s.born_in IS NOT NULL));


--
-- Name: counters; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.counters (
    minute timestamp with time zone NOT NULL,
    queue_id bigint NOT NULL,
    group_id bigint NOT NULL,
    process bigint NOT NULL,
    pushed bigint NOT NULL,
    duplicates bigint NOT NULL,
    popped bigint NOT NULL,
    acked bigint NOT NULL,
    nacked bigint NOT NULL,
    dead_lettered bigint NOT NULL,
    expired bigint NOT NULL,
    evicted bigint NOT NULL,
    leases_expired bigint NOT NULL,
    popped_at timestamp with time zone,
    wait_bins smallint[] NOT NULL,
    wait_counts bigint[] NOT NULL,
    processing_bins smallint[] NOT NULL,
    processing_counts bigint[] NOT NULL
)
WITH (fillfactor='60');


--
-- Name: data_key_ids; Type: SEQUENCE; Schema: queen; Owner: -
--

CREATE SEQUENCE queen.data_key_ids
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: data_keys; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.data_keys (
    id integer DEFAULT nextval('queen.data_key_ids'::regclass) NOT NULL,
    queue_id bigint NOT NULL,
    master_id text NOT NULL,
    wrapped bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    uses bigint NOT NULL,
    CONSTRAINT uses_are_not_negative CHECK ((uses >= 0))
);


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
    failed_at timestamp with time zone NOT NULL,
    fingerprint text GENERATED ALWAYS AS (substr(md5(((reason || ':'::text) || regexp_replace(regexp_replace(COALESCE(error, ''::text), '[0-9a-fA-F]{8,}|[0-9]+'::text, '#'::text, 'g'::text), '\s+'::text, ' '::text, 'g'::text))), 1, 16)) STORED NOT NULL
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
-- Name: declarations; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.declarations (
    app_id text NOT NULL,
    fields jsonb NOT NULL,
    declared_at timestamp with time zone NOT NULL
);


--
-- Name: dedup; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
)
PARTITION BY LIST (generation);


--
-- Name: dedup_0; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_0 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_1; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_1 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_10; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_10 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_11; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_11 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_2; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_2 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_3; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_3 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_4; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_4 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_5; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_5 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_6; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_6 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_7; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_7 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_8; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_8 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_9; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_9 (
    generation smallint NOT NULL,
    key bytea NOT NULL,
    "offset" bigint,
    at timestamp with time zone NOT NULL
);


--
-- Name: dedup_blocks; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
)
PARTITION BY LIST (generation);
ALTER TABLE ONLY queen.dedup_blocks ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_0; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_0 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_0 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_1; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_1 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_1 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_10; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_10 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_10 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_11; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_11 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_11 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_2; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_2 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_2 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_3; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_3 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_3 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_4; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_4 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_4 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_5; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_5 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_5 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_6; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_6 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_6 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_7; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_7 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_7 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_8; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_8 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_8 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_blocks_9; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_blocks_9 (
    generation smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keys bytea NOT NULL
);
ALTER TABLE ONLY queen.dedup_blocks_9 ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: dedup_rows; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.dedup_rows (
    partition_id bigint NOT NULL,
    at timestamp with time zone NOT NULL
);


--
-- Name: definitions; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.definitions (
    queue_id bigint NOT NULL,
    revision bigint NOT NULL
);


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
-- Name: duties; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.duties (
    name text NOT NULL,
    holder bigint DEFAULT 0 NOT NULL,
    until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    last_run_at timestamp with time zone,
    last_success_at timestamp with time zone,
    seconds double precision,
    rows bigint,
    lag_seconds double precision,
    error text,
    cursor jsonb
)
WITH (fillfactor='50');


--
-- Name: forgotten_removals; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.forgotten_removals (
    queue_id bigint NOT NULL,
    xid xid8 NOT NULL,
    by_xid xid8 NOT NULL,
    partition_id bigint DEFAULT '9223372036854775807'::bigint NOT NULL,
    end_offset bigint DEFAULT '9223372036854775807'::bigint NOT NULL
);


--
-- Name: forward_batches; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.forward_batches (
    queue text NOT NULL,
    sequence bigint NOT NULL,
    last_position bigint NOT NULL,
    holder bigint NOT NULL,
    until timestamp with time zone NOT NULL
)
WITH (fillfactor='50');


--
-- Name: forwards; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.forwards (
    queue text NOT NULL,
    "position" bigint NOT NULL,
    outbox_id bigint NOT NULL,
    item json NOT NULL,
    payload json NOT NULL,
    slots smallint[]
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', vacuum_truncate=off);


--
-- Name: forwards_position_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.forwards ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.forwards_position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
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
-- Name: holds; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.holds (
    queue_id bigint NOT NULL,
    name text NOT NULL,
    xid xid8 NOT NULL,
    held_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone
);


--
-- Name: homes; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.homes (
    name text NOT NULL,
    slot smallint,
    CONSTRAINT homes_are_in_slots CHECK (((slot >= 0) AND (slot <= 1023)))
);


--
-- Name: iceberg_namespace_properties; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.iceberg_namespace_properties (
    catalog_name character varying(255) NOT NULL,
    namespace character varying(255) NOT NULL,
    property_key character varying(255) NOT NULL,
    property_value character varying(1000) NOT NULL
);


--
-- Name: iceberg_tables; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.iceberg_tables (
    catalog_name character varying(255) NOT NULL,
    table_namespace character varying(255) NOT NULL,
    table_name character varying(255) NOT NULL,
    metadata_location character varying(1000),
    previous_metadata_location character varying(1000),
    iceberg_type character varying(5)
)
WITH (fillfactor='50');


--
-- Name: instances; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.instances (
    id text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    waiters integer NOT NULL,
    address text,
    preferred text[]
);


--
-- Name: keys; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.keys (
    id text NOT NULL,
    digest bytea NOT NULL,
    old_digest bytea,
    old_until timestamp with time zone,
    name text NOT NULL,
    role text,
    permissions text[],
    scopes jsonb,
    requests_per_second double precision,
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    managed_by text,
    CONSTRAINT digests_are_sha256 CHECK (((length(digest) = 32) AND (length(old_digest) = 32))),
    CONSTRAINT key_managers_are_named CHECK (((length(managed_by) >= 1) AND (length(managed_by) <= 255))),
    CONSTRAINT keys_have_a_role_or_permissions CHECK ((num_nonnulls(role, permissions) = 1)),
    CONSTRAINT requests_per_second_is_positive CHECK ((requests_per_second > (0)::double precision))
);


--
-- Name: laggards; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.laggards (
    queue_id bigint NOT NULL,
    kind text NOT NULL,
    partition_id bigint NOT NULL,
    look_at timestamp with time zone NOT NULL,
    looks integer DEFAULT 0 NOT NULL
);


--
-- Name: late_minutes; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.late_minutes (
    minute timestamp with time zone NOT NULL,
    xid xid8 NOT NULL
)
WITH (fillfactor='50');


--
-- Name: leaving_leases; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.leaving_leases (
    slot smallint NOT NULL,
    group_id bigint NOT NULL,
    leases integer NOT NULL
);


--
-- Name: maintenance; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.maintenance (
    mode text NOT NULL,
    enabled boolean NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    changed_by text NOT NULL,
    CONSTRAINT mode_is_push_or_pop CHECK ((mode = ANY (ARRAY['push'::text, 'pop'::text])))
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
-- Name: messages; Type: VIEW; Schema: queen; Owner: -
--

CREATE VIEW queen.messages AS
 SELECT q.name AS queue,
    p.name AS partition,
    (s.base_offset + i.n) AS "offset",
    s.created_at,
        CASE
            WHEN (substr(m.payload, 1, 1) <> '\x01'::bytea) THEN convert_from(m.payload, 'UTF8'::name)
            ELSE NULL::text
        END AS payload,
    (convert_from(queen.extra_at(s.extras, s.message_count, i.n), 'UTF8'::name))::json AS extras,
    p.level AS priority,
    s.expires_at,
    s.partition_id,
    s.xid
   FROM ((((queen.segments s
     JOIN queen.partitions p ON ((p.id = s.partition_id)))
     JOIN queen.queues q ON ((q.id = p.queue_id)))
     CROSS JOIN LATERAL generate_series(0, (s.message_count - 1)) i(n))
     CROSS JOIN LATERAL ( SELECT queen.payload_at(s.body, s.ends, i.n) AS payload
         OFFSET 0) m)
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
-- Name: moves; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.moves (
    slot smallint NOT NULL,
    epoch bigint NOT NULL,
    source integer NOT NULL,
    target integer NOT NULL,
    fence xid8 NOT NULL,
    first xid8 NOT NULL,
    moved_at timestamp with time zone NOT NULL
);


--
-- Name: operations; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.operations (
    id bigint NOT NULL,
    kind text NOT NULL,
    queue text,
    arguments jsonb NOT NULL,
    state text DEFAULT 'running'::text NOT NULL,
    cursor bigint,
    done bigint DEFAULT 0 NOT NULL,
    total bigint,
    error text,
    owner text NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT operations_end_when_they_stop_running CHECK (((state = 'running'::text) = (finished_at IS NULL))),
    CONSTRAINT state_is_known CHECK ((state = ANY (ARRAY['running'::text, 'done'::text, 'failed'::text, 'cancelled'::text])))
);


--
-- Name: operations_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.operations ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.operations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: outbox; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.outbox (
    id bigint NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    item json NOT NULL,
    payload json NOT NULL,
    error text
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', vacuum_truncate=off);


--
-- Name: outbox_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: outdated; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.outdated (
    database smallint NOT NULL,
    queue_id bigint NOT NULL,
    revision bigint NOT NULL
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
-- Name: pins; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.pins (
    queue_id bigint NOT NULL,
    partition text NOT NULL,
    slot smallint NOT NULL,
    is_ready boolean NOT NULL,
    revision bigint NOT NULL,
    CONSTRAINT pins_use_reserved_slots CHECK (((slot >= 960) AND (slot <= 1023)))
);


--
-- Name: pipeline_samples; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.pipeline_samples (
    name text NOT NULL,
    minute timestamp with time zone NOT NULL,
    rows bigint NOT NULL,
    late bigint NOT NULL,
    lag_messages bigint,
    lag_seconds double precision,
    batch_millis bigint
);


--
-- Name: pipelines; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.pipelines (
    name text NOT NULL,
    run_id uuid NOT NULL,
    kind text NOT NULL,
    queues text[] NOT NULL,
    target text,
    state text NOT NULL,
    "position" xid8,
    lag_messages bigint,
    lag_seconds double precision,
    batch_id bigint,
    batch_millis bigint,
    rows_per_second double precision,
    rows_total bigint,
    detail jsonb,
    error text,
    ui_url text,
    started_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    held_back_by text,
    rows_before bigint DEFAULT 0 NOT NULL,
    CONSTRAINT state_is_known CHECK ((state = ANY (ARRAY['running'::text, 'idle'::text, 'failed'::text, 'stopped'::text])))
)
WITH (fillfactor='50');


--
-- Name: plans; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.plans (
    app_id text NOT NULL,
    queue_id bigint NOT NULL,
    start_xid xid8 NOT NULL,
    end_xid xid8 NOT NULL,
    planned_at timestamp with time zone NOT NULL,
    start_partition_id bigint DEFAULT 0 NOT NULL,
    start_offset bigint DEFAULT 0 NOT NULL,
    start_is_trailing boolean DEFAULT false NOT NULL,
    end_offset jsonb
);


--
-- Name: producers; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.producers (
    producer_id text NOT NULL,
    sequence bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    scope text DEFAULT ''::text NOT NULL,
    digest bytea,
    outcome bytea,
    bases bigint[],
    stale integer[]
)
WITH (fillfactor='50');


--
-- Name: publications; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.publications (
    app_id text NOT NULL,
    queue_id bigint NOT NULL,
    version bigint NOT NULL,
    messages bigint NOT NULL,
    published_at timestamp with time zone NOT NULL,
    query_id text,
    fingerprint text
)
WITH (fillfactor='50');


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
-- Name: recalled; Type: TABLE; Schema: queen; Owner: -
--

CREATE UNLOGGED TABLE queen.recalled (
    recall_id uuid NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    message_count integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    read_at timestamp with time zone NOT NULL,
    body bytea NOT NULL,
    ends bytea NOT NULL,
    extras bytea
);
ALTER TABLE ONLY queen.recalled ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE ONLY queen.recalled ALTER COLUMN extras SET STORAGE EXTERNAL;


--
-- Name: redactions; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.redactions (
    id bigint NOT NULL,
    partition_id bigint NOT NULL,
    "offset" bigint NOT NULL,
    redacted_at timestamp with time zone NOT NULL,
    redacted_by text NOT NULL
);


--
-- Name: redactions_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.redactions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.redactions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: relay; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.relay (
    is_only boolean DEFAULT true NOT NULL,
    producer_id text NOT NULL,
    sequence bigint NOT NULL,
    ids bigint[] NOT NULL,
    CONSTRAINT there_is_one_relay CHECK (is_only)
)
WITH (fillfactor='50');


--
-- Name: removals; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.removals (
    id bigint NOT NULL,
    queue_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    first_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    reason text NOT NULL,
    removed_at timestamp with time zone NOT NULL,
    xid xid8,
    by_xid xid8 DEFAULT pg_current_xact_id(),
    born_in integer,
    born_xid xid8,
    by_in integer,
    by_born xid8
);


--
-- Name: removals_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.removals ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.removals_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: renumberings_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.renumberings ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.renumberings_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: replays; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.replays (
    name text NOT NULL,
    source text NOT NULL,
    target text NOT NULL,
    bounds timestamp with time zone[] NOT NULL,
    messages bigint NOT NULL,
    created_at timestamp with time zone NOT NULL
);


--
-- Name: reservations; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.reservations (
    name text NOT NULL,
    database text NOT NULL,
    until timestamp with time zone NOT NULL
);


--
-- Name: results; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.results (
    queue_id bigint NOT NULL,
    transaction_id text NOT NULL,
    partition_id bigint,
    "offset" bigint,
    result bytea,
    progress bytea,
    settled_at timestamp with time zone,
    is_cancelled boolean DEFAULT false NOT NULL,
    expires_at timestamp with time zone NOT NULL
);


--
-- Name: rewrites; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.rewrites (
    id bigint NOT NULL,
    partition_id bigint NOT NULL
);


--
-- Name: rewrites_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.rewrites ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.rewrites_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: rollup_marks; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.rollup_marks (
    at timestamp with time zone NOT NULL,
    xid xid8 NOT NULL
);


--
-- Name: rollups; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.rollups (
    queue_id bigint NOT NULL,
    grain_seconds integer NOT NULL,
    at timestamp with time zone NOT NULL,
    group_id bigint NOT NULL,
    "group" text,
    pushed bigint NOT NULL,
    bytes bigint NOT NULL,
    duplicates bigint NOT NULL,
    popped bigint NOT NULL,
    acked bigint NOT NULL,
    nacked bigint NOT NULL,
    dead_lettered bigint NOT NULL,
    expired bigint NOT NULL,
    evicted bigint NOT NULL,
    leases_expired bigint NOT NULL,
    wait_bins smallint[] NOT NULL,
    wait_counts bigint[] NOT NULL,
    processing_bins smallint[] NOT NULL,
    processing_counts bigint[] NOT NULL,
    samples integer NOT NULL,
    depth_sum bigint NOT NULL,
    depth_max bigint,
    depth_last bigint,
    oldest_age_seconds double precision,
    xid xid8 NOT NULL,
    CONSTRAINT bins_have_counts CHECK (((cardinality(wait_bins) = cardinality(wait_counts)) AND (cardinality(processing_bins) = cardinality(processing_counts)))),
    CONSTRAINT grain_is_a_minute_an_hour_or_a_day CHECK ((grain_seconds = ANY (ARRAY[60, 3600, 86400])))
)
WITH (fillfactor='70');


--
-- Name: sampler; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.sampler (
    is_only boolean DEFAULT true NOT NULL,
    holder bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT there_is_one_sampler CHECK (is_only)
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
    key bytea,
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
-- Name: scheduler; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.scheduler (
    is_only boolean DEFAULT true NOT NULL,
    holder bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT there_is_one_scheduler CHECK (is_only)
)
WITH (fillfactor='50');


--
-- Name: schedules; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.schedules (
    name text NOT NULL,
    queue text NOT NULL,
    partition text NOT NULL,
    cron text NOT NULL,
    time_zone text NOT NULL,
    missed text NOT NULL,
    message bytea NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    next_at timestamp with time zone,
    look_at timestamp with time zone,
    last_at timestamp with time zone,
    error text,
    created_at timestamp with time zone NOT NULL,
    managed_by text,
    CONSTRAINT missed_is_known CHECK ((missed = ANY (ARRAY['skip'::text, 'once'::text, 'all'::text]))),
    CONSTRAINT next_tick_is_looked_at CHECK (((next_at IS NULL) = (look_at IS NULL))),
    CONSTRAINT paused_has_no_tick CHECK (((NOT paused) OR (next_at IS NULL))),
    CONSTRAINT schedule_managers_are_named CHECK (((length(managed_by) >= 1) AND (length(managed_by) <= 255)))
)
WITH (fillfactor='50');


--
-- Name: shares; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.shares (
    group_id bigint NOT NULL,
    database smallint NOT NULL,
    revision bigint DEFAULT 0 NOT NULL,
    rate_share integer,
    rate_reserved bigint DEFAULT 0 NOT NULL,
    concurrency_share integer,
    concurrency_reserved bigint DEFAULT 0 NOT NULL,
    moved_leases integer DEFAULT 0 NOT NULL
);


--
-- Name: slots; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.slots (
    slot smallint NOT NULL,
    state text DEFAULT 'owned'::text NOT NULL,
    epoch bigint DEFAULT 1 NOT NULL,
    moved_to text,
    is_open boolean NOT NULL,
    copied_to text,
    copier uuid,
    CONSTRAINT slot_state_is_known CHECK ((state = ANY (ARRAY['owned'::text, 'leaving'::text, 'gone'::text]))),
    CONSTRAINT slots_are_from_0_to_1023 CHECK (((slot >= 0) AND (slot <= 1023))),
    CONSTRAINT slots_elsewhere_name_their_owner CHECK (((state = 'owned'::text) = (moved_to IS NULL)))
);


--
-- Name: staged; Type: TABLE; Schema: queen; Owner: -
--

CREATE UNLOGGED TABLE queen.staged (
    write_id uuid NOT NULL,
    entry integer NOT NULL,
    partition_id bigint NOT NULL,
    message_count integer NOT NULL,
    staged_at timestamp with time zone NOT NULL,
    body bytea NOT NULL,
    ends bytea NOT NULL,
    extras bytea
);
ALTER TABLE ONLY queen.staged ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE ONLY queen.staged ALTER COLUMN extras SET STORAGE EXTERNAL;


--
-- Name: streams; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.streams (
    app_id text NOT NULL,
    queue_id bigint NOT NULL,
    start_xid xid8 NOT NULL,
    since_xid xid8 NOT NULL,
    began_at timestamp with time zone NOT NULL,
    start_offset jsonb
);


--
-- Name: sweeps; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.sweeps (
    queue_id bigint NOT NULL,
    kind text NOT NULL,
    xid xid8 NOT NULL,
    partition_id bigint NOT NULL,
    CONSTRAINT sweep_is_known CHECK ((kind = ANY (ARRAY['age'::text, 'completed'::text, 'eviction'::text])))
)
WITH (fillfactor='50');


--
-- Name: tickets; Type: TABLE; Schema: queen; Owner: -
--

CREATE UNLOGGED TABLE queen.tickets (
    digest bytea NOT NULL,
    caller jsonb NOT NULL,
    until timestamp with time zone NOT NULL
);


--
-- Name: trace_names; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.trace_names (
    name text NOT NULL COLLATE pg_catalog."C",
    trace_id bigint NOT NULL
);


--
-- Name: traces; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.traces (
    id bigint NOT NULL,
    partition_id bigint NOT NULL,
    transaction_id text NOT NULL,
    "group" text,
    event_type text NOT NULL,
    names text[] NOT NULL,
    data bytea NOT NULL,
    created_at timestamp with time zone NOT NULL
);


--
-- Name: traces_id_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.traces ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.traces_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: workflow_parts; Type: TABLE; Schema: queen; Owner: -
--

CREATE TABLE queen.workflow_parts (
    workflow_id text NOT NULL,
    step text NOT NULL,
    part integer NOT NULL,
    state text DEFAULT 'active'::text NOT NULL,
    attempts integer,
    result json,
    error text,
    outbox_id bigint,
    ended_at timestamp with time zone,
    CONSTRAINT part_state_is_known CHECK ((state = ANY (ARRAY['active'::text, 'completed'::text, 'failed'::text, 'cancelled'::text])))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000');


--
-- Name: workflows_number_seq; Type: SEQUENCE; Schema: queen; Owner: -
--

ALTER TABLE queen.workflows ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.workflows_number_seq
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
-- Name: dedup_blocks_0; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_0 FOR VALUES IN ('0');


--
-- Name: dedup_blocks_1; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_1 FOR VALUES IN ('1');


--
-- Name: dedup_blocks_10; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_10 FOR VALUES IN ('10');


--
-- Name: dedup_blocks_11; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_11 FOR VALUES IN ('11');


--
-- Name: dedup_blocks_2; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_2 FOR VALUES IN ('2');


--
-- Name: dedup_blocks_3; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_3 FOR VALUES IN ('3');


--
-- Name: dedup_blocks_4; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_4 FOR VALUES IN ('4');


--
-- Name: dedup_blocks_5; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_5 FOR VALUES IN ('5');


--
-- Name: dedup_blocks_6; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_6 FOR VALUES IN ('6');


--
-- Name: dedup_blocks_7; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_7 FOR VALUES IN ('7');


--
-- Name: dedup_blocks_8; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_8 FOR VALUES IN ('8');


--
-- Name: dedup_blocks_9; Type: TABLE ATTACH; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_blocks ATTACH PARTITION queen.dedup_blocks_9 FOR VALUES IN ('9');


--
-- Name: allowances allowances_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.allowances
    ADD CONSTRAINT allowances_pkey PRIMARY KEY (key_id);


--
-- Name: appender appender_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.appender
    ADD CONSTRAINT appender_pkey PRIMARY KEY (is_only);


--
-- Name: archive_batches archive_batches_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.archive_batches
    ADD CONSTRAINT archive_batches_pkey PRIMARY KEY (archive, batch);


--
-- Name: archives archives_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.archives
    ADD CONSTRAINT archives_pkey PRIMARY KEY (name);


--
-- Name: arrivals arrivals_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.arrivals
    ADD CONSTRAINT arrivals_pkey PRIMARY KEY (slot);


--
-- Name: audit audit_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);


--
-- Name: consumers consumers_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.consumers
    ADD CONSTRAINT consumers_pkey PRIMARY KEY (partition_id, group_id, version);


--
-- Name: counters counters_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (queue_id, minute, group_id, process);


--
-- Name: data_keys data_keys_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.data_keys
    ADD CONSTRAINT data_keys_pkey PRIMARY KEY (id);


--
-- Name: databases databases_name_key; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.databases
    ADD CONSTRAINT databases_name_key UNIQUE (name);


--
-- Name: databases databases_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.databases
    ADD CONSTRAINT databases_pkey PRIMARY KEY (number);


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
-- Name: declarations declarations_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.declarations
    ADD CONSTRAINT declarations_pkey PRIMARY KEY (app_id);


--
-- Name: dedup_rows dedup_rows_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.dedup_rows
    ADD CONSTRAINT dedup_rows_pkey PRIMARY KEY (partition_id);


--
-- Name: definitions definitions_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.definitions
    ADD CONSTRAINT definitions_pkey PRIMARY KEY (queue_id);


--
-- Name: deliveries deliveries_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (id);


--
-- Name: duties duties_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.duties
    ADD CONSTRAINT duties_pkey PRIMARY KEY (name);


--
-- Name: forgotten_removals forgotten_removals_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.forgotten_removals
    ADD CONSTRAINT forgotten_removals_pkey PRIMARY KEY (queue_id);


--
-- Name: forward_batches forward_batches_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.forward_batches
    ADD CONSTRAINT forward_batches_pkey PRIMARY KEY (queue);


--
-- Name: forwards forwards_outbox_id_key; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.forwards
    ADD CONSTRAINT forwards_outbox_id_key UNIQUE (outbox_id);


--
-- Name: forwards forwards_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.forwards
    ADD CONSTRAINT forwards_pkey PRIMARY KEY (queue, "position");


--
-- Name: groups groups_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.groups
    ADD CONSTRAINT groups_pkey PRIMARY KEY (id);


--
-- Name: holds holds_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.holds
    ADD CONSTRAINT holds_pkey PRIMARY KEY (queue_id, name);


--
-- Name: homes homes_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.homes
    ADD CONSTRAINT homes_pkey PRIMARY KEY (name);


--
-- Name: iceberg_namespace_properties iceberg_namespace_properties_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.iceberg_namespace_properties
    ADD CONSTRAINT iceberg_namespace_properties_pkey PRIMARY KEY (catalog_name, namespace, property_key);


--
-- Name: iceberg_tables iceberg_tables_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.iceberg_tables
    ADD CONSTRAINT iceberg_tables_pkey PRIMARY KEY (catalog_name, table_namespace, table_name);


--
-- Name: instances instances_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.instances
    ADD CONSTRAINT instances_pkey PRIMARY KEY (id);


--
-- Name: keys keys_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);


--
-- Name: laggards laggards_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.laggards
    ADD CONSTRAINT laggards_pkey PRIMARY KEY (partition_id, kind);


--
-- Name: late_minutes late_minutes_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.late_minutes
    ADD CONSTRAINT late_minutes_pkey PRIMARY KEY (minute);


--
-- Name: leaving_leases leaving_leases_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.leaving_leases
    ADD CONSTRAINT leaving_leases_pkey PRIMARY KEY (slot, group_id);


--
-- Name: limits limits_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.limits
    ADD CONSTRAINT limits_pkey PRIMARY KEY (group_id, version);


--
-- Name: maintenance maintenance_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.maintenance
    ADD CONSTRAINT maintenance_pkey PRIMARY KEY (mode);


--
-- Name: migrations migrations_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (name);


--
-- Name: moves moves_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.moves
    ADD CONSTRAINT moves_pkey PRIMARY KEY (slot, epoch);


--
-- Name: operations operations_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.operations
    ADD CONSTRAINT operations_pkey PRIMARY KEY (id);


--
-- Name: outbox outbox_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);


--
-- Name: outdated outdated_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.outdated
    ADD CONSTRAINT outdated_pkey PRIMARY KEY (database, queue_id);


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
-- Name: pins pins_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.pins
    ADD CONSTRAINT pins_pkey PRIMARY KEY (queue_id, partition);


--
-- Name: pipeline_samples pipeline_samples_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.pipeline_samples
    ADD CONSTRAINT pipeline_samples_pkey PRIMARY KEY (name, minute);


--
-- Name: pipelines pipelines_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.pipelines
    ADD CONSTRAINT pipelines_pkey PRIMARY KEY (name);


--
-- Name: plans plans_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.plans
    ADD CONSTRAINT plans_pkey PRIMARY KEY (app_id, queue_id, start_xid, start_partition_id, start_offset, start_is_trailing);


--
-- Name: producers producers_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.producers
    ADD CONSTRAINT producers_pkey PRIMARY KEY (producer_id, scope);


--
-- Name: publications publications_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.publications
    ADD CONSTRAINT publications_pkey PRIMARY KEY (app_id, queue_id);


--
-- Name: queues queues_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (id);


--
-- Name: recalled recalled_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.recalled
    ADD CONSTRAINT recalled_pkey PRIMARY KEY (recall_id, partition_id, base_offset);


--
-- Name: redactions redactions_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.redactions
    ADD CONSTRAINT redactions_pkey PRIMARY KEY (id);


--
-- Name: relay relay_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.relay
    ADD CONSTRAINT relay_pkey PRIMARY KEY (is_only);


--
-- Name: removals removals_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.removals
    ADD CONSTRAINT removals_pkey PRIMARY KEY (id);


--
-- Name: renumberings renumberings_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.renumberings
    ADD CONSTRAINT renumberings_pkey PRIMARY KEY (id);


--
-- Name: replays replays_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.replays
    ADD CONSTRAINT replays_pkey PRIMARY KEY (name);


--
-- Name: reservations reservations_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.reservations
    ADD CONSTRAINT reservations_pkey PRIMARY KEY (name);


--
-- Name: results results_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.results
    ADD CONSTRAINT results_pkey PRIMARY KEY (queue_id, transaction_id);


--
-- Name: rewrites rewrites_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.rewrites
    ADD CONSTRAINT rewrites_pkey PRIMARY KEY (id);


--
-- Name: rollup_marks rollup_marks_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.rollup_marks
    ADD CONSTRAINT rollup_marks_pkey PRIMARY KEY (at);


--
-- Name: rollups rollups_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.rollups
    ADD CONSTRAINT rollups_pkey PRIMARY KEY (queue_id, grain_seconds, at, group_id);


--
-- Name: sampler sampler_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.sampler
    ADD CONSTRAINT sampler_pkey PRIMARY KEY (is_only);


--
-- Name: samples samples_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.samples
    ADD CONSTRAINT samples_pkey PRIMARY KEY (queue_id, minute, group_id);


--
-- Name: scheduled scheduled_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.scheduled
    ADD CONSTRAINT scheduled_pkey PRIMARY KEY (id);


--
-- Name: scheduler scheduler_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.scheduler
    ADD CONSTRAINT scheduler_pkey PRIMARY KEY (is_only);


--
-- Name: schedules schedules_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (name);


--
-- Name: segments segments_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.segments
    ADD CONSTRAINT segments_pkey PRIMARY KEY (partition_id, base_offset);


--
-- Name: shares shares_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.shares
    ADD CONSTRAINT shares_pkey PRIMARY KEY (group_id, database);


--
-- Name: slots slots_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.slots
    ADD CONSTRAINT slots_pkey PRIMARY KEY (slot);


--
-- Name: staged staged_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.staged
    ADD CONSTRAINT staged_pkey PRIMARY KEY (write_id, entry);


--
-- Name: streams streams_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.streams
    ADD CONSTRAINT streams_pkey PRIMARY KEY (app_id);


--
-- Name: sweeps sweeps_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.sweeps
    ADD CONSTRAINT sweeps_pkey PRIMARY KEY (queue_id, kind);


--
-- Name: tickets tickets_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.tickets
    ADD CONSTRAINT tickets_pkey PRIMARY KEY (digest);


--
-- Name: trace_names trace_names_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.trace_names
    ADD CONSTRAINT trace_names_pkey PRIMARY KEY (name, trace_id);


--
-- Name: traces traces_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.traces
    ADD CONSTRAINT traces_pkey PRIMARY KEY (id);


--
-- Name: workflow_parts workflow_parts_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.workflow_parts
    ADD CONSTRAINT workflow_parts_pkey PRIMARY KEY (workflow_id, step, part);


--
-- Name: workflow_steps workflow_steps_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.workflow_steps
    ADD CONSTRAINT workflow_steps_pkey PRIMARY KEY (workflow_id, name);


--
-- Name: workflows workflows_are_numbered_once; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.workflows
    ADD CONSTRAINT workflows_are_numbered_once UNIQUE (number);


--
-- Name: workflows workflows_pkey; Type: CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (id);


--
-- Name: archives_of_queue; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX archives_of_queue ON queen.archives USING btree (queue_id);


--
-- Name: audit_action; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX audit_action ON queen.audit USING btree (action, id);


--
-- Name: audit_actor; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX audit_actor ON queen.audit USING btree (actor, id);


--
-- Name: audit_at; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX audit_at ON queen.audit USING btree (at, id);


--
-- Name: audit_queue; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX audit_queue ON queen.audit USING btree (queue, id) WHERE (queue IS NOT NULL);


--
-- Name: consumers_idle; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX consumers_idle ON queen.consumers USING btree (partition_id, idle_at) WHERE (idle_at IS NOT NULL);


--
-- Name: consumers_ready; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX consumers_ready ON queen.consumers USING btree (group_id, priority, ready_at) WHERE (ready_at IS NOT NULL);


--
-- Name: counters_of_group; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX counters_of_group ON queen.counters USING btree (group_id, minute) WHERE (group_id <> 0);


--
-- Name: counters_old; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX counters_old ON queen.counters USING btree (minute);


--
-- Name: data_keys_of_master; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX data_keys_of_master ON queen.data_keys USING btree (master_id, id);


--
-- Name: data_keys_of_queue; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX data_keys_of_queue ON queen.data_keys USING btree (queue_id, id);


--
-- Name: databases_are_here_once; Type: INDEX; Schema: queen; Owner: -
--

CREATE UNIQUE INDEX databases_are_here_once ON queen.databases USING btree (is_here) WHERE is_here;


--
-- Name: dead_letters_named; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dead_letters_named ON queen.dead_letters USING btree (queue, id);


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
-- Name: dedup_block; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_block ON ONLY queen.dedup_blocks USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_0_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_0_partition_id_base_offset_idx ON queen.dedup_blocks_0 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_10_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_10_partition_id_base_offset_idx ON queen.dedup_blocks_10 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_11_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_11_partition_id_base_offset_idx ON queen.dedup_blocks_11 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_1_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_1_partition_id_base_offset_idx ON queen.dedup_blocks_1 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_2_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_2_partition_id_base_offset_idx ON queen.dedup_blocks_2 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_3_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_3_partition_id_base_offset_idx ON queen.dedup_blocks_3 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_4_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_4_partition_id_base_offset_idx ON queen.dedup_blocks_4 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_5_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_5_partition_id_base_offset_idx ON queen.dedup_blocks_5 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_6_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_6_partition_id_base_offset_idx ON queen.dedup_blocks_6 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_7_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_7_partition_id_base_offset_idx ON queen.dedup_blocks_7 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_8_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_8_partition_id_base_offset_idx ON queen.dedup_blocks_8 USING btree (partition_id, base_offset);


--
-- Name: dedup_blocks_9_partition_id_base_offset_idx; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_blocks_9_partition_id_base_offset_idx ON queen.dedup_blocks_9 USING btree (partition_id, base_offset);


--
-- Name: dedup_rows_old; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX dedup_rows_old ON queen.dedup_rows USING btree (at);


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
-- Name: laggards_due; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX laggards_due ON queen.laggards USING btree (queue_id, kind, look_at);


--
-- Name: operations_finished; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX operations_finished ON queen.operations USING btree (finished_at) WHERE (state <> 'running'::text);


--
-- Name: operations_running; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX operations_running ON queen.operations USING btree (seen_at) WHERE (state = 'running'::text);


--
-- Name: outbox_by_transaction; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX outbox_by_transaction ON queen.outbox USING btree (xid, id) WHERE (error IS NULL);


--
-- Name: partitions_by_number; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX partitions_by_number ON queen.partitions USING btree (((id & '9007199254740991'::bigint)));


--
-- Name: partitions_of_queue; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX partitions_of_queue ON queen.partitions USING btree (queue_id, id);


--
-- Name: pipeline_samples_by_minute; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX pipeline_samples_by_minute ON queen.pipeline_samples USING btree (minute);


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
-- Name: recalled_old; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX recalled_old ON queen.recalled USING btree (read_at);


--
-- Name: redactions_of_partition; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX redactions_of_partition ON queen.redactions USING btree (partition_id, "offset");


--
-- Name: removals_born; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX removals_born ON queen.removals USING btree (queue_id, born_in, born_xid) WHERE (born_in IS NOT NULL);


--
-- Name: removals_of_queue; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX removals_of_queue ON queen.removals USING btree (queue_id, xid);


--
-- Name: results_expired; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX results_expired ON queen.results USING btree (expires_at);


--
-- Name: rollups_old; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX rollups_old ON queen.rollups USING btree (grain_seconds, at);


--
-- Name: samples_old; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX samples_old ON queen.samples USING btree (minute);


--
-- Name: scheduled_due; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX scheduled_due ON queen.scheduled USING btree (queue_id, due_at, id);


--
-- Name: scheduled_key; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX scheduled_key ON queen.scheduled USING hash (key);


--
-- Name: scheduled_of_partition; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX scheduled_of_partition ON queen.scheduled USING btree (partition_id, due_at, id);


--
-- Name: schedules_due; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX schedules_due ON queen.schedules USING btree (look_at) WHERE (look_at IS NOT NULL);


--
-- Name: segments_born; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX segments_born ON queen.segments USING btree (queue_id, born_in, born_xid) WHERE ((born_in IS NOT NULL) AND (body IS NOT NULL));


--
-- Name: segments_emptied; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX segments_emptied ON queen.segments USING btree (queue_id, created_at, partition_id) WHERE (body IS NULL);


--
-- Name: segments_xid; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX segments_xid ON queen.segments USING btree (queue_id, xid) WHERE (body IS NOT NULL);


--
-- Name: slots_elsewhere; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX slots_elsewhere ON queen.slots USING btree (slot) WHERE (state <> 'owned'::text);


--
-- Name: staged_old; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX staged_old ON queen.staged USING btree (staged_at);


--
-- Name: tickets_until; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX tickets_until ON queen.tickets USING btree (until);


--
-- Name: traces_of_message; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX traces_of_message ON queen.traces USING btree (partition_id, transaction_id, id);


--
-- Name: workflow_steps_looked_at; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX workflow_steps_looked_at ON queen.workflow_steps USING btree (look_at) WHERE (look_at IS NOT NULL);


--
-- Name: workflows_correlated; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX workflows_correlated ON queen.workflows USING btree (correlation_id, number) WHERE (correlation_id IS NOT NULL);


--
-- Name: workflows_ended; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX workflows_ended ON queen.workflows USING btree (ended_at) WHERE (ended_at IS NOT NULL);


--
-- Name: workflows_in_state; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX workflows_in_state ON queen.workflows USING btree (state, number);


--
-- Name: workflows_named; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX workflows_named ON queen.workflows USING btree (name, number);


--
-- Name: workflows_tagged; Type: INDEX; Schema: queen; Owner: -
--

CREATE INDEX workflows_tagged ON queen.workflows USING gin (tags) WHERE (tags <> '{}'::text[]);


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
-- Name: dedup_blocks_0_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_0_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_10_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_10_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_11_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_11_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_1_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_1_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_2_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_2_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_3_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_3_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_4_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_4_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_5_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_5_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_6_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_6_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_7_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_7_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_8_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_8_partition_id_base_offset_idx;


--
-- Name: dedup_blocks_9_partition_id_base_offset_idx; Type: INDEX ATTACH; Schema: queen; Owner: -
--

ALTER INDEX queen.dedup_block ATTACH PARTITION queen.dedup_blocks_9_partition_id_base_offset_idx;


--
-- Name: groups groups_change; Type: TRIGGER; Schema: queen; Owner: -
--

CREATE TRIGGER groups_change AFTER INSERT OR UPDATE OF deleted_at ON queen.groups FOR EACH ROW EXECUTE FUNCTION queen.note_group();


--
-- Name: segments segments_are_changed; Type: TRIGGER; Schema: queen; Owner: -
--

CREATE TRIGGER segments_are_changed AFTER UPDATE ON queen.segments REFERENCING OLD TABLE AS old_segments FOR EACH STATEMENT EXECUTE FUNCTION queen.note_rewrites();


--
-- Name: segments segments_are_deleted; Type: TRIGGER; Schema: queen; Owner: -
--

CREATE TRIGGER segments_are_deleted AFTER DELETE ON queen.segments REFERENCING OLD TABLE AS old_segments FOR EACH STATEMENT EXECUTE FUNCTION queen.note_rewrites();


--
-- Name: queues spread_queues_change; Type: TRIGGER; Schema: queen; Owner: -
--

CREATE TRIGGER spread_queues_change AFTER INSERT OR UPDATE OF version, deleted_at ON queen.queues FOR EACH ROW WHEN ((new.slot IS NULL)) EXECUTE FUNCTION queen.note_queue();


--
-- Name: pipeline_samples pipeline_samples_name_fkey; Type: FK CONSTRAINT; Schema: queen; Owner: -
--

ALTER TABLE ONLY queen.pipeline_samples
    ADD CONSTRAINT pipeline_samples_name_fkey FOREIGN KEY (name) REFERENCES queen.pipelines(name) ON DELETE CASCADE;


--
-- Name: FUNCTION abandon_batch(p_queue text, p_producer text, p_sequence bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.abandon_batch(p_queue text, p_producer text, p_sequence bigint) FROM PUBLIC;


--
-- Name: FUNCTION ack(p_ids bigint[], p_tokens uuid[], p_offsets int8multirange[], p_partition_ids bigint[], p_result_ordinals integer[], p_result_offsets bigint[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.ack(p_ids bigint[], p_tokens uuid[], p_offsets int8multirange[], p_partition_ids bigint[], p_result_ordinals integer[], p_result_offsets bigint[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[]) FROM PUBLIC;


--
-- Name: FUNCTION add_limit(p_group_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.add_limit(p_group_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION add_positions(p_group queen.groups, p_queue queen.queues, p_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.add_positions(p_group queen.groups, p_queue queen.queues, p_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION add_trace(p_partition_id bigint, p_transaction_id text, p_group text, p_event_type text, p_names text[], p_data bytea); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.add_trace(p_partition_id bigint, p_transaction_id text, p_group text, p_event_type text, p_names text[], p_data bytea) FROM PUBLIC;


--
-- Name: FUNCTION adopt_partitions(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.adopt_partitions(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION advance_step(p_id text, p_name text, p_part integer, p_token uuid, p_outcome text, p_result json, p_error text, p_attempts integer, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.advance_step(p_id text, p_name text, p_part integer, p_token uuid, p_outcome text, p_result json, p_error text, p_attempts integer, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION allow(p_key_id text, p_rate double precision, p_wanted integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.allow(p_key_id text, p_rate double precision, p_wanted integer) FROM PUBLIC;


--
-- Name: FUNCTION allowance(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.allowance(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION allowed_share(p_wish integer, p_share integer, p_reserved bigint, p_free bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.allowed_share(p_wish integer, p_share integer, p_reserved bigint, p_free bigint) FROM PUBLIC;


--
-- Name: FUNCTION append(p_ids bigint[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.append(p_ids bigint[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision) FROM PUBLIC;


--
-- Name: FUNCTION apply_definition(p_definition jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.apply_definition(p_definition jsonb) FROM PUBLIC;


--
-- Name: FUNCTION apply_queue(p_queue queen.queues, p_values jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.apply_queue(p_queue queen.queues, p_values jsonb) FROM PUBLIC;


--
-- Name: FUNCTION apply_shares(p_group_ids bigint[], p_revisions bigint[], p_rates integer[], p_concurrencies integer[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.apply_shares(p_group_ids bigint[], p_revisions bigint[], p_rates integer[], p_concurrencies integer[]) FROM PUBLIC;


--
-- Name: FUNCTION archive_batch(p_name text, p_batch bigint, p_token bigint, p_files bigint, p_messages bigint, p_bytes bigint, p_missed bigint, p_gaps text, p_misfits bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.archive_batch(p_name text, p_batch bigint, p_token bigint, p_files bigint, p_messages bigint, p_bytes bigint, p_missed bigint, p_gaps text, p_misfits bigint) FROM PUBLIC;


--
-- Name: FUNCTION are_settled(p_groups text[], p_partition_ids bigint[], p_offsets bigint[], p_transaction_ids text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.are_settled(p_groups text[], p_partition_ids bigint[], p_offsets bigint[], p_transaction_ids text[]) FROM PUBLIC;


--
-- Name: FUNCTION audit(p_actor text, p_action text, p_queue text, p_record text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.audit(p_actor text, p_action text, p_queue text, p_record text) FROM PUBLIC;


--
-- Name: FUNCTION audit_batch(p_actors text[], p_actions text[], p_queues text[], p_records text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.audit_batch(p_actors text[], p_actions text[], p_queues text[], p_records text[]) FROM PUBLIC;


--
-- Name: FUNCTION audit_hash(p_before bytea, p_id bigint, p_at timestamp with time zone, p_record text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.audit_hash(p_before bytea, p_id bigint, p_at timestamp with time zone, p_record text) FROM PUBLIC;


--
-- Name: FUNCTION backlog(p_queue_id bigint, p_most bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.backlog(p_queue_id bigint, p_most bigint) FROM PUBLIC;


--
-- Name: FUNCTION backoff(p_queue queen.queues, p_attempts integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.backoff(p_queue queen.queues, p_attempts integer) FROM PUBLIC;


--
-- Name: FUNCTION begin_step(p_run queen.workflows, p_step queen.workflow_steps, p_now timestamp with time zone, OUT state text, OUT result json, OUT error text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.begin_step(p_run queen.workflows, p_step queen.workflow_steps, p_now timestamp with time zone, OUT state text, OUT result json, OUT error text) FROM PUBLIC;


--
-- Name: FUNCTION birthplace(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.birthplace() FROM PUBLIC;


--
-- Name: FUNCTION blocks_after(p_partition_id bigint, p_offset bigint, p_generations smallint[], p_valid_from timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.blocks_after(p_partition_id bigint, p_offset bigint, p_generations smallint[], p_valid_from timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION bury(p_delivery queen.deliveries, p_offset bigint, p_attempts integer, p_kind text, p_error text, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.bury(p_delivery queen.deliveries, p_offset bigint, p_attempts integer, p_kind text, p_error text, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION bury_stale(p_group_id bigint, p_queue queen.queues, p_partition_ids bigint[], p_firsts bigint[], p_ends bigint[], p_stale timestamp with time zone, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.bury_stale(p_group_id bigint, p_queue queen.queues, p_partition_ids bigint[], p_firsts bigint[], p_ends bigint[], p_stale timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION by_readiness(p_group_ids bigint[], p_ready_since timestamp with time zone[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.by_readiness(p_group_ids bigint[], p_ready_since timestamp with time zone[]) FROM PUBLIC;


--
-- Name: FUNCTION cancel(p_queue_id bigint, p_transaction_id text, p_group text, p_scheduled_id bigint, p_partition_id bigint, p_offset bigint, p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.cancel(p_queue_id bigint, p_transaction_id text, p_group text, p_scheduled_id bigint, p_partition_id bigint, p_offset bigint, p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION cancel_scheduled(p_queue_id bigint, p_partition_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.cancel_scheduled(p_queue_id bigint, p_partition_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION cancel_workflow(p_id text, p_reason text, p_is_undone boolean, OUT was_running boolean, OUT has_ended boolean, OUT open_steps integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.cancel_workflow(p_id text, p_reason text, p_is_undone boolean, OUT was_running boolean, OUT has_ended boolean, OUT open_steps integer) FROM PUBLIC;


--
-- Name: FUNCTION change_order(p_queue_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.change_order(p_queue_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION change_pin(p_queue_id bigint, p_partition text, p_revision bigint, p_is_ready boolean); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.change_pin(p_queue_id bigint, p_partition text, p_revision bigint, p_is_ready boolean) FROM PUBLIC;


--
-- Name: FUNCTION check_movable(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.check_movable(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION check_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.check_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION chosen_placement(p_options jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.chosen_placement(p_options jsonb) FROM PUBLIC;


--
-- Name: FUNCTION claim_due(p_group_id bigint, p_queue queen.queues, p_level integer, p_partition_ids bigint[], p_since timestamp with time zone, p_left integer[], p_partitions_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_free bigint, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.claim_due(p_group_id bigint, p_queue queen.queues, p_level integer, p_partition_ids bigint[], p_since timestamp with time zone, p_left integer[], p_partitions_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_free bigint, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION claim_homes(p_names text[], p_namespaces text[], p_are_spread boolean[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.claim_homes(p_names text[], p_namespaces text[], p_are_spread boolean[]) FROM PUBLIC;


--
-- Name: FUNCTION claim_new(p_group_id bigint, p_queue queen.queues, p_level integer, p_partition_ids bigint[], p_since timestamp with time zone, p_left integer[], p_partitions_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_free bigint, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.claim_new(p_group_id bigint, p_queue queen.queues, p_level integer, p_partition_ids bigint[], p_since timestamp with time zone, p_left integer[], p_partitions_left integer[], p_leases double precision[], p_auto boolean, p_budget bigint, p_free bigint, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION close_given_slots(p_slots smallint[], p_epochs bigint[], p_to text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.close_given_slots(p_slots smallint[], p_epochs bigint[], p_to text) FROM PUBLIC;


--
-- Name: FUNCTION close_slot(p_slot smallint, p_to text, p_epoch bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.close_slot(p_slot smallint, p_to text, p_epoch bigint) FROM PUBLIC;


--
-- Name: FUNCTION combine(p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_max_delay double precision, p_ids bigint[], p_tokens uuid[], p_offsets int8multirange[], p_ack_partition_ids bigint[], p_nack_ids bigint[], p_nack_tokens uuid[], p_nack_partition_ids bigint[], p_nack_offsets bigint[], p_nack_kinds text[], p_nack_errors text[], p_nack_delays double precision[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[], p_request_ends integer[], p_group_ids bigint[], p_ready_since timestamp with time zone[], p_due_since timestamp with time zone[], p_partition text, p_batches integer[], p_partitions integer[], p_leases double precision[], p_auto boolean, p_due text, p_turn integer, p_producers text[], p_sequences bigint[], p_digests bytea[], p_outcomes bytea[], p_base_producers integer[], p_base_entries integer[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.combine(p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_max_delay double precision, p_ids bigint[], p_tokens uuid[], p_offsets int8multirange[], p_ack_partition_ids bigint[], p_nack_ids bigint[], p_nack_tokens uuid[], p_nack_partition_ids bigint[], p_nack_offsets bigint[], p_nack_kinds text[], p_nack_errors text[], p_nack_delays double precision[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[], p_request_ends integer[], p_group_ids bigint[], p_ready_since timestamp with time zone[], p_due_since timestamp with time zone[], p_partition text, p_batches integer[], p_partitions integer[], p_leases double precision[], p_auto boolean, p_due text, p_turn integer, p_producers text[], p_sequences bigint[], p_digests bytea[], p_outcomes bytea[], p_base_producers integer[], p_base_entries integer[]) FROM PUBLIC;


--
-- Name: FUNCTION compare_blocks(p_partition_ids bigint[], p_known_offsets bigint[], p_known_ats timestamp with time zone[], p_known_seconds double precision[], p_gap_bytes bigint, p_windows interval[], p_generations smallint[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.compare_blocks(p_partition_ids bigint[], p_known_offsets bigint[], p_known_ats timestamp with time zone[], p_known_seconds double precision[], p_gap_bytes bigint, p_windows interval[], p_generations smallint[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION complete(p_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_offsets bigint[], p_kinds text[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.complete(p_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_offsets bigint[], p_kinds text[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[]) FROM PUBLIC;


--
-- Name: FUNCTION configure(p_name text, p_namespace text, p_task text, p_options jsonb, p_replace boolean, p_version bigint, p_defaults jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.configure(p_name text, p_namespace text, p_task text, p_options jsonb, p_replace boolean, p_version bigint, p_defaults jsonb) FROM PUBLIC;


--
-- Name: FUNCTION configure_partition(p_queue text, p_partition text, p_priority integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.configure_partition(p_queue text, p_partition text, p_priority integer) FROM PUBLIC;


--
-- Name: FUNCTION copy_homes(p_names text[], p_slots smallint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.copy_homes(p_names text[], p_slots smallint[]) FROM PUBLIC;


--
-- Name: FUNCTION copy_slot(p_slot smallint, p_to text, p_copier uuid); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.copy_slot(p_slot smallint, p_to text, p_copier uuid) FROM PUBLIC;


--
-- Name: FUNCTION count(p_process bigint, p_minute timestamp with time zone, p_rows jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.count(p_process bigint, p_minute timestamp with time zone, p_rows jsonb) FROM PUBLIC;


--
-- Name: FUNCTION count_of(p_offsets int8multirange); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.count_of(p_offsets int8multirange) FROM PUBLIC;


--
-- Name: FUNCTION count_purge(p_queue text, p_partition text, p_completed boolean, p_before timestamp with time zone, p_most integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.count_purge(p_queue text, p_partition text, p_completed boolean, p_before timestamp with time zone, p_most integer) FROM PUBLIC;


--
-- Name: FUNCTION cut(p_partition_id bigint, p_queue_id bigint, p_end bigint, p_most integer, p_reason text, OUT messages bigint, OUT segments integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.cut(p_partition_id bigint, p_queue_id bigint, p_end bigint, p_most integer, p_reason text, OUT messages bigint, OUT segments integer) FROM PUBLIC;


--
-- Name: FUNCTION decide_shares(p_group_id bigint, p_reports jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.decide_shares(p_group_id bigint, p_reports jsonb) FROM PUBLIC;


--
-- Name: FUNCTION dedup_class(p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.dedup_class(p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION dedup_generation(p_class integer, p_at timestamp with time zone, p_back integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.dedup_generation(p_class integer, p_at timestamp with time zone, p_back integer) FROM PUBLIC;


--
-- Name: FUNCTION dedup_generations(p_partition_ids bigint[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.dedup_generations(p_partition_ids bigint[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION dedup_key(p_partition_id bigint, p_transaction_id text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.dedup_key(p_partition_id bigint, p_transaction_id text) FROM PUBLIC;


--
-- Name: FUNCTION dedup_length(p_class integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.dedup_length(p_class integer) FROM PUBLIC;


--
-- Name: FUNCTION dedup_windows(p_partition_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.dedup_windows(p_partition_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION default_options(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.default_options() FROM PUBLIC;


--
-- Name: FUNCTION defer(p_ids bigint[], p_tokens uuid[], p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.defer(p_ids bigint[], p_tokens uuid[], p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION definition(p_queue_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.definition(p_queue_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION definition_digest(p_queue_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.definition_digest(p_queue_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION delete_group(p_queue text, p_group text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.delete_group(p_queue text, p_group text) FROM PUBLIC;


--
-- Name: FUNCTION delete_queue(p_queue text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.delete_queue(p_queue text) FROM PUBLIC;


--
-- Name: FUNCTION delete_workflow(p_id text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.delete_workflow(p_id text) FROM PUBLIC;


--
-- Name: FUNCTION delivery_id(p_partition_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.delivery_id(p_partition_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION drop_archive(p_name text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.drop_archive(p_name text) FROM PUBLIC;


--
-- Name: FUNCTION drop_expired(p_delivery queen.deliveries, p_dead int8multirange); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.drop_expired(p_delivery queen.deliveries, p_dead int8multirange) FROM PUBLIC;


--
-- Name: FUNCTION drop_steps(p_id text, p_steps text[], p_parts integer[], p_tokens uuid[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.drop_steps(p_id text, p_steps text[], p_parts integer[], p_tokens uuid[]) FROM PUBLIC;


--
-- Name: FUNCTION due_deliveries(p_group_id bigint, p_is_spread boolean, p_level integer, p_partition_ids bigint[], p_since timestamp with time zone, p_now timestamp with time zone, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.due_deliveries(p_group_id bigint, p_is_spread boolean, p_level integer, p_partition_ids bigint[], p_since timestamp with time zone, p_now timestamp with time zone, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION due_partitions(p_queue_id bigint, p_kind text, p_cut timestamp with time zone, p_before xid8, p_limit integer, p_now timestamp with time zone, OUT partition_ids bigint[], OUT is_over boolean, OUT lag_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.due_partitions(p_queue_id bigint, p_kind text, p_cut timestamp with time zone, p_before xid8, p_limit integer, p_now timestamp with time zone, OUT partition_ids bigint[], OUT is_over boolean, OUT lag_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION due_schedules(p_holder bigint, p_seconds double precision, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.due_schedules(p_holder bigint, p_seconds double precision, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION end_at(p_ends bytea, p_index integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.end_at(p_ends bytea, p_index integer) FROM PUBLIC;


--
-- Name: FUNCTION end_batch(p_sequence bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.end_batch(p_sequence bigint) FROM PUBLIC;


--
-- Name: FUNCTION end_bytes(p_end integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.end_bytes(p_end integer) FROM PUBLIC;


--
-- Name: FUNCTION end_forwards(p_queue text, p_sequence bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.end_forwards(p_queue text, p_sequence bigint) FROM PUBLIC;


--
-- Name: FUNCTION end_reservation(p_name text, p_database text, p_until timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.end_reservation(p_name text, p_database text, p_until timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION end_workflow(p_run queen.workflows, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.end_workflow(p_run queen.workflows, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION ends_of(p_values bytea[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.ends_of(p_values bytea[]) FROM PUBLIC;


--
-- Name: FUNCTION enqueue(queue text, payload json, partition text, transaction_id text, delay_seconds double precision, available_at timestamp with time zone, ttl_seconds double precision, priority integer, headers json, trace_id text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.enqueue(queue text, payload json, partition text, transaction_id text, delay_seconds double precision, available_at timestamp with time zone, ttl_seconds double precision, priority integer, headers json, trace_id text) FROM PUBLIC;


--
-- Name: FUNCTION enqueue_step(p_run queen.workflows, p_step queen.workflow_steps, p_ours json, p_item json, p_part integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.enqueue_step(p_run queen.workflows, p_step queen.workflow_steps, p_ours json, p_item json, p_part integer) FROM PUBLIC;


--
-- Name: FUNCTION enter(p_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.enter(p_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION enter_all_partitions(p_queue queen.queues, p_partition text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.enter_all_partitions(p_queue queen.queues, p_partition text) FROM PUBLIC;


--
-- Name: FUNCTION enter_named(p_queues text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.enter_named(p_queues text[]) FROM PUBLIC;


--
-- Name: FUNCTION enter_partitions(p_queue_id bigint, p_partition text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.enter_partitions(p_queue_id bigint, p_partition text) FROM PUBLIC;


--
-- Name: FUNCTION enter_queue(p_queue_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.enter_queue(p_queue_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION enter_spread(p_queue queen.queues); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.enter_spread(p_queue queen.queues) FROM PUBLIC;


--
-- Name: FUNCTION erase(p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.erase(p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION erase_history(p_queue_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.erase_history(p_queue_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION erase_messages(p_queue_id bigint, p_partition_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.erase_messages(p_queue_id bigint, p_partition_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION erase_places(p_partition_ids bigint[], p_group_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.erase_places(p_partition_ids bigint[], p_group_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION erase_result(p_partition_id bigint, p_transaction_id text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.erase_result(p_partition_id bigint, p_transaction_id text) FROM PUBLIC;


--
-- Name: FUNCTION evict(p_epoch bigint, p_queue_id bigint, p_limit integer, p_messages integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.evict(p_epoch bigint, p_queue_id bigint, p_limit integer, p_messages integer) FROM PUBLIC;


--
-- Name: FUNCTION evict_pair(p_queue queen.queues, p_partition_id bigint, p_group_id bigint, p_claimed bigint, p_stale timestamp with time zone, p_messages bigint, p_bytes bigint, p_now timestamp with time zone, OUT messages bigint, OUT bytes bigint, OUT has_more boolean); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.evict_pair(p_queue queen.queues, p_partition_id bigint, p_group_id bigint, p_claimed bigint, p_stale timestamp with time zone, p_messages bigint, p_bytes bigint, p_now timestamp with time zone, OUT messages bigint, OUT bytes bigint, OUT has_more boolean) FROM PUBLIC;


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
-- Name: FUNCTION fail_step(p_id text, p_step text, p_part integer, p_token uuid, p_error text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.fail_step(p_id text, p_step text, p_part integer, p_token uuid, p_error text) FROM PUBLIC;


--
-- Name: FUNCTION fill(p_group_id bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.fill(p_group_id bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION find_deliveries(p_groups text[], p_delivery_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_transaction_ids text[], p_place_ids bigint[], p_place_offsets bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.find_deliveries(p_groups text[], p_delivery_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_transaction_ids text[], p_place_ids bigint[], p_place_offsets bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION find_delivery(p_group text, p_delivery_id bigint, p_token uuid, p_partition_id bigint, p_transaction_id text, p_place_id bigint, p_place_offset bigint, p_most integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.find_delivery(p_group text, p_delivery_id bigint, p_token uuid, p_partition_id bigint, p_transaction_id text, p_place_id bigint, p_place_offset bigint, p_most integer) FROM PUBLIC;


--
-- Name: FUNCTION find_message(p_partition_id bigint, p_transaction_id text, p_most integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.find_message(p_partition_id bigint, p_transaction_id text, p_most integer) FROM PUBLIC;


--
-- Name: FUNCTION find_named(p_delivery_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_transaction_ids text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.find_named(p_delivery_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_transaction_ids text[]) FROM PUBLIC;


--
-- Name: FUNCTION find_place(p_queue_id bigint, p_partition text, p_transaction_id text, p_most integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.find_place(p_queue_id bigint, p_partition text, p_transaction_id text, p_most integer) FROM PUBLIC;


--
-- Name: FUNCTION find_results(p_queue_ids bigint[], p_transaction_ids text[], p_partition_ids bigint[], p_offsets bigint[], p_group text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.find_results(p_queue_ids bigint[], p_transaction_ids text[], p_partition_ids bigint[], p_offsets bigint[], p_group text) FROM PUBLIC;


--
-- Name: FUNCTION fire(p_names text[], p_ticks timestamp with time zone[], p_lasts timestamp with time zone[], p_nexts timestamp with time zone[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.fire(p_names text[], p_ticks timestamp with time zone[], p_lasts timestamp with time zone[], p_nexts timestamp with time zone[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision) FROM PUBLIC;


--
-- Name: FUNCTION first_of(p_offsets int8multirange, p_count bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.first_of(p_offsets int8multirange, p_count bigint) FROM PUBLIC;


--
-- Name: FUNCTION follows_forwards(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.follows_forwards(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION forget_audit(p_epoch bigint, p_seconds double precision, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_audit(p_epoch bigint, p_seconds double precision, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION forget_copy(p_slot smallint, p_to text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_copy(p_slot smallint, p_to text) FROM PUBLIC;


--
-- Name: FUNCTION forget_counters(p_epoch bigint, p_seconds double precision, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_counters(p_epoch bigint, p_seconds double precision, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION forget_generation(p_epoch bigint, p_class integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_generation(p_epoch bigint, p_class integer) FROM PUBLIC;


--
-- Name: FUNCTION forget_keys(p_keys bytea[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_keys(p_keys bytea[]) FROM PUBLIC;


--
-- Name: FUNCTION forget_producers(p_epoch bigint, p_seconds double precision, p_after text, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_producers(p_epoch bigint, p_seconds double precision, p_after text, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION forget_recalled(p_seconds double precision, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_recalled(p_seconds double precision, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION forget_removals(p_epoch bigint, p_seconds double precision, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_removals(p_epoch bigint, p_seconds double precision, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION forget_results(p_epoch bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_results(p_epoch bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION forget_rollups(p_grain_seconds integer, p_seconds double precision, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_rollups(p_grain_seconds integer, p_seconds double precision, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION forget_staged(p_seconds double precision, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_staged(p_seconds double precision, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION forget_traces(p_epoch bigint, p_seconds double precision, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_traces(p_epoch bigint, p_seconds double precision, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION forget_workflows(p_epoch bigint, p_seconds double precision, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forget_workflows(p_epoch bigint, p_seconds double precision, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION forward(p_ids bigint[], p_queues text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forward(p_ids bigint[], p_queues text[]) FROM PUBLIC;


--
-- Name: FUNCTION forward_pushes(p_queues text[], p_items text[], p_payloads text[], p_delays double precision[], p_ids bigint[], p_kinds text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.forward_pushes(p_queues text[], p_items text[], p_payloads text[], p_delays double precision[], p_ids bigint[], p_kinds text[]) FROM PUBLIC;


--
-- Name: FUNCTION free(p_partition_ids bigint[], p_group_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.free(p_partition_ids bigint[], p_group_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION free_shares(p_group_id bigint, p_queue queen.queues, p_reports jsonb, OUT rate bigint, OUT concurrency bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.free_shares(p_group_id bigint, p_queue queen.queues, p_reports jsonb, OUT rate bigint, OUT concurrency bigint) FROM PUBLIC;


--
-- Name: FUNCTION give_back(p_ids bigint[], p_tokens uuid[], p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.give_back(p_ids bigint[], p_tokens uuid[], p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION give_up(p_partition_id bigint, p_offset bigint, p_group text, p_error text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.give_up(p_partition_id bigint, p_offset bigint, p_group text, p_error text) FROM PUBLIC;


--
-- Name: FUNCTION group_figures(p_group_id bigint, p_most integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.group_figures(p_group_id bigint, p_most integer) FROM PUBLIC;


--
-- Name: FUNCTION group_of(p_partition_id bigint, p_group text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.group_of(p_partition_id bigint, p_group text) FROM PUBLIC;


--
-- Name: FUNCTION handed_out(p_delivery queen.deliveries); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.handed_out(p_delivery queen.deliveries) FROM PUBLIC;


--
-- Name: FUNCTION has_partition(p_queue_id bigint, p_partition text, p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.has_partition(p_queue_id bigint, p_partition text, p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION hashed_slot(p_name text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.hashed_slot(p_name text) FROM PUBLIC;


--
-- Name: FUNCTION head_ready(p_partition_id bigint, p_offset bigint, p_seconds double precision, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.head_ready(p_partition_id bigint, p_offset bigint, p_seconds double precision, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION hindrances(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.hindrances(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION hold(p_queue text, p_name text, p_xid xid8); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.hold(p_queue text, p_name text, p_xid xid8) FROM PUBLIC;


--
-- Name: FUNCTION hold_duty(p_name text, p_epoch bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.hold_duty(p_name text, p_epoch bigint) FROM PUBLIC;


--
-- Name: FUNCTION hold_recalled(p_queue text, p_name text, p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.hold_recalled(p_queue text, p_name text, p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION home_slot(p_name text, p_namespace text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.home_slot(p_name text, p_namespace text) FROM PUBLIC;


--
-- Name: FUNCTION is_alive(p_partition_id bigint, p_offset bigint, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.is_alive(p_partition_id bigint, p_offset bigint, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION is_applied(p_kinds text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.is_applied(p_kinds text[]) FROM PUBLIC;


--
-- Name: FUNCTION is_empty_slot(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.is_empty_slot(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION is_first(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.is_first() FROM PUBLIC;


--
-- Name: FUNCTION is_in_log(p_step queen.workflow_steps); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.is_in_log(p_step queen.workflow_steps) FROM PUBLIC;


--
-- Name: FUNCTION is_newer(p_xmin xid, p_since bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.is_newer(p_xmin xid, p_since bigint) FROM PUBLIC;


--
-- Name: FUNCTION is_over(p_id bigint, p_token uuid); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.is_over(p_id bigint, p_token uuid) FROM PUBLIC;


--
-- Name: FUNCTION is_owned(p_partition_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.is_owned(p_partition_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION is_passed(p_queue_id bigint, p_partition_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.is_passed(p_queue_id bigint, p_partition_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION join_databases(p_number smallint, p_name text, p_first text, p_values jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.join_databases(p_number smallint, p_name text, p_first text, p_values jsonb) FROM PUBLIC;


--
-- Name: FUNCTION join_extras(p_extras bytea[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.join_extras(p_extras bytea[]) FROM PUBLIC;


--
-- Name: FUNCTION keep(p_partition_ids bigint[], p_offsets bigint[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.keep(p_partition_ids bigint[], p_offsets bigint[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[]) FROM PUBLIC;


--
-- Name: FUNCTION keep_redriven(p_group_id bigint, p_partition_ids bigint[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.keep_redriven(p_group_id bigint, p_partition_ids bigint[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION keep_sample(p_sample queen.samples); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.keep_sample(p_sample queen.samples) FROM PUBLIC;


--
-- Name: FUNCTION keep_slot(p_slot smallint, p_copier uuid); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.keep_slot(p_slot smallint, p_copier uuid) FROM PUBLIC;


--
-- Name: FUNCTION key_blocks(p_partition_ids bigint[], p_offsets bigint[], p_most_bytes bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.key_blocks(p_partition_ids bigint[], p_offsets bigint[], p_most_bytes bigint) FROM PUBLIC;


--
-- Name: FUNCTION key_in_blocks(p_key bytea, p_partition_id bigint, p_offset bigint, p_generations smallint[], p_valid_from timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.key_in_blocks(p_key bytea, p_partition_id bigint, p_offset bigint, p_generations smallint[], p_valid_from timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION key_in_range(p_partition_id bigint, p_transaction_id text, p_first bigint, p_end bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.key_in_range(p_partition_id bigint, p_transaction_id text, p_first bigint, p_end bigint) FROM PUBLIC;


--
-- Name: FUNCTION keys_in_blocks(p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_partition_ids bigint[], p_known_offsets bigint[], p_hits integer[], p_hit_entries integer[], p_hit_offsets bigint[], p_states text[], p_windows interval[], p_generations smallint[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.keys_in_blocks(p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_partition_ids bigint[], p_known_offsets bigint[], p_hits integer[], p_hit_entries integer[], p_hit_offsets bigint[], p_states text[], p_windows interval[], p_generations smallint[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION keys_of(p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.keys_of(p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[]) FROM PUBLIC;


--
-- Name: FUNCTION lag_of(p_group_id bigint, p_levels integer[], p_most integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.lag_of(p_group_id bigint, p_levels integer[], p_most integer) FROM PUBLIC;


--
-- Name: FUNCTION last_pop_at(p_group_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.last_pop_at(p_group_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION last_request(p_producer_id text, p_scope text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.last_request(p_producer_id text, p_scope text) FROM PUBLIC;


--
-- Name: FUNCTION lead_appending(p_holder bigint, p_seconds double precision, p_is_awake boolean); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.lead_appending(p_holder bigint, p_seconds double precision, p_is_awake boolean) FROM PUBLIC;


--
-- Name: FUNCTION lead_sampling(p_holder bigint, p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.lead_sampling(p_holder bigint, p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION leaders_of(p_id text, p_step queen.workflow_steps); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.leaders_of(p_id text, p_step queen.workflow_steps) FROM PUBLIC;


--
-- Name: FUNCTION leave_slot(p_slot smallint, p_to text, p_copier uuid); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.leave_slot(p_slot smallint, p_to text, p_copier uuid) FROM PUBLIC;


--
-- Name: FUNCTION leave_slots(p_slots smallint[], p_to text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.leave_slots(p_slots smallint[], p_to text) FROM PUBLIC;


--
-- Name: FUNCTION levels_by_turn(p_levels integer[], p_turn integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.levels_by_turn(p_levels integer[], p_turn integer) FROM PUBLIC;


--
-- Name: FUNCTION list_database(p_name text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.list_database(p_name text) FROM PUBLIC;


--
-- Name: FUNCTION live_leases(p_group_id bigint, p_is_spread boolean, p_now timestamp with time zone, p_most bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.live_leases(p_group_id bigint, p_is_spread boolean, p_now timestamp with time zone, p_most bigint) FROM PUBLIC;


--
-- Name: FUNCTION lock_consumers(p_ids bigint[], p_tokens uuid[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.lock_consumers(p_ids bigint[], p_tokens uuid[]) FROM PUBLIC;


--
-- Name: FUNCTION lock_forwards(p_queues text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.lock_forwards(p_queues text[]) FROM PUBLIC;


--
-- Name: FUNCTION lock_limit(p_group_id bigint, p_queue queen.queues, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.lock_limit(p_group_id bigint, p_queue queen.queues, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION lock_slot(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.lock_slot(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION log_start(p_partition_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.log_start(p_partition_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION look_again(p_queue_id bigint, p_kind text, p_ids bigint[], p_locked bigint[], p_lagging bigint[], p_again double precision, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.look_again(p_queue_id bigint, p_kind text, p_ids bigint[], p_locked bigint[], p_lagging bigint[], p_again double precision, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION loss_of(p_step queen.workflow_steps); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.loss_of(p_step queen.workflow_steps) FROM PUBLIC;


--
-- Name: FUNCTION mark_rollup(p_planned_at timestamp with time zone, p_xid xid8); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.mark_rollup(p_planned_at timestamp with time zone, p_xid xid8) FROM PUBLIC;


--
-- Name: FUNCTION may_enter(p_slots smallint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.may_enter(p_slots smallint[]) FROM PUBLIC;


--
-- Name: FUNCTION may_enter_queue(p_queue_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.may_enter_queue(p_queue_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION mean_bytes(p_queue_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.mean_bytes(p_queue_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION message_at(p_delivery queen.deliveries, p_offset bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.message_at(p_delivery queen.deliveries, p_offset bigint) FROM PUBLIC;


--
-- Name: FUNCTION microseconds(p_at timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.microseconds(p_at timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION move_up(p_partition_id bigint, p_end bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.move_up(p_partition_id bigint, p_end bigint) FROM PUBLIC;


--
-- Name: FUNCTION moved_queues(p_names text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.moved_queues(p_names text[]) FROM PUBLIC;


--
-- Name: FUNCTION nack(p_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_offsets bigint[], p_kinds text[], p_errors text[], p_delays double precision[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.nack(p_ids bigint[], p_tokens uuid[], p_partition_ids bigint[], p_offsets bigint[], p_kinds text[], p_errors text[], p_delays double precision[], p_transaction_ids text[], p_results bytea[], p_seconds double precision[]) FROM PUBLIC;


--
-- Name: FUNCTION named_messages(p_partition_id bigint, p_pending int8multirange, p_payload bytea, p_extras bytea); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.named_messages(p_partition_id bigint, p_pending int8multirange, p_payload bytea, p_extras bytea) FROM PUBLIC;


--
-- Name: FUNCTION named_producers(p_producers text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.named_producers(p_producers text[]) FROM PUBLIC;


--
-- Name: FUNCTION new_queue(p_name text, p_namespace text, p_defaults jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.new_queue(p_name text, p_namespace text, p_defaults jsonb) FROM PUBLIC;


--
-- Name: FUNCTION next_at(p_group_id bigint, p_queue queen.queues, p_partition_ids bigint[], p_since timestamp with time zone, p_due_since timestamp with time zone, p_due boolean, p_fresh boolean, p_free bigint, p_opens_at timestamp with time zone, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.next_at(p_group_id bigint, p_queue queen.queues, p_partition_ids bigint[], p_since timestamp with time zone, p_due_since timestamp with time zone, p_due boolean, p_fresh boolean, p_free bigint, p_opens_at timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION next_offsets(p_partition_ids bigint[], p_counts integer[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.next_offsets(p_partition_ids bigint[], p_counts integer[]) FROM PUBLIC;


--
-- Name: FUNCTION note_definition(p_queue_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.note_definition(p_queue_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION note_group(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.note_group() FROM PUBLIC;


--
-- Name: FUNCTION note_queue(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.note_queue() FROM PUBLIC;


--
-- Name: FUNCTION note_reports(p_group_id bigint, p_reports jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.note_reports(p_group_id bigint, p_reports jsonb) FROM PUBLIC;


--
-- Name: FUNCTION note_rewrites(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.note_rewrites() FROM PUBLIC;


--
-- Name: FUNCTION now(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.now() FROM PUBLIC;


--
-- Name: FUNCTION offset_after(p_partition_id bigint, p_at timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.offset_after(p_partition_id bigint, p_at timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION offsets_of_key(p_partition_id bigint, p_transaction_id text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.offsets_of_key(p_partition_id bigint, p_transaction_id text) FROM PUBLIC;


--
-- Name: FUNCTION open_archive(p_name text, p_queue text, p_format text, p_location text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.open_archive(p_name text, p_queue text, p_format text, p_location text) FROM PUBLIC;


--
-- Name: FUNCTION open_of(p_delivery queen.deliveries, p_offsets int8multirange); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.open_of(p_delivery queen.deliveries, p_offsets int8multirange) FROM PUBLIC;


--
-- Name: FUNCTION open_queues(p_id text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.open_queues(p_id text) FROM PUBLIC;


--
-- Name: FUNCTION own_share(p_queue queen.queues, p_limit queen.limits, p_now timestamp with time zone, OUT rate integer, OUT concurrency integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.own_share(p_queue queen.queues, p_limit queen.limits, p_now timestamp with time zone, OUT rate integer, OUT concurrency integer) FROM PUBLIC;


--
-- Name: FUNCTION own_slot(p_slot smallint, p_copier uuid, p_epoch bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.own_slot(p_slot smallint, p_copier uuid, p_epoch bigint) FROM PUBLIC;


--
-- Name: FUNCTION own_slots(p_slots smallint[], p_epochs bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.own_slots(p_slots smallint[], p_epochs bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION owns_slot(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.owns_slot(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION partition_id(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.partition_id(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION partition_ids(p_queues text[], p_partitions text[], p_levels smallint[], p_create boolean, p_defaults jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.partition_ids(p_queues text[], p_partitions text[], p_levels smallint[], p_create boolean, p_defaults jsonb) FROM PUBLIC;


--
-- Name: FUNCTION partition_slot(p_queue_id bigint, p_partition text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.partition_slot(p_queue_id bigint, p_partition text) FROM PUBLIC;


--
-- Name: FUNCTION partition_states(p_queue_id bigint, p_levels integer[], p_most integer, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.partition_states(p_queue_id bigint, p_levels integer[], p_most integer, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION pass(p_ctids tid[], p_partition_ids bigint[], p_group_id bigint, p_queue queen.queues, OUT expired bigint, OUT evicted bigint, OUT unkept bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.pass(p_ctids tid[], p_partition_ids bigint[], p_group_id bigint, p_queue queen.queues, OUT expired bigint, OUT evicted bigint, OUT unkept bigint) FROM PUBLIC;


--
-- Name: FUNCTION pass_ids(p_partition_id bigint, p_delivery_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.pass_ids(p_partition_id bigint, p_delivery_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION pass_over(p_partition_id bigint, p_end bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.pass_over(p_partition_id bigint, p_end bigint) FROM PUBLIC;


--
-- Name: FUNCTION passable(p_partition_id bigint, p_end bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.passable(p_partition_id bigint, p_end bigint) FROM PUBLIC;


--
-- Name: FUNCTION payload_at(p_body bytea, p_ends bytea, p_index integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.payload_at(p_body bytea, p_ends bytea, p_index integer) FROM PUBLIC;


--
-- Name: FUNCTION plan_archive(p_name text, p_end xid8); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.plan_archive(p_name text, p_end xid8) FROM PUBLIC;


--
-- Name: FUNCTION plan_batch(p_queue_id bigint, p_xid xid8, p_partition_id bigint, p_offset bigint, p_end xid8, p_max_messages bigint, p_max_bytes bigint, p_is_whole boolean); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.plan_batch(p_queue_id bigint, p_xid xid8, p_partition_id bigint, p_offset bigint, p_end xid8, p_max_messages bigint, p_max_bytes bigint, p_is_whole boolean) FROM PUBLIC;


--
-- Name: FUNCTION plan_births(p_queue_id bigint, p_birthplace integer, p_start xid8, p_end xid8, p_max_messages bigint, p_max_bytes bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.plan_births(p_queue_id bigint, p_birthplace integer, p_start xid8, p_end xid8, p_max_messages bigint, p_max_bytes bigint) FROM PUBLIC;


--
-- Name: FUNCTION plan_rollup(p_since timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.plan_rollup(p_since timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION pop(p_group_ids bigint[], p_ready_since timestamp with time zone[], p_due_since timestamp with time zone[], p_partition text, p_batches integer[], p_partitions integer[], p_leases double precision[], p_auto boolean, p_due text, p_turn integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.pop(p_group_ids bigint[], p_ready_since timestamp with time zone[], p_due_since timestamp with time zone[], p_partition text, p_batches integer[], p_partitions integer[], p_leases double precision[], p_auto boolean, p_due text, p_turn integer) FROM PUBLIC;


--
-- Name: FUNCTION postpone(p_group_id bigint, p_partition_ids bigint[], p_ctids tid[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.postpone(p_group_id bigint, p_partition_ids bigint[], p_ctids tid[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION promote(p_queue_id bigint, p_limit integer, OUT promoted bigint, OUT expired bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.promote(p_queue_id bigint, p_limit integer, OUT promoted bigint, OUT expired bigint) FROM PUBLIC;


--
-- Name: FUNCTION promote_due(p_epoch bigint, p_after bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.promote_due(p_epoch bigint, p_after bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION publish(p_app_id text, p_queue_id bigint, p_version bigint, p_writes uuid[], p_entries integer[], p_query_id text, p_fingerprint text, OUT outcome text, OUT messages bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.publish(p_app_id text, p_queue_id bigint, p_version bigint, p_writes uuid[], p_entries integer[], p_query_id text, p_fingerprint text, OUT outcome text, OUT messages bigint) FROM PUBLIC;


--
-- Name: FUNCTION pulse(p_id text, p_host text, p_pid integer, p_version text, p_waiters integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.pulse(p_id text, p_host text, p_pid integer, p_version text, p_waiters integer) FROM PUBLIC;


--
-- Name: FUNCTION pulse_v2(p_id text, p_host text, p_pid integer, p_version text, p_waiters integer, p_address text, p_preferred text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.pulse_v2(p_id text, p_host text, p_pid integer, p_version text, p_waiters integer, p_address text, p_preferred text[]) FROM PUBLIC;


--
-- Name: FUNCTION purge(p_queue text, p_partition text, p_completed boolean, p_before timestamp with time zone, p_after bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.purge(p_queue text, p_partition text, p_completed boolean, p_before timestamp with time zone, p_after bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION purge_dead_letters(p_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.purge_dead_letters(p_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION purge_end(p_partition_id bigint, p_queue_id bigint, p_completed boolean, p_before timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.purge_end(p_partition_id bigint, p_queue_id bigint, p_completed boolean, p_before timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION push(p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision, p_known_offsets bigint[], p_known_ats timestamp with time zone[], p_known_seconds double precision[], p_in_blocks boolean[], p_hits integer[], p_hit_entries integer[], p_hit_offsets bigint[], p_gap_bytes bigint, p_digests bytea[], p_outcomes bytea[], p_base_producers integer[], p_base_entries integer[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.push(p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision, p_known_offsets bigint[], p_known_ats timestamp with time zone[], p_known_seconds double precision[], p_in_blocks boolean[], p_hits integer[], p_hit_entries integer[], p_hit_offsets bigint[], p_gap_bytes bigint, p_digests bytea[], p_outcomes bytea[], p_base_producers integer[], p_base_entries integer[]) FROM PUBLIC;


--
-- Name: FUNCTION push_keys(p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_partition_ids bigint[], p_counts integer[], p_now timestamp with time zone, p_known_offsets bigint[], p_in_blocks boolean[], p_hits integer[], p_hit_entries integer[], p_hit_offsets bigint[], p_states text[], p_windows interval[], p_generations smallint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.push_keys(p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_partition_ids bigint[], p_counts integer[], p_now timestamp with time zone, p_known_offsets bigint[], p_in_blocks boolean[], p_hits integer[], p_hit_entries integer[], p_hit_offsets bigint[], p_states text[], p_windows interval[], p_generations smallint[]) FROM PUBLIC;


--
-- Name: FUNCTION queue_figures(p_queue_id bigint, p_most integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.queue_figures(p_queue_id bigint, p_most integer) FROM PUBLIC;


--
-- Name: FUNCTION queue_named(p_queue text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.queue_named(p_queue text) FROM PUBLIC;


--
-- Name: FUNCTION queue_rates(p_queue_id bigint, p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.queue_rates(p_queue_id bigint, p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION rate_opens_at(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.rate_opens_at(p_recent bigint[], p_max integer, p_ms integer, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION ready_groups(p_group_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.ready_groups(p_group_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION recall(p_recall_id uuid, p_queue_id bigint, p_partition_ids bigint[], p_starts bigint[], p_counts bigint[], OUT messages bigint, OUT is_changed boolean); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.recall(p_recall_id uuid, p_queue_id bigint, p_partition_ids bigint[], p_starts bigint[], p_counts bigint[], OUT messages bigint, OUT is_changed boolean) FROM PUBLIC;


--
-- Name: FUNCTION recall_partition(p_recall_id uuid, p_queue_id bigint, p_partition_id bigint, p_start bigint, p_count bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.recall_partition(p_recall_id uuid, p_queue_id bigint, p_partition_id bigint, p_start bigint, p_count bigint) FROM PUBLIC;


--
-- Name: FUNCTION receive_leases(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.receive_leases(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION receive_slot(p_slot smallint, p_source text, p_copier uuid); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.receive_slot(p_slot smallint, p_source text, p_copier uuid) FROM PUBLIC;


--
-- Name: FUNCTION recent_of(p_recent bigint[], p_partition_id bigint, p_group_id bigint, p_queue queen.queues); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.recent_of(p_recent bigint[], p_partition_id bigint, p_group_id bigint, p_queue queen.queues) FROM PUBLIC;


--
-- Name: FUNCTION record_move(p_slot smallint, p_epoch bigint, p_source integer, p_fence xid8); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.record_move(p_slot smallint, p_epoch bigint, p_source integer, p_fence xid8) FROM PUBLIC;


--
-- Name: FUNCTION record_outcomes(p_producers text[], p_sequences bigint[], p_digests bytea[], p_outcomes bytea[], p_base_producers integer[], p_base_entries integer[], p_kinds text[], p_ordinals integer[], p_offsets bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.record_outcomes(p_producers text[], p_sequences bigint[], p_digests bytea[], p_outcomes bytea[], p_base_producers integer[], p_base_entries integer[], p_kinds text[], p_ordinals integer[], p_offsets bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION record_owner(p_slot smallint, p_owner text, p_epoch bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.record_owner(p_slot smallint, p_owner text, p_epoch bigint) FROM PUBLIC;


--
-- Name: FUNCTION record_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone, p_digests bytea[], p_outcomes bytea[], p_base_producers integer[], p_base_entries integer[], p_offsets bigint[], p_stale integer[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.record_producers(p_producers text[], p_sequences bigint[], p_now timestamp with time zone, p_digests bytea[], p_outcomes bytea[], p_base_producers integer[], p_base_entries integer[], p_offsets bigint[], p_stale integer[]) FROM PUBLIC;


--
-- Name: FUNCTION record_rows(p_partition_ids bigint[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.record_rows(p_partition_ids bigint[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION redact(p_partition_id bigint, p_offset bigint, p_base_offset bigint, p_count integer, p_extra bytea, p_before_body bytea, p_before_ends bytea, p_before_extras bytea, p_after_body bytea, p_after_ends bytea, p_after_extras bytea, p_by text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.redact(p_partition_id bigint, p_offset bigint, p_base_offset bigint, p_count integer, p_extra bytea, p_before_body bytea, p_before_ends bytea, p_before_extras bytea, p_after_body bytea, p_after_ends bytea, p_after_extras bytea, p_by text) FROM PUBLIC;


--
-- Name: FUNCTION redrive(p_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.redrive(p_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION redrive_to(p_ids bigint[], p_payloads bytea[], p_extras bytea[], p_partition_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.redrive_to(p_ids bigint[], p_payloads bytea[], p_extras bytea[], p_partition_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION reduce_parts(p_id text, p_step text, p_failed integer, OUT state text, OUT result json, OUT error text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.reduce_parts(p_id text, p_step text, p_failed integer, OUT state text, OUT result json, OUT error text) FROM PUBLIC;


--
-- Name: FUNCTION refusal_of(p_signal text, p_data json); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.refusal_of(p_signal text, p_data json) FROM PUBLIC;


--
-- Name: FUNCTION refuse_batch(p_sequence bigint, p_ids bigint[], p_errors text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.refuse_batch(p_sequence bigint, p_ids bigint[], p_errors text[]) FROM PUBLIC;


--
-- Name: FUNCTION refuse_forwards(p_queue text, p_sequence bigint, p_ids bigint[], p_errors text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.refuse_forwards(p_queue text, p_sequence bigint, p_ids bigint[], p_errors text[]) FROM PUBLIC;


--
-- Name: FUNCTION release(p_ids bigint[], p_tokens uuid[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.release(p_ids bigint[], p_tokens uuid[]) FROM PUBLIC;


--
-- Name: FUNCTION remove_database(p_name text, p_is_removed boolean); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.remove_database(p_name text, p_is_removed boolean) FROM PUBLIC;


--
-- Name: FUNCTION remove_partitions(p_epoch bigint, p_queue_id bigint, p_seconds double precision, p_after_at timestamp with time zone, p_after_id bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.remove_partitions(p_epoch bigint, p_queue_id bigint, p_seconds double precision, p_after_at timestamp with time zone, p_after_id bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION remove_workflows(p_ids text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.remove_workflows(p_ids text[]) FROM PUBLIC;


--
-- Name: FUNCTION renumber(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.renumber() FROM PUBLIC;


--
-- Name: FUNCTION report_duty(p_name text, p_epoch bigint, p_seconds double precision, p_rows bigint, p_lag double precision, p_error text, p_cursor jsonb, p_wait double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.report_duty(p_name text, p_epoch bigint, p_seconds double precision, p_rows bigint, p_lag double precision, p_error text, p_cursor jsonb, p_wait double precision) FROM PUBLIC;


--
-- Name: FUNCTION report_progress(p_id bigint, p_token uuid, p_transaction_id text, p_partition_id bigint, p_offset bigint, p_progress bytea, p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.report_progress(p_id bigint, p_token uuid, p_transaction_id text, p_partition_id bigint, p_offset bigint, p_progress bytea, p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION reserve(p_name text, p_database text, p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.reserve(p_name text, p_database text, p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION reserve_pin(p_queue text, p_partition text, p_slots smallint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.reserve_pin(p_queue text, p_partition text, p_slots smallint[]) FROM PUBLIC;


--
-- Name: FUNCTION reset_steps(p_id text, p_names text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.reset_steps(p_id text, p_names text[]) FROM PUBLIC;


--
-- Name: FUNCTION retain(p_epoch bigint, p_queue_id bigint, p_kind text, p_limit integer, p_again double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.retain(p_epoch bigint, p_queue_id bigint, p_kind text, p_limit integer, p_again double precision) FROM PUBLIC;


--
-- Name: FUNCTION retry(p_partition_id bigint, p_offset bigint, p_group text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.retry(p_partition_id bigint, p_offset bigint, p_group text) FROM PUBLIC;


--
-- Name: FUNCTION retry_workflow(p_id text, p_from text, OUT has_ended boolean); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.retry_workflow(p_id text, p_from text, OUT has_ended boolean) FROM PUBLIC;


--
-- Name: FUNCTION roll_up(p_rows jsonb); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.roll_up(p_rows jsonb) FROM PUBLIC;


--
-- Name: FUNCTION runs_of(p_group_id bigint, p_claim queen.claim); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.runs_of(p_group_id bigint, p_claim queen.claim) FROM PUBLIC;


--
-- Name: FUNCTION sample(p_after bigint, p_limit integer, p_most integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.sample(p_after bigint, p_limit integer, p_most integer) FROM PUBLIC;


--
-- Name: FUNCTION see_to_steps(p_epoch bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.see_to_steps(p_epoch bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION see_to_workflow(p_id text, p_limit integer, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.see_to_workflow(p_id text, p_limit integer, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION seek(p_queue text, p_group text, p_partition text, p_at timestamp with time zone, p_offset bigint, p_after bigint, p_limit integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.seek(p_queue text, p_group text, p_partition text, p_at timestamp with time zone, p_offset bigint, p_after bigint, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION sees(p_queue text, p_namespace text, p_patterns text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.sees(p_queue text, p_namespace text, p_patterns text[]) FROM PUBLIC;


--
-- Name: FUNCTION send_leases(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.send_leases(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION set_aside(p_consumer queen.consumers, p_offset bigint, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.set_aside(p_consumer queen.consumers, p_offset bigint, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION settle(p_id bigint, p_token uuid, p_offsets int8multirange, p_partition_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.settle(p_id bigint, p_token uuid, p_offsets int8multirange, p_partition_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION settle_change(p_queue queen.queues, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.settle_change(p_queue queen.queues, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION settle_steps(p_id text, p_candidates text[], p_names text[], p_states text[], p_results json[], p_errors text[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.settle_steps(p_id text, p_candidates text[], p_names text[], p_states text[], p_results json[], p_errors text[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION settled_to(p_partition_id bigint, p_queue_id bigint, p_end bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.settled_to(p_partition_id bigint, p_queue_id bigint, p_end bigint) FROM PUBLIC;


--
-- Name: FUNCTION share_reports(p_group_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.share_reports(p_group_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION shared_sequences(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.shared_sequences() FROM PUBLIC;


--
-- Name: FUNCTION shorten(p_ids bigint[], p_tokens uuid[], p_ends bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.shorten(p_ids bigint[], p_tokens uuid[], p_ends bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION shorten_waits(p_queue queen.queues, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.shorten_waits(p_queue queen.queues, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION shrink(p_delivery queen.deliveries, p_done int8multirange); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.shrink(p_delivery queen.deliveries, p_done int8multirange) FROM PUBLIC;


--
-- Name: FUNCTION signal_workflow(p_id text, p_signal text, p_outcome text, p_data json, OUT steps integer, OUT taken integer, OUT has_ended boolean); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.signal_workflow(p_id text, p_signal text, p_outcome text, p_data json, OUT steps integer, OUT taken integer, OUT has_ended boolean) FROM PUBLIC;


--
-- Name: FUNCTION slot_of(p_name text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.slot_of(p_name text) FROM PUBLIC;


--
-- Name: FUNCTION slots_of_names(p_queues text[], p_partitions text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.slots_of_names(p_queues text[], p_partitions text[]) FROM PUBLIC;


--
-- Name: FUNCTION spend(p_recent bigint[], p_ms integer, p_now timestamp with time zone, p_count bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.spend(p_recent bigint[], p_ms integer, p_now timestamp with time zone, p_count bigint) FROM PUBLIC;


--
-- Name: FUNCTION split_batch(p_queue_id bigint, p_xid xid8, p_partition_id bigint, p_offset bigint, p_end xid8, p_end_partition_id bigint, p_end_offset bigint, p_tasks integer, p_least bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.split_batch(p_queue_id bigint, p_xid xid8, p_partition_id bigint, p_offset bigint, p_end xid8, p_end_partition_id bigint, p_end_offset bigint, p_tasks integer, p_least bigint) FROM PUBLIC;


--
-- Name: FUNCTION spread_in(p_slot integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.spread_in(p_slot integer) FROM PUBLIC;


--
-- Name: FUNCTION stale_before(p_queue queen.queues, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.stale_before(p_queue queen.queues, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION start_workflow(p_id text, p_name text, p_digest bytea, p_metadata json, p_correlation_id text, p_tags text[], p_headers json, p_trace_id text, p_steps json, p_templates text[], p_items text[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.start_workflow(p_id text, p_name text, p_digest bytea, p_metadata json, p_correlation_id text, p_tags text[], p_headers json, p_trace_id text, p_steps json, p_templates text[], p_items text[]) FROM PUBLIC;


--
-- Name: FUNCTION state_of(p_queue_id bigint, p_partition_id bigint, p_offset bigint, p_group text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.state_of(p_queue_id bigint, p_partition_id bigint, p_offset bigint, p_group text) FROM PUBLIC;


--
-- Name: FUNCTION stored_at(p_partition_id bigint, p_offset bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.stored_at(p_partition_id bigint, p_offset bigint) FROM PUBLIC;


--
-- Name: FUNCTION stored_in(p_queue_id bigint, p_most integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.stored_in(p_queue_id bigint, p_most integer) FROM PUBLIC;


--
-- Name: FUNCTION subscribe(p_queue text, p_group text, p_mode text, p_from timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.subscribe(p_queue text, p_group text, p_mode text, p_from timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION take_batch(p_first_xid bigint, p_limit integer, p_bytes bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.take_batch(p_first_xid bigint, p_limit integer, p_bytes bigint) FROM PUBLIC;


--
-- Name: FUNCTION take_data_key(p_queue_id bigint, p_uses bigint, p_max_uses bigint, p_id integer, p_master_id text, p_wrapped bytea); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.take_data_key(p_queue_id bigint, p_uses bigint, p_max_uses bigint, p_id integer, p_master_id text, p_wrapped bytea) FROM PUBLIC;


--
-- Name: FUNCTION take_duties(p_holder bigint, p_names text[], p_seconds double precision); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.take_duties(p_holder bigint, p_names text[], p_seconds double precision) FROM PUBLIC;


--
-- Name: FUNCTION take_forwards(p_queue text, p_holder bigint, p_seconds double precision, p_limit integer, p_bytes bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.take_forwards(p_queue text, p_holder bigint, p_seconds double precision, p_limit integer, p_bytes bigint) FROM PUBLIC;


--
-- Name: FUNCTION transact(p_nack_ids bigint[], p_nack_tokens uuid[], p_nack_partition_ids bigint[], p_nack_offsets bigint[], p_nack_kinds text[], p_nack_errors text[], p_nack_delays double precision[], p_lease_ids bigint[], p_lease_tokens uuid[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision, p_transaction_ids text[], p_results bytea[], p_seconds double precision[], p_workflows text[], p_steps text[], p_parts integer[], p_step_tokens uuid[], p_outcomes text[], p_step_results text[], p_step_errors text[], p_step_attempts integer[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.transact(p_nack_ids bigint[], p_nack_tokens uuid[], p_nack_partition_ids bigint[], p_nack_offsets bigint[], p_nack_kinds text[], p_nack_errors text[], p_nack_delays double precision[], p_lease_ids bigint[], p_lease_tokens uuid[], p_partition_ids bigint[], p_counts integer[], p_bodies bytea[], p_ends bytea[], p_extras bytea[], p_ttls double precision[], p_keys bytea, p_key_entries integer[], p_key_places integer[], p_key_counts integer[], p_producers text[], p_sequences bigint[], p_scheduled_partition_ids bigint[], p_scheduled_delays double precision[], p_scheduled_dues timestamp with time zone[], p_scheduled_payloads bytea[], p_scheduled_extras bytea[], p_scheduled_ttls double precision[], p_max_delay double precision, p_transaction_ids text[], p_results bytea[], p_seconds double precision[], p_workflows text[], p_steps text[], p_parts integer[], p_step_tokens uuid[], p_outcomes text[], p_step_results text[], p_step_errors text[], p_step_attempts integer[]) FROM PUBLIC;


--
-- Name: FUNCTION trim_start(p_partition_id bigint, p_queue queen.queues, p_kind text, p_cut timestamp with time zone, p_hold xid8, p_most integer, OUT messages bigint, OUT segments integer, OUT is_lagging boolean); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.trim_start(p_partition_id bigint, p_queue queen.queues, p_kind text, p_cut timestamp with time zone, p_hold xid8, p_most integer, OUT messages bigint, OUT segments integer, OUT is_lagging boolean) FROM PUBLIC;


--
-- Name: FUNCTION unhold(p_queue text, p_name text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.unhold(p_queue text, p_name text) FROM PUBLIC;


--
-- Name: FUNCTION unlist_database(p_name text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.unlist_database(p_name text) FROM PUBLIC;


--
-- Name: FUNCTION unpack_blocks(p_partition_ids bigint[], p_generations smallint[], p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.unpack_blocks(p_partition_ids bigint[], p_generations smallint[], p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION unpark(p_partition_id bigint, p_group_id bigint, p_now timestamp with time zone); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.unpark(p_partition_id bigint, p_group_id bigint, p_now timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION waits_for_room(p_group_ids bigint[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.waits_for_room(p_group_ids bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION wake_slot(p_slot smallint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.wake_slot(p_slot smallint) FROM PUBLIC;


--
-- Name: FUNCTION wants_more(p_left integer[], p_partitions_left integer[]); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.wants_more(p_left integer[], p_partitions_left integer[]) FROM PUBLIC;


--
-- Name: FUNCTION warm(); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.warm() FROM PUBLIC;


--
-- Name: FUNCTION whole_queue_named(p_queue text); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.whole_queue_named(p_queue text) FROM PUBLIC;


--
-- Name: FUNCTION withdraw(p_scheduled_id bigint); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.withdraw(p_scheduled_id bigint) FROM PUBLIC;


--
-- Name: FUNCTION work_figures(p_queue_id bigint, p_group text, p_most integer); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.work_figures(p_queue_id bigint, p_group text, p_most integer) FROM PUBLIC;


--
-- Name: FUNCTION xid_at(p_queue_id bigint, p_at timestamp with time zone, p_is_start boolean); Type: ACL; Schema: queen; Owner: -
--

REVOKE ALL ON FUNCTION queen.xid_at(p_queue_id bigint, p_at timestamp with time zone, p_is_start boolean) FROM PUBLIC;


--
-- PostgreSQL database dump complete
--
