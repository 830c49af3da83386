"""Every setting of the server, with its default and its description in the reference."""

from typing import Annotated, Literal

import msgspec
from msgspec import field

Count = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Millis = Annotated[float, msgspec.Meta(gt=0)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
TraceUrl = Annotated[str, msgspec.Meta(pattern=r"^https?://\S*\{traceId\}\S*\Z")]
PathPrefix = Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9._~-]+)*\Z")]


def variable(name: str) -> str:
    """Return the environment variable of a field without an explicit name."""
    return f"QUEEN_{name.upper()}"


class SettingFields(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=variable
):
    """
    Each field is the variable ``QUEEN_<FIELD>``, unless it has an explicit name.

    `make reference` writes the docstrings and the comments above them to the page Settings.
    """

    # Listen address and processes.
    host: str | None = field(default=None, name="HOST")
    """Address to listen on. By default loopback without authentication, otherwise all addresses."""
    port: Port = field(default=6632, name="PORT")
    """Port of the HTTP server."""
    num_workers: Amount = field(default=0, name="NUM_WORKERS")
    """Number of worker processes. 0: one per core that the container or affinity allows."""
    worker_id: str | None = field(default=None, name="WORKER_ID")
    """Name of this host in lists of processes. By default the host name and the process id."""
    shutdown_seconds: Seconds = 25.0
    """Time that a stopping server waits for running requests."""
    tls_certificate: str | None = None
    """File with the server's certificate chain (PEM). If set, the server accepts only TLS."""
    tls_key: str | None = None
    """File with its private key (PEM)."""
    tls_client_ca: str | None = None
    """Certificate authority that must have signed the certificates of clients."""
    behind_proxy: bool = False
    """Set to true if a proxy terminates TLS. The server then trusts its X-Forwarded headers."""
    path_prefix: PathPrefix = ""
    """Path under which a proxy exposes this server, for example `/queen`. The server accepts paths
    with and without it."""
    environment: str | None = None
    """Name of this installation in the dashboard, for example `production` (red) or `staging`."""
    trace_url: TraceUrl | None = None
    """URL of a trace in your tracing system, with `{traceId}` in it. The dashboard links to it."""

    # Authentication and CORS.
    auth: str | None = None
    """`keys`, `jwt` or `keys,jwt`. If unset, every caller that reaches the server has all
    permissions."""
    insecure: bool = False
    """Serve other machines without authentication or TLS. Every caller can then delete messages."""
    allowed_hosts: str | None = None
    """Additional host names that a server without authentication accepts, separated by commas."""
    key_grace_seconds: Amount = 300
    """How long a server without `FILE_BUFFER_DIR` accepts API keys it has seen while the database
    is unavailable. With it, keys are accepted for the whole outage. 0: reject all keys during an
    outage."""
    jwt_algorithms: str = field(default="RS256", name="JWT_ALGORITHMS")
    """Only `HS256`, or some of `RS256`, `ES256`, `EdDSA`."""
    jwt_secret: str | None = field(default=None, name="JWT_SECRET")
    """Secret for HS256, at least 32 bytes."""
    jwt_public_key: str | None = field(default=None, name="JWT_PUBLIC_KEY")
    """Public key for the other algorithms: PEM, or the name of a PEM file."""
    jwt_jwks_url: str | None = field(default=None, name="JWT_JWKS_URL")
    """URL of the issuer's public keys (https), instead of `JWT_PUBLIC_KEY`."""
    jwt_issuer: str | None = field(default=None, name="JWT_ISSUER")
    """Required value of `iss`."""
    jwt_audience: str | None = field(default=None, name="JWT_AUDIENCE")
    """Value that `aud` must contain."""
    jwt_roles_claim: str | None = field(default=None, name="JWT_ROLES_CLAIM")
    """Claim that holds the roles: a name, or a path such as `resource_access.queen.roles`. Its
    value is one role or a list. By default `role`, or the list `roles`."""
    jwt_roles_prefix: str | None = field(default=None, name="JWT_ROLES_PREFIX")
    """Only roles that start with this count, for example `queen:` for `queen:admin`. Set it if
    other applications put roles into the same claim."""
    jwt_leeway_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = field(
        default=30, name="JWT_LEEWAY_SECONDS"
    )
    """Allowed difference between clocks, at most 60."""
    oidc_client_id: str | None = field(default=None, name="OIDC_CLIENT_ID")
    """Public client id of the dashboard at `JWT_ISSUER`. If set, people sign in there."""
    oidc_scopes: str = field(default="openid profile", name="OIDC_SCOPES")
    """Scopes that the dashboard requests, separated by spaces. With `offline_access`, most
    providers let it renew its tokens."""
    oidc_token: Literal["access", "id"] = field(default="access", name="OIDC_TOKEN")
    """Token that the dashboard sends to this server: `access`, or `id` if the provider's access
    tokens are not JWTs."""
    oidc_name: str | None = field(default=None, name="OIDC_NAME")
    """Provider name on the button *Sign in with*. By default the host of `JWT_ISSUER`."""
    cors_allowed_origins: str | None = field(default=None, name="CORS_ALLOWED_ORIGINS")
    """Other origins whose pages may call this server, separated by commas. `*` is only allowed with
    authentication."""
    cors_max_age_seconds: Amount = field(default=86_400, name="CORS_MAX_AGE")
    """Time for which a browser caches the CORS permission, in seconds."""
    cors_allowed_methods: str = field(
        default="GET,POST,PUT,DELETE,OPTIONS", name="CORS_ALLOWED_METHODS"
    )
    """Methods that these pages may use."""
    cors_allowed_headers: str = field(
        default="Content-Type,Authorization", name="CORS_ALLOWED_HEADERS"
    )
    """Headers that these pages may send."""

    # Database.
    database_url: str | None = field(default=None, name="DATABASE_URL")
    """Connection URL, instead of the PG_ variables. With several hosts, `//user@a:5432,b:5432/db`,
    the server uses the one that accepts writes."""
    databases: str | None = field(default=None, name="QUEEN_DATABASES")
    """Several databases as one queue: `NAME=URL` of each, separated by spaces. The first one also
    has API keys, the audit log and the slots of all queues. Replaces `DATABASE_URL` and the
    variables `PG_HOST` to `PG_DB`."""
    preferred_databases: str | None = None
    """Names in `QUEEN_DATABASES`, separated by commas. Clients send messages for these databases to
    this server, and it has 2 connections to each of the others. If unset, it prefers none."""
    advertised_url: str | None = None
    """URL at which clients reach this server. With `QUEEN_PREFERRED_DATABASES`, it must be one of
    the URLs that clients use."""
    pg_host: str = field(default="localhost", name="PG_HOST")
    """Host of PostgreSQL, or the directory of its socket. With several hosts, separated by commas,
    the server uses the one that accepts writes."""
    pg_port: Port = field(default=5432, name="PG_PORT")
    """Port of PostgreSQL."""
    pg_user: str = field(default="postgres", name="PG_USER")
    """User name. The default is usually a superuser: use a separate role."""
    pg_password: str | None = field(default=None, name="PG_PASSWORD")
    """Password."""
    pg_db: str = field(default="postgres", name="PG_DB")
    """Database name."""
    pg_sslmode: SslMode | None = field(default=None, name="PG_SSLMODE")
    """TLS to PostgreSQL: `disable`, `allow`, `prefer`, `require`, `verify-ca` or `verify-full`. If
    unset, `prefer`: TLS if PostgreSQL offers it, with any certificate. Use `verify-full`."""
    pg_sslrootcert: str | None = field(default=None, name="PG_SSLROOTCERT")
    """File with the certificate authorities for PostgreSQL's certificate."""
    pg_sslcert: str | None = field(default=None, name="PG_SSLCERT")
    """File with the client certificate for PostgreSQL."""
    pg_sslkey: str | None = field(default=None, name="PG_SSLKEY")
    """File with the private key of that certificate."""
    app_name: str = field(default="queen", name="APP_NAME")
    """Name of the connections in `pg_stat_activity`."""
    db_pool_size: Count = field(default=10, name="DB_POOL_SIZE")
    """Connections per process."""
    db_idle_timeout_ms: Amount = field(default=30_000, name="DB_IDLE_TIMEOUT")
    """Time in milliseconds after which unused connections, except the first, are closed. 0 keeps
    them."""
    db_connection_timeout_ms: Count = field(default=10_000, name="DB_CONNECTION_TIMEOUT")
    """Longest wait for a connection, in milliseconds, divided among the hosts."""
    db_statement_timeout_ms: Count = field(default=30_000, name="DB_STATEMENT_TIMEOUT")
    """Longest time of a call in PostgreSQL, in milliseconds. Calls on the message path fail after 7
    seconds without a response."""
    db_max_retries: Amount = field(default=3, name="DB_MAX_RETRIES")
    """Retries after a deadlock or serialization failure."""
    db_pgbouncer: bool = False
    """Set to true if connections go through PgBouncer in transaction mode."""
    auto_migrate: bool = True
    """Migrate the database to this release at startup. If false, the server rejects a database that
    is behind."""
    auto_create: bool = True
    """Create a queue with the first push to it."""

    # File buffer for outages.
    file_buffer_dir: str | None = field(default=None, name="FILE_BUFFER_DIR")
    """Directory for pushes that cannot be stored yet. It must belong to this server only and be on
    a persistent disk. If unset, such pushes are rejected."""
    file_buffer_max_bytes: Count = field(default=2**30, name="FILE_BUFFER_MAX_BYTES")
    """Largest buffer of all processes together. A push that does not fit is rejected."""
    file_buffer_events_per_file: Count = field(default=10_000, name="FILE_BUFFER_EVENTS_PER_FILE")
    """Messages per file."""
    file_buffer_flush_ms: Count = field(default=100, name="FILE_BUFFER_FLUSH_MS")
    """Delay before buffered pushes are retried, in milliseconds."""
    file_buffer_max_batch: Count = field(default=100, name="FILE_BUFFER_MAX_BATCH")
    """Buffered requests per transaction of the replay."""

    # Encrypted queues.
    encryption_key: str | None = None
    """Master key, 64 hexadecimal digits, with the id `default`. A malformed key stops the
    startup."""
    encryption_keys: str | None = None
    """Several master keys as `id:hex`, separated by commas. The first one wraps data keys, all of
    them unwrap."""
    encryption_keys_file: str | None = None
    """File with one `id:hex` per line, readable only by its owner. Its keys come before the
    others."""

    # Request limits.
    max_body_bytes: Count = 64 * 2**20
    """Largest request body, inflated."""
    max_inflight_bytes: Count = 96 * 2**20
    """Memory for the bodies of all requests in progress in one process. If it is used up, requests
    above 64 KiB are rejected as `too_many_bytes` (429)."""
    max_unsent_bytes: Count = 64 * 2**20
    """Responses of one process that clients have not read yet. If it is used up, pops are rejected
    as `too_many_bytes` (429), and the connection that has waited longest is closed."""
    max_payload_bytes: Count = 2**20
    """Largest payload of a message."""
    max_items: Count = 10_000
    """Items per push, acknowledgments or operations per call."""
    max_json_depth: Count = 64
    """Nesting levels in a payload."""
    max_batch: Count = 10_000
    """Messages per pop. Higher values are lowered to this."""
    max_pop_partitions: Count = 1_000
    """Partitions per pop. Higher values are lowered to this."""
    max_pop_bytes: Count = 16 * 2**20
    """Payload bytes per response of a pop. One message always fits."""
    max_waiters: Count = 10_000
    """Waiting pops per process."""
    max_lease_seconds: Seconds = 43_200
    """Longest lease."""
    max_delay_seconds: Seconds = 31_536_000
    """Longest delay of a scheduled message."""
    max_header_bytes: Count = 32 * 2**10
    """Largest block of HTTP headers."""
    header_timeout_ms: Count = 10_000
    """Time that a client may take to send headers."""
    body_timeout_ms: Count = 30_000
    """Time that a client may take to send a body, or to read a response."""
    max_message_headers: Count = 64
    """Headers per message."""
    max_message_header_bytes: Count = 8 * 2**10
    """Total size of a message's headers."""
    max_name_bytes: Count = 255
    """Length of a queue, group, namespace or task name, and of a transactionId or producerId."""
    max_partition_bytes: Count = 512
    """Length of a partition name."""
    max_error_bytes: Count = 16 * 2**10
    """Length at which the error text of an acknowledgment is cut."""
    max_trace_bytes: Count = 64 * 2**10
    """Largest data of a trace event."""
    max_connections: Count = 20_000
    """Open connections per process. Further connections are closed immediately."""
    max_connections_per_address: Amount = 15_000
    """Open connections per address (IPv6: per /64) and process, unless behind a proxy. 0: no
    separate limit."""
    default_timeout_ms: Count = field(default=30_000, name="DEFAULT_TIMEOUT")
    """Default waiting time of a pop, in milliseconds."""
    max_timeout_ms: Count = field(default=60_000, name="MAX_TIMEOUT")
    """Longest waiting time of a pop, in milliseconds. Higher values are lowered to this."""
    default_batch_size: Count = field(default=1, name="DEFAULT_BATCH_SIZE")
    """Default number of messages per pop."""
    api_default_limit: Count = field(default=100, name="API_DEFAULT_LIMIT")
    """Default length of a list."""
    api_max_limit: Count = field(default=1_000, name="API_MAX_LIMIT")
    """Longest list. Higher values are lowered to this."""
    require_lease: bool = False
    """Reject acknowledgments without a leaseId."""

    # Defaults of new queues.
    default_lease_time: Seconds = field(default=300, name="DEFAULT_LEASE_TIME")
    """`leaseTime` of a new queue."""
    default_retry_limit: Amount = field(default=3, name="DEFAULT_RETRY_LIMIT")
    """`retryLimit` of a new queue."""
    default_retry_delay_ms: Amount = field(default=1_000, name="DEFAULT_RETRY_DELAY")
    """`retryDelay` of a new queue."""
    default_max_size: Amount = field(default=0, name="DEFAULT_MAX_SIZE")
    """`maxSize` of a new queue."""
    default_ttl: Amount = field(default=0, name="DEFAULT_TTL")
    """`ttl` of a new queue."""
    default_priority: int = field(default=0, name="DEFAULT_PRIORITY")
    """`priority` of a new queue."""
    default_delayed_processing: Amount = field(default=0, name="DEFAULT_DELAYED_PROCESSING")
    """`delayedProcessing` of a new queue."""
    default_window_buffer: Amount = field(default=0, name="DEFAULT_WINDOW_BUFFER")
    """`windowBuffer` of a new queue."""
    default_dlq: bool = field(default=True, name="DEFAULT_DLQ_AFTER_MAX_RETRIES")
    """`dlqAfterMaxRetries` of a new queue."""
    default_retention_enabled: bool = field(default=False, name="DEFAULT_RETENTION_ENABLED")
    """`retentionEnabled` of a new queue."""
    default_retention_seconds: Amount = field(default=0, name="DEFAULT_RETENTION_SECONDS")
    """`retentionSeconds` of a new queue."""
    default_completed_retention_seconds: Amount = field(
        default=0, name="DEFAULT_COMPLETED_RETENTION_SECONDS"
    )
    """`completedRetentionSeconds` of a new queue."""
    default_max_wait_seconds: Amount = field(default=0, name="DEFAULT_MAX_WAIT_TIME_SECONDS")
    """`maxWaitTimeSeconds` of a new queue."""

    # Retention and background tasks.
    retention_interval_ms: Count = field(default=300_000, name="RETENTION_INTERVAL")
    """Interval of retention in milliseconds. It deletes old messages, partitions, keys, producers
    and traces."""
    retention_batch_size: Count = field(default=50, name="RETENTION_BATCH_SIZE")
    """Partitions that one retention step locks, for some milliseconds."""
    eviction_interval_ms: Count = field(default=60_000, name="EVICTION_INTERVAL")
    """Interval of the search for messages that waited too long, in milliseconds."""
    eviction_batch_size: Count = field(default=1_000, name="EVICTION_BATCH_SIZE")
    """Messages that one step evicts."""
    partition_cleanup_days: Seconds = field(default=7, name="PARTITION_CLEANUP_DAYS")
    """Days without a push after which an empty partition is deleted, unless its queue has its own
    value."""
    producer_ttl_seconds: Seconds = 604_800
    """Time after its last push at which a producer and its sequence are forgotten."""
    trace_retention_hours: Count = 168
    """Retention of trace events."""
    audit_retention_hours: Annotated[int, msgspec.Meta(ge=720, le=8_760_000)] = 8_760
    """Retention of the audit log, at least 720, which is 30 days."""
    workflow_retention_hours: Count = 168
    """Retention of finished workflows and their results."""
    removals_kept_hours: Count = 168
    """Time for which `queen.removals` records the deletions by retention."""
    upkeep_look_seconds: Seconds = 10
    """Interval at which a process checks for due background tasks and scheduled messages."""
    upkeep_run_seconds: Seconds = 10
    """Time after which a background task lets the others run."""

    # Engine tuning.
    segment_max_messages: Count = 10_000
    """Messages per segment."""
    segment_max_bytes: Count = 4 * 2**20
    """Size at which a flush closes a segment. One payload always fits."""
    flush_max_bytes: Count = 2**19
    """Size at which a flush of pushes or acks is full."""
    max_queued_bytes: Count = 256 * 2**20
    """Bytes of pushes that wait for a flush. Further pushes are rejected as overloaded."""
    max_queued_requests: Count = 50_000
    """Requests of one kind that wait for a flush."""
    segment_cache_bytes: Count = 64 * 2**20
    """Recent segments kept in memory."""
    dedup_memory_bytes: Count = 64 * 2**20
    """Keys of transactionIds kept in memory. Beyond it, keys are rows of an index. 0: always."""
    catalogue_entries: Count = 200_000
    """Names of queues and partitions kept in memory."""
    catalogue_seconds: Seconds = 5.0
    """Time for which queue options are cached without a notification."""
    push_lanes: Count = 2
    """Concurrent flushes of pushes."""
    pop_lanes: Count = 2
    """Concurrent calls of pops."""
    ack_lanes: Count = 2
    """Concurrent flushes of acks."""
    safety_poll_ms: Millis = 2_000
    """Interval at which the server checks for waiting pops in case a notification is lost."""
    notify_debounce_ms: Millis = 10
    """Time for which wake-ups of other processes are collected."""
    due_search_ms: Millis = 250
    """Interval at which a busy group searches for expired leases before new messages."""
    full_search_ms: Millis = 10_000
    """Interval at which a search by time ignores the low-water mark."""

    # Logging, metrics and analytics.
    log_level: Literal["debug", "info", "warning", "error"] = field(
        default="info", name="LOG_LEVEL"
    )
    """debug, info, warning or error."""
    log_format: Literal["json", "console"] = field(default="json", name="LOG_FORMAT")
    """json or console."""
    metrics_endpoint_enabled: bool = field(default=True, name="METRICS_ENDPOINT_ENABLED")
    """Serve `/metrics`."""
    metrics_per_object: bool = False
    """Serve `/metrics/per-object`: depths of all queues and groups, without a limit."""
    health_check_enabled: bool = field(default=True, name="HEALTH_CHECK_ENABLED")
    """Serve `/health`. `/livez` and `/readyz` are always served."""
    metrics_max_queues: Count = 2_000
    """Queues that a process counts separately, and the same number of groups. The rest are counted
    together."""
    counters_flush_seconds: Seconds = 5
    """Interval at which counters are stored for analytics."""
    sample_seconds: Seconds = 10
    """Interval at which one of all processes measures depths, ages and table sizes."""
    analytics_retention_hours: Count = 168
    """Retention of counters and samples. Older analytics come from rollups, if you run them."""
    analytics_recent_hours: Count = field(default=24, name="ANALYTICS_RECENT_HOURS")
    """Default time range of an analytics request."""
    analytics_min_completed: Amount = field(default=5, name="ANALYTICS_MIN_COMPLETED")
    """Number of messages below which percentiles are null."""
    recent_message_window_seconds: Count = field(default=60, name="RECENT_MESSAGE_WINDOW")
    """Seconds over which a rate is computed."""
    queue_depth_update_ms: Count = field(default=5_000, name="QUEUE_DEPTH_UPDATE_INTERVAL")
    """Interval at which dashboards receive queue depths, in milliseconds."""
    system_stats_update_ms: Count = field(default=10_000, name="SYSTEM_STATS_UPDATE_INTERVAL")
    """Interval at which dashboards receive system statistics, in milliseconds."""
    ws_compression: bool = field(default=False, name="WS_COMPRESSION")
    """Compress WebSocket messages to dashboards."""
    ws_max_payload_bytes: Count = field(default=16_384, name="WS_MAX_PAYLOAD_LENGTH")
    """Largest message from a dashboard."""
    ws_idle_timeout_seconds: Count = field(default=60, name="WS_IDLE_TIMEOUT")
    """Seconds without a response to a heartbeat after which a dashboard is disconnected."""
    ws_max_connections: Count = field(default=1_000, name="WS_MAX_CONNECTIONS")
    """Dashboards per process."""
    ws_heartbeat_ms: Count = field(default=30_000, name="WS_HEARTBEAT_INTERVAL")
    """Interval of heartbeats to dashboards, in milliseconds."""
    otel: bool = False
    """Send spans with OpenTelemetry to the target in the OTEL_ variables. Needs the extra
    `otel`."""

    def __repr__(self) -> str:
        return f"SettingFields(port={self.port}, …)"  # The others hold secrets.
