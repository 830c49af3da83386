"""Processes, settings, migrations, tables, maintenance."""

from datetime import datetime
from typing import Any, Literal

from queen.wire.messages import Request, Wire


class Instance(Wire, frozen=True, kw_only=True):
    """A server process."""

    id: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    alive: bool
    waiters: int


class Instances(Wire, frozen=True, kw_only=True):
    """A page of the processes that use this database."""

    instances: list[Instance]
    next_cursor: str | None


class Setting(Wire, frozen=True, kw_only=True):
    """An effective setting; secrets are masked."""

    name: str
    value: Any
    source: Literal["environment", "default"]


class Config(Wire, frozen=True, kw_only=True):
    """All settings of the process that responds."""

    settings: list[Setting]


class Migration(Wire, frozen=True, kw_only=True):
    """A schema migration."""

    name: str
    applied_at: datetime


class Migrations(Wire, frozen=True, kw_only=True):
    """Applied migrations, and those that this release would apply."""

    applied: list[Migration]
    pending: list[str]


class Table(Wire, frozen=True, kw_only=True):
    """A table, by PostgreSQL's statistics."""

    name: str
    total_bytes: int
    heap_bytes: int
    index_bytes: int
    live_rows: int
    dead_rows: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


class OldestTransaction(Wire, frozen=True, kw_only=True):
    """The transaction that prevents vacuum from removing dead rows."""

    pid: int
    application: str | None
    user: str | None
    state: str | None
    started_at: datetime
    age_seconds: float


class Tables(Wire, frozen=True, kw_only=True):
    """Queen's tables, and the oldest open transaction of the database."""

    tables: list[Table]
    oldest_transaction: OldestTransaction | None


class Duty(Wire, frozen=True, kw_only=True):
    """A background task, and the result of its last run."""

    name: str
    running: bool
    """A process is running it now."""
    epoch: int
    """How often a process took it over."""
    due_at: datetime | None
    last_run_at: datetime | None
    last_success_at: datetime | None
    seconds: float | None
    rows: int | None
    lag_seconds: float | None
    error: str | None


class Duties(Wire, frozen=True, kw_only=True):
    """The background tasks."""

    duties: list[Duty]


class MaintenanceRequest(Request, frozen=True, kw_only=True):
    """Whether to turn maintenance on."""

    enabled: bool


class Maintenance(Wire, frozen=True, kw_only=True):
    """Whether maintenance is on, since when, and the caller that turned it on."""

    enabled: bool
    changed_at: datetime | None = None
    changed_by: str | None = None


class Buffer(Wire, frozen=True, kw_only=True):
    """The file buffer of the server that responds. Its processes share one directory."""

    enabled: bool
    buffering: bool
    """Pushes go to disk, because the database is unavailable or the buffer is not empty yet."""
    db_healthy: bool
    messages: int | None
    """Null for callers with scopes, like the other counts, because they cover all queues."""
    bytes: int | None
    max_bytes: int
    oldest_seconds: float | None
    failed_files: int | None
    """Files with requests that could not be stored, one each, and incomplete or damaged files."""


class BufferRetryQuery(Request, frozen=True, kw_only=True):
    """Whether to include requests that may be stored already, and would then be stored twice."""

    doubtful: bool = False


class BufferRetried(Wire, frozen=True, kw_only=True):
    """Messages that are retried, after those that wait."""

    messages: int
