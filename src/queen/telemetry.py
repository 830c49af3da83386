"""The catalogue of every metric and every log event."""

from typing import Final, Literal

import msgspec

OTHER: Final = "__other__"
"""The queue and group label of everything beyond the limit of separate counts."""
COUNTED: Final = (
    "pushed",
    "duplicates",
    "popped",
    "acked",
    "nacked",
    "dead_lettered",
    "expired",
    "evicted",
    "leases_expired",
)
"""Counts per queue, group and minute: columns of the counters and the rollups."""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of ``/metrics``."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    """Fixed sets of values, and queue and group; never a partition, a message or a user."""
    merge: Literal["sum", "max"] = "sum"
    """How the values of a host's processes are combined."""
    is_fine: bool = False
    """Histogram bounds double. Otherwise they grow by four, to limit the number of series."""

    @property
    def owner(self) -> str | None:
        """The label that names a queue or pipeline; None: the metric is about the whole server."""
        return next((label for label in self.labels if label in ("queue", "pipeline")), None)


_PAIR: Final = ("queue", "group")
_JOB: Final = ("queue", "name")


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=f"queen_{name}", kind="counter", help=text, labels=labels)


def _gauge(name: str, text: str, *labels: str, merge: Literal["sum", "max"] = "sum") -> Metric:
    return Metric(name=f"queen_{name}", kind="gauge", help=text, labels=labels, merge=merge)


def _histogram(name: str, text: str, *labels: str, is_fine: bool = False) -> Metric:
    return Metric(name=f"queen_{name}", kind="histogram", help=text, labels=labels, is_fine=is_fine)


PUSHED: Final = _counter("messages_pushed_total", "Messages stored, including scheduled.", "queue")
DEDUPLICATED: Final = _counter(
    "messages_deduplicated_total", "Messages whose transactionId was already stored.", "queue"
)
POPPED: Final = _counter("messages_popped_total", "Messages delivered.", *_PAIR)
ACKED: Final = _counter("messages_acked_total", "Messages acknowledged as completed.", *_PAIR)
NACKED: Final = _counter("messages_nacked_total", "Messages nacked: failed or retry.", *_PAIR)
DEAD_LETTERED: Final = _counter("messages_dead_lettered_total", "Messages dead-lettered.", *_PAIR)
REDRIVEN: Final = _counter("messages_redriven_total", "Dead letters redriven.", *_PAIR)
REDELIVERED: Final = _counter(
    "messages_redelivered_total",
    "Messages delivered again, after a failed attempt (retry) or as dead letters (redrive).",
    *_PAIR,
    "reason",
)
DROPPED: Final = _counter(
    "messages_dropped_total",
    "Messages removed without an acknowledgment: expired (ttl), or on a queue without dead "
    "letters out of attempts (attempts) or waiting too long (evicted).",
    *_PAIR,
    "reason",
)
DAMAGED: Final = _counter(
    "messages_damaged_total",
    "Messages that a pop claimed but could not decode, counted again for each retry.",
    *_PAIR,
)
EMPTY: Final = _counter("pops_empty_total", "Pops that returned no messages.", *_PAIR)
LAPSED: Final = _counter("deliveries_expired_total", "Leases that expired.", *_PAIR)
EXTENDED: Final = _counter("deliveries_extended_total", "Leases extended.")
REFUSED: Final = _counter(
    "deliveries_refused_total", "Calls rejected because their lease was not current.", "verb"
)
TRANSACTIONS: Final = _counter(
    "transactions_total", "Transactions: applied, replayed or rejected.", "outcome"
)
RATE_LIMITED: Final = _counter(
    "rate_limited_total", "Calls rejected with 429 or as overloaded.", "code"
)
AUTH_FAILURES: Final = _counter(
    "auth_failures_total", "Calls rejected for authentication or permission.", "reason"
)
ERRORS: Final = _counter(
    "unexpected_errors_total", "Calls that failed with an unexpected error, a bug.", "route"
)
JOBS_ADDED: Final = _counter(
    "jobs_added_total", "Jobs added: messages stored in unordered queues.", "queue"
)
JOBS_COMPLETED: Final = _counter(
    "jobs_completed_total", "Jobs completed by their processors.", *_JOB
)
JOBS_FAILED: Final = _counter(
    "jobs_failed_total", "Jobs that failed for good: dead letters.", *_JOB
)
JOBS_RETRIED: Final = _counter(
    "jobs_retried_total", "Failed attempts at jobs that are retried.", *_JOB
)

QUEUE_MESSAGES: Final = _gauge(
    "queue_messages", "Unacknowledged messages of the slowest group, as last sampled.", "queue"
)
QUEUE_BYTES: Final = _gauge(
    "queue_bytes",
    "Payload bytes of these messages, estimated from the newest hundred segments.",
    "queue",
)
QUEUE_PAUSED: Final = _gauge("queue_paused", "1 while a queue is paused.", "queue")
GROUP_LAG: Final = _gauge(
    "group_lag_messages", "Unacknowledged messages of a group, as last sampled.", *_PAIR
)
OLDEST: Final = _gauge(
    "group_oldest_message_age_seconds",
    "Age of the oldest unacknowledged message of a group, as last sampled.",
    *_PAIR,
)
DELIVERIES: Final = _gauge("deliveries", "Deliveries that are leased or wait for a retry.", *_PAIR)
DEAD_LETTERS: Final = _gauge("dead_letters", "Dead letters, counted up to 10,000.", "queue")
SCHEDULED: Final = _gauge(
    "scheduled_messages", "Messages that are not due yet, counted up to 10,000.", "queue"
)
PARTITIONS: Final = _gauge(
    "partitions",
    "Partitions with available messages (ready), leased messages (leased) or neither (idle), "
    "counted up to 10,000.",
    "queue",
    "state",
)
WAITERS: Final = _gauge("waiters", "Pops that wait for messages.", *_PAIR)
JOBS_RUNNING: Final = _gauge("jobs_running", "Jobs in progress.", "queue")
WORKERS: Final = _gauge("workers", "Job workers with a recent report.", "queue")

WAIT: Final = _histogram("message_wait_seconds", "From push to pop, per message.", *_PAIR)
PROCESSING: Final = _histogram(
    "message_processing_seconds", "From pop to acknowledgment, per message.", *_PAIR
)
JOB_DURATION: Final = _histogram("job_duration_seconds", "Duration of one attempt at a job.", *_JOB)
HTTP: Final = _histogram(
    "http_request_seconds",
    "From the headers of a request to its response, including the wait of long polls.",
    "route",
    "method",
    "status",
)
STREAM_OPERATIONS: Final = _histogram(
    "stream_operation_seconds",
    "From a frame of a stream to the result of its operation, including the wait of pops.",
    "operation",
    "status",
)
FLUSH_SECONDS: Final = _histogram(
    "flush_seconds", "Duration of one flush: many calls, one transaction.", "kind", is_fine=True
)
FLUSH_MESSAGES: Final = _histogram(
    "flush_messages", "Messages (push, pop) or deliveries (ack) per flush.", "kind"
)
COMBINED_CALLS: Final = _counter(
    "combined_calls_total",
    "Transactions that carried pushes, acks and pops together (stored), and those that failed, "
    "mostly because of a lock, so that each part was sent separately (split).",
    "result",
)
DB_CALL: Final = _histogram(
    "db_call_seconds", "Duration of one statement, without the wait for a connection.", "call"
)
DB_POOL_WAIT: Final = _histogram(
    "db_pool_wait_seconds", "Wait for a connection from the pool.", is_fine=True
)

DB_POOL: Final = _gauge("db_pool_connections", "Connections of the pool: idle or used.", "state")
DB_WAITING: Final = _gauge("db_pool_waiting", "Calls that wait for a connection.")
BUFFER_MESSAGES: Final = _gauge(
    "failover_buffer_messages", "Messages on disk that are not stored yet.", merge="max"
)
BUFFER_BYTES: Final = _gauge("failover_buffer_bytes", "Size of the buffer files.", merge="max")
BUFFER_OLDEST: Final = _gauge(
    "failover_buffer_oldest_seconds", "Age of the oldest buffered message.", merge="max"
)
CACHE_BYTES: Final = _gauge("segment_cache_bytes", "Recent segments kept in memory.")
CACHE_HITS: Final = _counter("segment_cache_hits_total", "Segments found in memory.")
CACHE_MISSES: Final = _counter("segment_cache_misses_total", "Segments read from the database.")
LOOP_LAG: Final = _gauge(
    "event_loop_lag_seconds",
    "Largest delay of an event loop in the last second, over all processes.",
    merge="max",
)
LOOP_STALLS: Final = _histogram("event_loop_stall_seconds", "Stalls of an event loop above 250 ms.")
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
STREAMS: Final = _gauge("stream_connections", "Open streams of clients.")
STREAM_FRAMES: Final = _counter(
    "stream_frames_total", "Frames of streams with operations or results.", "direction"
)
FOLLOWED: Final = _counter(
    "slot_follows_total", "Requests repeated because their slot moved to another database."
)
SLOTS: Final = _gauge(
    "slots",
    "Slots of a database by state: `owned`, `leaving`, `gone`.",
    "database",
    "state",
    merge="max",
)
SLOT_BYTES: Final = _gauge(
    "slot_bytes_per_second",
    "Payload bytes per second that were pushed to a slot in the last five minutes, with several "
    "databases. Idle slots are absent.",
    "database",
    "slot",
    merge="max",
)
SLOT_MOVE: Final = _histogram(
    "slot_move_seconds",
    "Duration of moves of slots with queues: until the calls on the slot wait (`copy`), and while "
    "they wait (`hand_over`).",
    "phase",
)
PROCESSES: Final = _gauge("processes", "Processes in this sum.")
UPKEEP: Final = _gauge(
    "upkeep_last_success_timestamp_seconds",
    "Last success of a background task.",
    "duty",
    merge="max",
)
UPKEEP_LAG: Final = _gauge(
    "upkeep_lag_seconds", "Delay of a background task at its last run.", "duty", merge="max"
)
TABLE_DEAD: Final = _gauge(
    "table_dead_tuples", "Dead rows that wait for vacuum.", "table", merge="max"
)
TABLE_BYTES: Final = _gauge(
    "table_bytes", "Size of a table with its indexes and TOAST.", "table", merge="max"
)
OLDEST_TRANSACTION: Final = _gauge(
    "oldest_transaction_age_seconds", "Age of the oldest open transaction.", merge="max"
)
HORIZON: Final = _gauge(
    "horizon_age_seconds",
    "Age of the oldest open transaction, in any database of the PostgreSQL server, that pipelines, "
    "retention and the outbox wait for.",
    merge="max",
)
HOLD_AGE: Final = _gauge(
    "hold_age_seconds",
    "Age of the oldest message that a hold keeps from retention; 0 if it keeps none.",
    *_JOB,
    merge="max",
)
HOLD_MESSAGES: Final = _gauge(
    "hold_messages",
    "Messages that a hold keeps from retention; absent if there are too many to count.",
    *_JOB,
    merge="max",
)
PIPELINE_LAG_MESSAGES: Final = _gauge(
    "pipeline_lag_messages",
    "Messages that a Spark pipeline has not processed; absent if unknown.",
    "pipeline",
    merge="max",
)
PIPELINE_LAG: Final = _gauge(
    "pipeline_lag_seconds",
    "Age of the oldest message that a Spark pipeline has not processed.",
    "pipeline",
    merge="max",
)
PIPELINE_UPDATED: Final = _gauge(
    "pipeline_last_update_timestamp_seconds",
    "Last report of a Spark pipeline that has not ended.",
    "pipeline",
    merge="max",
)
STARTED: Final = _gauge("start_timestamp_seconds", "Start time of the newest process.", merge="max")
BUILD: Final = _gauge("build_info", "Always 1.", "version", "python", merge="max")

PER_OBJECT: Final = (
    *(QUEUE_MESSAGES, QUEUE_BYTES, QUEUE_PAUSED, GROUP_LAG, OLDEST, DELIVERIES),
    *(DEAD_LETTERS, SCHEDULED, PARTITIONS),
)
"""What ``/metrics/per-object`` serves."""

FOR_ALL: Final = (PROCESSES, STARTED, BUILD)
"""The metrics of the whole server that callers with scopes see."""

METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All metrics, in the order of this file."""


class Event:
    """Names of log events: dotted and constant, so that searches and alerts can rely on them."""

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
    Event.STARTED: "The server is listening. Has its address, processes and version.",
    Event.STOPPING: "The server received a signal. It rejects new work and finishes the rest.",
    Event.STOPPED: "All processes have ended.",
    Event.START_FAILED: "The server could not start. `reason` has the cause.",
    Event.STOP_FAILED: "A component of a process failed to close. The others are closed.",
    Event.SETTING_UNUSED: "A variable of the original Queen has no effect. See `reason`.",
    Event.ROLES_SHARED: "Tokens may carry roles of other applications. `advice` has the fix.",
    Event.WORKER_STARTED: "A worker process is ready.",
    Event.WORKER_ENDED: "A worker process ended unexpectedly and is restarted.",
    Event.LOOP_STALLED: "An event loop stalled for more than 250 ms. `seconds` has the duration, "
    "`route` and `code` the cause, if known.",
    Event.REQUEST: "A request has ended: debug, or warning from status 500 on. Not for probes.",
    Event.UNEXPECTED: "A request failed with an unexpected error. Has the traceback.",
    Event.DATABASE_LOST: "The database is unavailable.",
    Event.DATABASE_BACK: "The database is available again.",
    Event.MESSAGES_DAMAGED: "Stored messages could not be decoded and are retried every minute. "
    "Has the queue, group, partition and offsets.",
    Event.COUNTERS_LATE: "Counters could not be stored. They are kept and retried.",
    Event.SAMPLE_FAILED: "Depths and table sizes could not be sampled.",
    Event.ISSUER_SILENT: "The token issuer did not return its keys or endpoints. Has the reason.",
    Event.KEY_UNREADABLE: "A newer release wrote this API key. The server rejects it. Upgrade.",
    Event.KEYS_NOT_SAVED: "API keys for an outage could not be saved or read. Has the reason.",
    Event.SOCKET_REFUSED: "A WebSocket was rejected.",
    Event.SOCKET_DROPPED: "A WebSocket read too slowly, or was idle for too long.",
    Event.FEED_FAILED: "Open dashboards missed a second of live updates. Has the traceback.",
    Event.LIBRARY: "A log line of a library. `library` has its name.",
}
"""Every event with its description; docs/reference/metrics.md lists the same."""
