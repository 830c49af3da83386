"""The catalogue of every metric and every log event: nothing is served or logged under another."""

from typing import Final, Literal

import msgspec

OTHER: Final = "__other__"
"""The queue and group of what a process does not count apart: it has met too many."""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One name that ``/metrics`` serves."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    """Closed sets, and queue and group; never a partition, a message or a user."""
    merge: Literal["sum", "max"] = "sum"
    """How the figures of a host's processes become one."""
    is_fine: bool = False
    """A histogram whose bounds double; the others' grow by four, for there are many of them."""

    @property
    def owner(self) -> str | None:
        """The label that names something of a tenant; None: it is about the server as a whole."""
        return next((label for label in self.labels if label in ("queue", "pipeline")), None)


_PAIR: Final = ("queue", "group")
_JOB: Final = ("queue", "name")


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=f"queen_{name}", kind="counter", help=text, labels=labels)


def _gauge(name: str, text: str, *labels: str, merge: Literal["sum", "max"] = "sum") -> Metric:
    return Metric(name=f"queen_{name}", kind="gauge", help=text, labels=labels, merge=merge)


def _histogram(name: str, text: str, *labels: str, is_fine: bool = False) -> Metric:
    return Metric(name=f"queen_{name}", kind="histogram", help=text, labels=labels, is_fine=is_fine)


PUSHED: Final = _counter("messages_pushed_total", "Messages stored, scheduled ones too.", "queue")
DEDUPLICATED: Final = _counter(
    "messages_deduplicated_total", "Pushed messages whose transactionId was known.", "queue"
)
POPPED: Final = _counter("messages_popped_total", "Messages handed out.", *_PAIR)
ACKED: Final = _counter("messages_acked_total", "Messages settled as completed.", *_PAIR)
NACKED: Final = _counter("messages_nacked_total", "Messages given back by failed or retry.", *_PAIR)
DEAD_LETTERED: Final = _counter(
    "messages_dead_lettered_total", "Messages that became dead letters.", *_PAIR
)
REDRIVEN: Final = _counter(
    "messages_redriven_total", "Dead letters that were delivered again.", *_PAIR
)
REDELIVERED: Final = _counter(
    "messages_redelivered_total",
    "Messages handed out again, after an attempt that failed (retry) or as dead letters (redrive).",
    *_PAIR,
    "reason",
)
DROPPED: Final = _counter(
    "messages_dropped_total",
    "Messages that ended unsettled: time to live over (ttl), or on a queue without dead letters "
    "out of attempts (attempts) or having waited too long (evicted).",
    *_PAIR,
    "reason",
)
DAMAGED: Final = _counter(
    "messages_damaged_total",
    "Messages that a pop claimed but could not decode, counted again for each retry.",
    *_PAIR,
)
EMPTY: Final = _counter("pops_empty_total", "Pops that were answered with nothing.", *_PAIR)
LAPSED: Final = _counter("deliveries_expired_total", "Leases that ran out.", *_PAIR)
EXTENDED: Final = _counter("deliveries_extended_total", "Leases whose end was moved.")
REFUSED: Final = _counter(
    "deliveries_refused_total", "Calls refused because their lease was not the current one.", "verb"
)
TRANSACTIONS: Final = _counter(
    "transactions_total", "Transactions: applied, replayed or refused.", "outcome"
)
RATE_LIMITED: Final = _counter(
    "rate_limited_total", "Calls refused with 429 or as overloaded.", "code"
)
AUTH_FAILURES: Final = _counter(
    "auth_failures_total", "Calls that were not let in, by the code of the refusal.", "reason"
)
ERRORS: Final = _counter(
    "unexpected_errors_total", "Calls that ended in an error nobody foresaw: a bug.", "route"
)
JOBS_ADDED: Final = _counter(
    "jobs_added_total", "Messages stored in queues without order, which are jobs.", "queue"
)
JOBS_COMPLETED: Final = _counter(
    "jobs_completed_total", "Jobs that their processors completed.", *_JOB
)
JOBS_FAILED: Final = _counter("jobs_failed_total", "Jobs that were given up: dead letters.", *_JOB)
JOBS_RETRIED: Final = _counter(
    "jobs_retried_total", "Attempts at jobs that failed and are followed by another.", *_JOB
)

QUEUE_MESSAGES: Final = _gauge(
    "queue_messages", "Messages that the slowest group has not settled, as last sampled.", "queue"
)
QUEUE_BYTES: Final = _gauge(
    "queue_bytes",
    "Payload of these messages, estimated from the newest hundred segments.",
    "queue",
)
QUEUE_PAUSED: Final = _gauge("queue_paused", "1 while a queue is paused.", "queue")
GROUP_LAG: Final = _gauge(
    "group_lag_messages", "Messages that a group has not settled, as last sampled.", *_PAIR
)
OLDEST: Final = _gauge(
    "group_oldest_message_age_seconds",
    "Age of the oldest message that a group has not settled, as last sampled.",
    *_PAIR,
)
DELIVERIES: Final = _gauge(
    "deliveries", "Deliveries that are out or wait for their next attempt.", *_PAIR
)
DEAD_LETTERS: Final = _gauge("dead_letters", "Dead letters, counted up to 10,000.", "queue")
SCHEDULED: Final = _gauge(
    "scheduled_messages", "Messages that are not due yet, counted up to 10,000.", "queue"
)
PARTITIONS: Final = _gauge(
    "partitions",
    "Partitions with something to give (ready), messages out (leased) or neither (idle), counted "
    "up to 10,000.",
    "queue",
    "state",
)
WAITERS: Final = _gauge("waiters", "Pops that wait for messages.", *_PAIR)
JOBS_RUNNING: Final = _gauge("jobs_running", "Jobs that workers run now.", "queue")
WORKERS: Final = _gauge("workers", "Workers of jobs that were heard of just now.", "queue")

WAIT: Final = _histogram("message_wait_seconds", "From push to pop, per message.", *_PAIR)
PROCESSING: Final = _histogram(
    "message_processing_seconds", "From pop to settlement, per message.", *_PAIR
)
JOB_DURATION: Final = _histogram("job_duration_seconds", "One attempt at a job.", *_JOB)
HTTP: Final = _histogram(
    "http_request_seconds",
    "From the headers of a call to its answer; long polls are long.",
    "route",
    "method",
    "status",
)
FLUSH_SECONDS: Final = _histogram(
    "flush_seconds", "One flush: many calls, one transaction.", "kind", is_fine=True
)
FLUSH_MESSAGES: Final = _histogram(
    "flush_messages", "Messages (push, pop) or deliveries (ack) of one flush.", "kind"
)
DB_CALL: Final = _histogram(
    "db_call_seconds", "One statement, without the wait for a connection.", "call"
)
DB_POOL_WAIT: Final = _histogram(
    "db_pool_wait_seconds", "Wait for a connection of the pool.", is_fine=True
)

DB_POOL: Final = _gauge("db_pool_connections", "Connections of the pool: idle or used.", "state")
DB_WAITING: Final = _gauge("db_pool_waiting", "Calls that wait for a connection.")
BUFFER_MESSAGES: Final = _gauge(
    "failover_buffer_messages", "Messages on disk that are not stored yet.", merge="max"
)
BUFFER_BYTES: Final = _gauge(
    "failover_buffer_bytes", "Size of the files that hold them.", merge="max"
)
BUFFER_OLDEST: Final = _gauge(
    "failover_buffer_oldest_seconds", "How long the oldest of them is there.", merge="max"
)
CACHE_BYTES: Final = _gauge("segment_cache_bytes", "Recent segments kept in memory.")
CACHE_HITS: Final = _counter("segment_cache_hits_total", "Segments found in memory.")
CACHE_MISSES: Final = _counter("segment_cache_misses_total", "Segments read from the database.")
LOOP_LAG: Final = _gauge(
    "event_loop_lag_seconds",
    "How late the event loop of the slowest process was in the last second, at worst.",
    merge="max",
)
LOOP_STALLS: Final = _histogram(
    "event_loop_stall_seconds", "How long an event loop stood still, if for more than 250 ms."
)
CONNECTIONS: Final = _gauge("http_connections", "Open connections of clients.")
REQUEST_BYTES: Final = _gauge(
    "http_request_bytes_in_flight",
    "Memory for the bodies of requests in progress; at most QUEEN_MAX_INFLIGHT_BYTES per process.",
)
UNSENT_BYTES: Final = _gauge(
    "http_response_bytes_unsent",
    "Responses that clients have not read yet; at most QUEEN_MAX_UNSENT_BYTES per process.",
)
WEBSOCKETS: Final = _gauge("websocket_connections", "Open dashboards.")
PROCESSES: Final = _gauge("processes", "Processes that this answer sums up.")
UPKEEP: Final = _gauge(
    "upkeep_last_success_timestamp_seconds", "When a duty was last done.", "duty", merge="max"
)
UPKEEP_LAG: Final = _gauge(
    "upkeep_lag_seconds", "How far behind a duty was when it last ran.", "duty", merge="max"
)
TABLE_DEAD: Final = _gauge(
    "table_dead_tuples", "Row versions that wait for vacuum.", "table", merge="max"
)
TABLE_BYTES: Final = _gauge(
    "table_bytes", "Size of a table with its indexes and TOAST.", "table", merge="max"
)
OLDEST_TRANSACTION: Final = _gauge(
    "oldest_transaction_age_seconds", "Age of the oldest open transaction.", merge="max"
)
PIPELINE_LAG_MESSAGES: Final = _gauge(
    "pipeline_lag_messages",
    "Messages that a pipeline on Spark has not done; absent where that is not known.",
    "pipeline",
    merge="max",
)
PIPELINE_LAG: Final = _gauge(
    "pipeline_lag_seconds",
    "Age of the oldest message that a pipeline on Spark has not done.",
    "pipeline",
    merge="max",
)
PIPELINE_UPDATED: Final = _gauge(
    "pipeline_last_update_timestamp_seconds",
    "When a pipeline on Spark that has not ended was last heard of.",
    "pipeline",
    merge="max",
)
STARTED: Final = _gauge(
    "start_timestamp_seconds", "When the youngest process started.", merge="max"
)
BUILD: Final = _gauge("build_info", "Always 1.", "version", "python", merge="max")

PER_OBJECT: Final = (
    *(QUEUE_MESSAGES, QUEUE_BYTES, QUEUE_PAUSED, GROUP_LAG, OLDEST, DELIVERIES),
    *(DEAD_LETTERS, SCHEDULED, PARTITIONS),
)
"""What ``/metrics/per-object`` serves."""

FOR_ALL: Final = (PROCESSES, STARTED, BUILD)
"""What callers with scopes see of the server as a whole: nothing that tells what others do."""

METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All of them, in the order of this page."""


class Event:
    """Names of log events: dotted, constant, what a search or an alert goes by."""

    STARTED = "server.started"
    STOPPING = "server.stopping"
    STOPPED = "server.stopped"
    START_FAILED = "server.start_failed"
    STOP_FAILED = "server.stop_failed"
    SETTING_UNUSED = "setting.unused"
    ROLES_SHARED = "server.roles_shared"
    WORKER_STARTED = "worker.started"
    WORKER_ENDED = "worker.ended"
    LOOP_STALLED = "loop.stalled"
    REQUEST = "http.request"
    UNEXPECTED = "http.unexpected_error"
    DATABASE_LOST = "database.lost"
    DATABASE_BACK = "database.back"
    MESSAGES_DAMAGED = "messages.damaged"
    COUNTERS_LATE = "counters.flush_failed"
    SAMPLE_FAILED = "sampler.failed"
    ISSUER_SILENT = "issuer.silent"
    KEY_UNREADABLE = "key.unreadable"
    KEYS_NOT_SAVED = "keys.not_saved"
    SOCKET_REFUSED = "websocket.refused"
    SOCKET_DROPPED = "websocket.dropped"
    FEED_FAILED = "dashboard.feed_failed"
    LIBRARY = "library"


EVENTS: Final = {
    Event.STARTED: "The server listens; says where, with how many processes, and its version.",
    Event.STOPPING: "A signal came: nothing new is taken, what runs is finished.",
    Event.STOPPED: "All processes have ended.",
    Event.START_FAILED: "The server could not start; `error` says why.",
    Event.STOP_FAILED: "A part of a process could not be closed; the others were.",
    Event.SETTING_UNUSED: "A variable of the original Queen is set and has no effect; `reason`.",
    Event.ROLES_SHARED: "Tokens may carry roles of other applications; `advice` says what to set.",
    Event.WORKER_STARTED: "A worker process is ready.",
    Event.WORKER_ENDED: "A worker process ended unasked and is started again.",
    Event.LOOP_STALLED: "A process answered nobody for more than 250 ms; `seconds` says how long, "
    "`route` and `code` what ran, if known.",
    Event.REQUEST: "A call was answered: debug, or warning from status 500 on. Never for probes.",
    Event.UNEXPECTED: "A call met an error that nobody foresaw; it has the traceback.",
    Event.DATABASE_LOST: "The database does not answer.",
    Event.DATABASE_BACK: "The database answers again.",
    Event.MESSAGES_DAMAGED: "Stored messages could not be decoded and are retried every minute; "
    "names the queue, group, partition and offsets.",
    Event.COUNTERS_LATE: "Counters could not be stored; they are kept and tried again.",
    Event.SAMPLE_FAILED: "Depths and table sizes could not be sampled.",
    Event.ISSUER_SILENT: "The issuer of tokens did not tell its keys or endpoints; says why.",
    Event.KEY_UNREADABLE: "A newer release wrote this API key; the server rejects it. Upgrade.",
    Event.KEYS_NOT_SAVED: "API keys for an outage could not be saved or read; says why.",
    Event.SOCKET_REFUSED: "A WebSocket was not let in.",
    Event.SOCKET_DROPPED: "A WebSocket read too slowly, or said nothing for too long.",
    Event.FEED_FAILED: "Open dashboards missed a second of live updates; has the traceback.",
    Event.LIBRARY: "A line of a library, whose name is in `library`.",
}
"""Every event and what it tells; the reference page lists the same."""
