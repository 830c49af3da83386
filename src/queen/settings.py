"""Settings of the server: read from the environment once, then frozen and passed down."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
from msgspec import field

from queen import errors, original_settings

Count = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Millis = Annotated[float, msgspec.Meta(gt=0)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
TraceUrl = Annotated[str, msgspec.Meta(pattern=r"^https?://\S*\{traceId\}\S*\Z")]
PathPrefix = Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9._~-]+)*\Z")]

OF_OTHERS = frozenset(
    {
        "QUEEN_BASE_URL",
        "QUEEN_CA_FILE",
        "QUEEN_CLIENT_CERTIFICATE",
        "QUEEN_CLIENT_KEY",
        "QUEEN_CLIENT_LOG",
        "QUEEN_CONTEXT",
        "QUEEN_QUIET",
        "QUEEN_RELAY_DSN",
        "QUEEN_SERVER",
        "QUEEN_TIMEOUT",
        "QUEEN_TOKEN",
    }
)
"""Variables that begin with QUEEN_ and belong to the SDK or the CLI."""

SECRETS = frozenset(
    {
        "DATABASE_URL",
        "JWT_SECRET",
        "PG_PASSWORD",
        "QUEEN_ENCRYPTION_KEY",
        "QUEEN_ENCRYPTION_KEYS",
    }
)
"""Never shown, logged or returned."""


def variable(name: str) -> str:
    """Return the environment variable of a field without an explicit name."""
    return f"QUEEN_{name.upper()}"


class Settings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=variable
):
    """Each field is the variable ``QUEEN_<FIELD>``, unless it has an explicit name."""

    # Listen address.
    host: str | None = field(default=None, name="HOST")
    """By default loopback without authentication, otherwise all addresses."""
    port: Port = field(default=6632, name="PORT")
    num_workers: Amount = field(default=0, name="NUM_WORKERS")
    """Number of worker processes; 0: one per core that the container or affinity allows."""
    worker_id: str | None = field(default=None, name="WORKER_ID")
    """Name of this host in lists of processes; by default the host name and the process id."""
    shutdown_seconds: Seconds = 25.0
    """Time that a stopping server waits for running requests."""
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    """Certificate authority that must have signed the certificates of clients."""
    behind_proxy: bool = False
    """A proxy terminates TLS, and the server trusts its X-Forwarded headers."""
    path_prefix: PathPrefix = ""
    """Path under which a proxy exposes this server. Paths with and without it are accepted."""
    environment: str | None = None
    """Name of this installation in the dashboard, for example production."""
    trace_url: TraceUrl | None = None
    """URL of a trace in the tracing system, with {traceId} in it; the dashboard links to it."""

    # Authentication and CORS.
    auth: str | None = None
    """keys, jwt or keys,jwt. None: every caller has all permissions."""
    insecure: bool = False
    """Serve other machines without authentication or TLS: every caller can delete messages."""
    allowed_hosts: str | None = None
    """More host names that a server without authentication accepts, separated by commas."""
    key_grace_seconds: Amount = 300
    """How long cached keys are accepted in an outage. With a file buffer: 0, or all of it."""
    jwt_algorithms: str = field(default="RS256", name="JWT_ALGORITHMS")
    """Only HS256, or some of RS256, ES256, EdDSA."""
    jwt_secret: str | None = field(default=None, name="JWT_SECRET")
    """For HS256; at least 32 bytes."""
    jwt_public_key: str | None = field(default=None, name="JWT_PUBLIC_KEY")
    """PEM, or the name of a PEM file."""
    jwt_jwks_url: str | None = field(default=None, name="JWT_JWKS_URL")
    """URL of the issuer's public keys; https."""
    jwt_issuer: str | None = field(default=None, name="JWT_ISSUER")
    jwt_audience: str | None = field(default=None, name="JWT_AUDIENCE")
    jwt_roles_claim: str | None = field(default=None, name="JWT_ROLES_CLAIM")
    """The claim with the roles: a name, or a path with dots. By default role or roles."""
    jwt_roles_prefix: str | None = field(default=None, name="JWT_ROLES_PREFIX")
    """Only roles that begin with this count, for example queen: in queen:admin."""
    jwt_leeway_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = field(
        default=30, name="JWT_LEEWAY_SECONDS"
    )
    """Allowed difference between clocks; at most 60."""
    oidc_client_id: str | None = field(default=None, name="OIDC_CLIENT_ID")
    """Public client id of the dashboard at JWT_ISSUER. If set, people sign in there."""
    oidc_scopes: str = field(default="openid profile", name="OIDC_SCOPES")
    """Scopes that the dashboard requests, separated by spaces."""
    oidc_token: Literal["access", "id"] = field(default="access", name="OIDC_TOKEN")
    """Token that the dashboard sends to this server."""
    oidc_name: str | None = field(default=None, name="OIDC_NAME")
    """Name on the button `Sign in with`; by default the host of JWT_ISSUER."""
    cors_allowed_origins: str | None = field(default=None, name="CORS_ALLOWED_ORIGINS")
    """Other origins whose pages may call, separated by commas; * only with authentication."""
    cors_max_age_seconds: Amount = field(default=86_400, name="CORS_MAX_AGE")
    cors_allowed_methods: str = field(
        default="GET,POST,PUT,DELETE,OPTIONS", name="CORS_ALLOWED_METHODS"
    )
    cors_allowed_headers: str = field(
        default="Content-Type,Authorization", name="CORS_ALLOWED_HEADERS"
    )

    # Database.
    database_url: str | None = field(default=None, name="DATABASE_URL")
    """Instead of the PG_ variables."""
    pg_host: str = field(default="localhost", name="PG_HOST")
    """With several hosts, separated by commas, the server uses the primary."""
    pg_port: Port = field(default=5432, name="PG_PORT")
    pg_user: str = field(default="postgres", name="PG_USER")
    pg_password: str | None = field(default=None, name="PG_PASSWORD")
    pg_db: str = field(default="postgres", name="PG_DB")
    pg_sslmode: SslMode | None = field(default=None, name="PG_SSLMODE")
    """TLS to PostgreSQL: verify-full also checks its certificate and host name."""
    pg_sslrootcert: str | None = field(default=None, name="PG_SSLROOTCERT")
    """File with the certificate authorities for PostgreSQL's certificate."""
    pg_sslcert: str | None = field(default=None, name="PG_SSLCERT")
    """File with the client certificate for PostgreSQL."""
    pg_sslkey: str | None = field(default=None, name="PG_SSLKEY")
    """File with the key of that certificate."""
    app_name: str = field(default="queen", name="APP_NAME")
    db_pool_size: Count = field(default=10, name="DB_POOL_SIZE")
    db_idle_timeout_ms: Amount = field(default=30_000, name="DB_IDLE_TIMEOUT")
    """Time after which unused connections, except the first, are closed; 0 keeps them."""
    db_connection_timeout_ms: Count = field(default=10_000, name="DB_CONNECTION_TIMEOUT")
    db_statement_timeout_ms: Count = field(default=30_000, name="DB_STATEMENT_TIMEOUT")
    db_max_retries: Amount = field(default=3, name="DB_MAX_RETRIES")
    """Retries after a deadlock or serialization failure."""
    db_pgbouncer: bool = False
    """Connections go through PgBouncer in transaction mode."""
    auto_migrate: bool = True
    """Migrate the database at startup. If false, the server rejects one that is behind."""
    auto_create: bool = True
    """Create a queue with the first push to it."""

    # File buffer for outages.
    file_buffer_dir: str | None = field(default=None, name="FILE_BUFFER_DIR")
    """Directory, on a persistent disk and for this server only, for pushes during an outage."""
    file_buffer_max_bytes: Count = field(default=2**30, name="FILE_BUFFER_MAX_BYTES")
    """Size limit over all processes. A push that does not fit is rejected."""
    file_buffer_events_per_file: Count = field(default=10_000, name="FILE_BUFFER_EVENTS_PER_FILE")
    """Messages per file."""
    file_buffer_flush_ms: Count = field(default=100, name="FILE_BUFFER_FLUSH_MS")
    """Delay before buffered pushes are retried."""
    file_buffer_max_batch: Count = field(default=100, name="FILE_BUFFER_MAX_BATCH")
    """Buffered requests per transaction of the replay."""

    # Encrypted queues.
    encryption_key: str | None = None
    """The master key, 64 hexadecimal digits; its id is `default`."""
    encryption_keys: str | None = None
    """Several as `id:hex`, separated by commas: the first one wraps data keys, all unwrap."""
    encryption_keys_file: str | None = None
    """File with one `id:hex` per line, readable only by its owner."""

    # Request limits.
    max_body_bytes: Count = 64 * 2**20
    max_inflight_bytes: Count = 96 * 2**20
    """Memory for the bodies of all requests in progress in one process; more are rejected."""
    max_unsent_bytes: Count = 64 * 2**20
    """Responses of one process that clients have not read; beyond it, pops are rejected."""
    max_payload_bytes: Count = 2**20
    max_items: Count = 10_000
    max_json_depth: Count = 64
    max_batch: Count = 10_000
    max_pop_partitions: Count = 1_000
    max_pop_bytes: Count = 16 * 2**20
    max_waiters: Count = 10_000
    max_lease_seconds: Seconds = 43_200
    max_delay_seconds: Seconds = 31_536_000
    max_header_bytes: Count = 32 * 2**10
    header_timeout_ms: Count = 10_000
    body_timeout_ms: Count = 30_000
    """Also the time that a client may take to read a response."""
    max_message_headers: Count = 64
    max_message_header_bytes: Count = 8 * 2**10
    max_name_bytes: Count = 255
    max_partition_bytes: Count = 512
    max_error_bytes: Count = 16 * 2**10
    max_trace_bytes: Count = 64 * 2**10
    max_connections: Count = 20_000
    """Open connections per process. Further connections are closed immediately."""
    max_connections_per_address: Amount = 15_000
    """Per address (IPv6: per /64) and process, unless behind a proxy; 0: no separate limit."""
    default_timeout_ms: Count = field(default=30_000, name="DEFAULT_TIMEOUT")
    max_timeout_ms: Count = field(default=60_000, name="MAX_TIMEOUT")
    default_batch_size: Count = field(default=1, name="DEFAULT_BATCH_SIZE")
    api_default_limit: Count = field(default=100, name="API_DEFAULT_LIMIT")
    api_max_limit: Count = field(default=1_000, name="API_MAX_LIMIT")
    require_lease: bool = False
    """Reject acknowledgments without a leaseId."""

    # Defaults of new queues.
    default_lease_time: Seconds = field(default=300, name="DEFAULT_LEASE_TIME")
    default_retry_limit: Amount = field(default=3, name="DEFAULT_RETRY_LIMIT")
    default_retry_delay_ms: Amount = field(default=1_000, name="DEFAULT_RETRY_DELAY")
    default_max_size: Amount = field(default=0, name="DEFAULT_MAX_SIZE")
    default_ttl: Amount = field(default=0, name="DEFAULT_TTL")
    default_priority: int = field(default=0, name="DEFAULT_PRIORITY")
    default_delayed_processing: Amount = field(default=0, name="DEFAULT_DELAYED_PROCESSING")
    default_window_buffer: Amount = field(default=0, name="DEFAULT_WINDOW_BUFFER")
    default_dlq: bool = field(default=True, name="DEFAULT_DLQ_AFTER_MAX_RETRIES")
    default_retention_enabled: bool = field(default=False, name="DEFAULT_RETENTION_ENABLED")
    default_retention_seconds: Amount = field(default=0, name="DEFAULT_RETENTION_SECONDS")
    default_completed_retention_seconds: Amount = field(
        default=0, name="DEFAULT_COMPLETED_RETENTION_SECONDS"
    )
    default_max_wait_seconds: Amount = field(default=0, name="DEFAULT_MAX_WAIT_TIME_SECONDS")

    # Retention and background tasks.
    retention_interval_ms: Count = field(default=300_000, name="RETENTION_INTERVAL")
    """Interval at which old messages, partitions, keys, producers and traces are deleted."""
    retention_batch_size: Count = field(default=50, name="RETENTION_BATCH_SIZE")
    """Partitions that one retention step locks, for some milliseconds."""
    eviction_interval_ms: Count = field(default=60_000, name="EVICTION_INTERVAL")
    """Interval of the search for messages that waited too long."""
    eviction_batch_size: Count = field(default=1_000, name="EVICTION_BATCH_SIZE")
    """Messages that one step evicts."""
    partition_cleanup_days: Seconds = field(default=7, name="PARTITION_CLEANUP_DAYS")
    """Days without a push until an empty partition is deleted; a queue can override it."""
    producer_ttl_seconds: Seconds = 604_800
    """Time after its last push at which a producer and its sequence are forgotten."""
    trace_retention_hours: Count = 168
    """Retention of trace events."""
    audit_retention_hours: Annotated[int, msgspec.Meta(ge=720, le=8_760_000)] = 8_760
    """Retention of the audit log; at least 720, which is 30 days."""
    workflow_retention_hours: Count = 168
    """Retention of finished workflows and their results."""
    removals_kept_hours: Count = 168
    """Time for which `queen.removals` records deletions by retention."""
    upkeep_look_seconds: Seconds = 10
    """Interval at which a process checks for due background tasks and scheduled messages."""
    upkeep_run_seconds: Seconds = 10
    """Time after which a background task lets the others run."""

    # Engine tuning. The defaults are measured: see docs/decisions.
    segment_max_messages: Count = 10_000
    segment_max_bytes: Count = 4 * 2**20
    """A flush closes a segment at this size. One payload always fits."""
    flush_max_bytes: Count = 2**19
    max_queued_bytes: Count = 256 * 2**20
    """Bytes of pushes that wait for a flush. Further pushes are rejected as overloaded."""
    max_queued_requests: Count = 50_000
    """Requests of one kind that wait for a flush."""
    segment_cache_bytes: Count = 64 * 2**20
    catalogue_entries: Count = 200_000
    catalogue_seconds: Seconds = 5.0
    """Time for which queue options are cached without a notification."""
    push_lanes: Count = 2
    pop_lanes: Count = 2
    ack_lanes: Count = 2
    safety_poll_ms: Millis = 2_000
    notify_debounce_ms: Millis = 10
    due_search_ms: Millis = 250
    """Interval at which a busy group searches for expired leases before new messages."""
    full_search_ms: Millis = 10_000
    """Interval at which a search by time ignores the low-water mark."""

    # Logging, metrics and analytics.
    log_level: Literal["debug", "info", "warning", "error"] = field(
        default="info", name="LOG_LEVEL"
    )
    log_format: Literal["json", "console"] = field(default="json", name="LOG_FORMAT")
    metrics_endpoint_enabled: bool = field(default=True, name="METRICS_ENDPOINT_ENABLED")
    metrics_per_object: bool = False
    """Serve `/metrics/per-object`: depths of all queues and groups, without a limit."""
    health_check_enabled: bool = field(default=True, name="HEALTH_CHECK_ENABLED")
    metrics_max_queues: Count = 2_000
    """Queues that a process counts separately, and the same number of groups."""
    counters_flush_seconds: Seconds = 5
    """Interval at which counters are stored for analytics."""
    sample_seconds: Seconds = 10
    """Interval at which one of all processes measures depths, ages and table sizes."""
    analytics_retention_hours: Count = 168
    """Retention of counters and samples, and the longest time range of a request."""
    analytics_recent_hours: Count = field(default=24, name="ANALYTICS_RECENT_HOURS")
    """Default time range of an analytics request."""
    analytics_min_completed: Amount = field(default=5, name="ANALYTICS_MIN_COMPLETED")
    """Number of messages below which percentiles are null."""
    recent_message_window_seconds: Count = field(default=60, name="RECENT_MESSAGE_WINDOW")
    """Seconds over which a rate is computed."""
    queue_depth_update_ms: Count = field(default=5_000, name="QUEUE_DEPTH_UPDATE_INTERVAL")
    system_stats_update_ms: Count = field(default=10_000, name="SYSTEM_STATS_UPDATE_INTERVAL")
    ws_compression: bool = field(default=False, name="WS_COMPRESSION")
    ws_max_payload_bytes: Count = field(default=16_384, name="WS_MAX_PAYLOAD_LENGTH")
    ws_idle_timeout_seconds: Count = field(default=60, name="WS_IDLE_TIMEOUT")
    """Seconds without a response to a heartbeat after which a dashboard is disconnected."""
    ws_max_connections: Count = field(default=1_000, name="WS_MAX_CONNECTIONS")
    ws_heartbeat_ms: Count = field(default=30_000, name="WS_HEARTBEAT_INTERVAL")
    otel: bool = False
    """Send spans with OpenTelemetry to the target in the OTEL_ variables. Needs `otel`."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings; raises BadSettings for an unknown or malformed variable."""
        known = {*cls.__struct_encode_fields__}
        environ = original_settings.translated(environ)
        ours = {
            name: _plain(value)
            for name, value in environ.items()
            if name in known or (name.startswith("QUEEN_") and name not in OF_OTHERS)
        }
        try:
            return msgspec.convert(ours, cls, strict=False)
        except msgspec.ValidationError as error:
            raise errors.BadSettings(_explain(str(error), known)) from error

    @property
    def dsn(self) -> str:
        """The connection URL of the database, with the password."""
        if self.database_url is not None:
            return self.with_tls(self.database_url)
        secret = f":{quote(self.pg_password, safe='')}" if self.pg_password is not None else ""
        user = quote(self.pg_user, safe="") + secret
        hosts = ",".join(
            f"{quote(host, safe='')}:{self.pg_port}"
            for host in words(self.pg_host) or ["localhost"]
        )
        return self.with_tls(f"postgresql://{user}@{hosts}/{quote(self.pg_db, safe='')}")

    def with_tls(self, dsn: str) -> str:
        """Add the TLS settings that a DSN does not have itself."""
        given = dict(parse_qsl(urlsplit(dsn).query, keep_blank_values=True))
        ours = {
            "sslmode": self.pg_sslmode,
            "sslrootcert": self.pg_sslrootcert,
            "sslcert": self.pg_sslcert,
            "sslkey": self.pg_sslkey,
        }
        missing = {k: v for k, v in ours.items() if v is not None and k not in given}
        if not missing:
            return dsn
        if "://" not in dsn:
            raise errors.BadSettings(
                "PG_SSLMODE and the other PG_SSL variables need a database URL: postgresql://…"
            )
        return f"{dsn}{'&' if '?' in dsn else '?'}{urlencode(missing, quote_via=quote)}"

    @property
    def auth_kinds(self) -> frozenset[str]:
        """The accepted kinds of credentials: keys, jwt."""
        return frozenset(words(self.auth))

    @property
    def jwt_algorithm_names(self) -> list[str]:
        return words(self.jwt_algorithms)

    @property
    def queue_defaults(self) -> dict[str, Any]:
        """Option columns of a new queue that differ from the database's defaults."""
        return {
            "lease_seconds": self.default_lease_time,
            "retry_limit": self.default_retry_limit,
            "retry_delay_ms": self.default_retry_delay_ms,
            "max_size": self.default_max_size,
            "ttl_seconds": self.default_ttl,
            "priority": self.default_priority,
            "delay_seconds": self.default_delayed_processing,
            "window_seconds": self.default_window_buffer,
            "dead_letter": self.default_dlq,
            "retention_enabled": self.default_retention_enabled,
            "retention_seconds": self.default_retention_seconds,
            "completed_retention_seconds": self.default_completed_retention_seconds,
            "max_wait_seconds": self.default_max_wait_seconds,
        }

    def shown(self, environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
        """Return each variable, its value with secrets masked, and its source."""
        values = msgspec.to_builtins(self)
        environ = original_settings.translated(environ)
        return [
            (
                name,
                "****" if name in SECRETS and value is not None else str(value),
                "environment" if name in environ else "default",
            )
            for name, value in values.items()
        ]

    def __repr__(self) -> str:
        return f"Settings(port={self.port}, …)"  # The others hold secrets.


def words(text: str | None) -> list[str]:
    """Split a list at its commas."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _plain(value: str) -> str:
    """Replace the words for booleans that msgspec does not accept."""
    words = {"yes": "true", "on": "true", "no": "false", "off": "false"}
    return words.get(value.lower(), value)


def _explain(problem: str, known: set[str]) -> str:
    """Rewrite an error of msgspec: name the variable and the allowed values."""
    if "unknown field" in problem:
        name = problem.partition("`")[2].partition("`")[0]
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"setting {name} does not exist{hint}"
    what, _, where = problem.partition(" - at `$.")
    return f"{where.rstrip('`') or 'a setting'}: {what}"
