"""Processes, settings, migrations, tables, maintenance."""

from datetime import datetime
from typing import Any, Literal

from queen.wire.messages import Request, Wire


class Instance(Wire, frozen=True, kw_only=True):
    """A server process."""

    id: str
    """Id of the process, unique for each start."""
    host: str
    """Host name of the machine."""
    pid: int
    """Process id."""
    version: str
    """Version of Queen."""
    started_at: datetime
    """Time of its first report."""
    seen_at: datetime
    """Time of its last report."""
    alive: bool
    """Whether it has reported in the last 15 seconds."""
    waiters: int
    """Number of pops that wait in this process."""


class Instances(Wire, frozen=True, kw_only=True):
    """A page of the processes that use this database."""

    instances: list[Instance]
    """Processes of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class Setting(Wire, frozen=True, kw_only=True):
    """An effective setting; secrets are masked."""

    name: str
    """Name of the environment variable."""
    value: Any
    """Effective value; `****` for a secret that is set."""
    source: Literal["environment", "default"]
    """Whether the `environment` sets the value, or it is the `default`."""


class Config(Wire, frozen=True, kw_only=True):
    """All settings of the process that responds."""

    settings: list[Setting]
    """All settings, as environment variables."""


class Migration(Wire, frozen=True, kw_only=True):
    """A schema migration."""

    name: str
    """Name of the migration."""
    applied_at: datetime
    """Time when it was applied."""


class Migrations(Wire, frozen=True, kw_only=True):
    """Applied migrations, and those that this release would apply."""

    applied: list[Migration]
    """Applied migrations, in order."""
    pending: list[str]
    """Names of migrations of this release that are not applied."""


class Table(Wire, frozen=True, kw_only=True):
    """A table, by PostgreSQL's statistics."""

    name: str
    """Name of the table in the schema `queen`."""
    total_bytes: int
    """Size in bytes, with indexes and out-of-line values."""
    heap_bytes: int
    """Size of the rows in bytes."""
    index_bytes: int
    """Size of all indexes in bytes."""
    live_rows: int
    """Estimated number of live rows."""
    dead_rows: int
    """Estimated number of dead rows, which vacuum removes."""
    vacuumed_at: datetime | None
    """Time of the last vacuum; null if there was none."""
    analyzed_at: datetime | None
    """Time of the last analyze; null if there was none."""


class OldestTransaction(Wire, frozen=True, kw_only=True):
    """The transaction that prevents vacuum from removing dead rows."""

    pid: int
    """Process id of the PostgreSQL session."""
    application: str | None
    """Application name of the session."""
    user: str | None
    """Database user of the session."""
    state: str | None
    """State of the session, for example `active` or `idle in transaction`."""
    started_at: datetime
    """Time when the transaction began."""
    age_seconds: float
    """Age of the transaction in seconds."""


class Horizon(Wire, frozen=True, kw_only=True):
    """The open transaction that pipelines, retention and the outbox wait for."""

    held_back_by: str
    """The transaction in words, such as `pid 4711 of database x since 00:41:10 UTC`."""
    kind: str
    """`session`, `prepared transaction` or `transaction of the primary`."""
    pid: int | None
    """Process id of the PostgreSQL session; null for a prepared transaction."""
    database: str | None
    """Database of the transaction, which may be another one of the same PostgreSQL server."""
    user: str | None
    """Database user of the transaction."""
    started_at: datetime | None
    """Time when the transaction began; null if the server's database role may not see it."""
    age_seconds: float | None
    """Age of the transaction in seconds; null if its start is unknown."""


class Tables(Wire, frozen=True, kw_only=True):
    """Queen's tables, and the oldest open transaction of the database."""

    tables: list[Table]
    """Tables by name."""
    oldest_transaction: OldestTransaction | None
    """Open transaction that began first; null if there is no other one."""
    horizon: Horizon | None = None
    """Oldest open transaction that may still store messages, in any database of the PostgreSQL
    server; null if there is none."""


class Duty(Wire, frozen=True, kw_only=True):
    """A background task, and the result of its last run."""

    name: str
    """Name of the background task."""
    running: bool
    """Whether a process runs it now."""
    epoch: int
    """Number of times that a process took it over."""
    due_at: datetime | None
    """Time when the next run is due; null before the first run."""
    last_run_at: datetime | None
    """Time when the last run ended; null before the first run."""
    last_success_at: datetime | None
    """Time when the last run without an error ended; null if there was none."""
    seconds: float | None
    """Duration of the last run in seconds."""
    rows: int | None
    """Number of rows that the last run processed."""
    lag_seconds: float | None
    """Largest delay of the work that the last run found, in seconds."""
    error: str | None
    """Error of the last run; null if it succeeded."""


class Duties(Wire, frozen=True, kw_only=True):
    """The background tasks."""

    duties: list[Duty]
    """Background tasks by name."""


class MaintenanceRequest(Request, frozen=True, kw_only=True):
    """Whether to turn maintenance on."""

    enabled: bool
    """Whether to turn maintenance on."""


class Maintenance(Wire, frozen=True, kw_only=True):
    """Whether maintenance is on, since when, and the caller that turned it on."""

    enabled: bool
    """Whether maintenance is on."""
    changed_at: datetime | None = None
    """Time of the last change; null if there was none."""
    changed_by: str | None = None
    """Caller of the last change; null if there was none."""


class Buffer(Wire, frozen=True, kw_only=True):
    """The file buffer of the server that responds. Its processes share one directory."""

    enabled: bool
    """Whether the server has a file buffer (`FILE_BUFFER_DIR`)."""
    buffering: bool
    """Whether pushes go to disk, because the database is unavailable or the buffer is not empty
    yet."""
    db_healthy: bool
    """Whether the database is available."""
    messages: int | None
    """Number of buffered messages; null for callers with scopes, like the other counts, because it
    covers all queues."""
    bytes: int | None
    """Size of the buffer in bytes."""
    max_bytes: int
    """Largest size of the buffer in bytes. Default: 1 GiB."""
    oldest_seconds: float | None
    """Age of the oldest buffered message in seconds; null if the buffer is empty."""
    failed_files: int | None
    """Number of files with a request that could not be stored, and of incomplete or damaged
    files."""


class BufferRetryQuery(Request, frozen=True, kw_only=True):
    """Whether to include requests that may be stored already, and would then be stored twice."""

    doubtful: bool = False
    """Whether to include requests that may be stored already, and would then be stored twice.
    Default: false."""


class BufferRetried(Wire, frozen=True, kw_only=True):
    """Messages that are retried, after those that wait."""

    messages: int
    """Number of messages that are retried, after the waiting ones."""
