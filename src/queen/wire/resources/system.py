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
    """A page of processes over this database."""

    instances: list[Instance]
    next_cursor: str | None


class Setting(Wire, frozen=True, kw_only=True):
    """A setting in force; secrets are masked."""

    name: str
    value: Any
    source: Literal["environment", "default"]


class Config(Wire, frozen=True, kw_only=True):
    """All settings of the process that answers."""

    settings: list[Setting]


class Migration(Wire, frozen=True, kw_only=True):
    """A change of the schema."""

    name: str
    applied_at: datetime


class Migrations(Wire, frozen=True, kw_only=True):
    """What was applied to the database, and what this release would apply."""

    applied: list[Migration]
    pending: list[str]


class Table(Wire, frozen=True, kw_only=True):
    """A table as PostgreSQL's statistics know it."""

    name: str
    total_bytes: int
    heap_bytes: int
    index_bytes: int
    live_rows: int
    dead_rows: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


class OldestTransaction(Wire, frozen=True, kw_only=True):
    """What keeps vacuum from removing dead rows."""

    pid: int
    application: str | None
    user: str | None
    state: str | None
    started_at: datetime
    age_seconds: float


class Tables(Wire, frozen=True, kw_only=True):
    """Our tables, and the oldest open transaction of the database."""

    tables: list[Table]
    oldest_transaction: OldestTransaction | None


class Duty(Wire, frozen=True, kw_only=True):
    """A duty of upkeep, and what came of its last run."""

    name: str
    running: bool
    """A process has it now."""
    epoch: int
    """How often it was taken."""
    due_at: datetime | None
    last_run_at: datetime | None
    last_success_at: datetime | None
    seconds: float | None
    rows: int | None
    lag_seconds: float | None
    error: str | None


class Duties(Wire, frozen=True, kw_only=True):
    """What keeps the database in shape."""

    duties: list[Duty]


class MaintenanceRequest(Request, frozen=True, kw_only=True):
    """On or off."""

    enabled: bool


class Maintenance(Wire, frozen=True, kw_only=True):
    """Whether maintenance is on, since when, and by whom."""

    enabled: bool
    changed_at: datetime | None = None
    changed_by: str | None = None


class Buffer(Wire, frozen=True, kw_only=True):
    """What the server that answers has on disk; its processes share one folder."""

    enabled: bool
    buffering: bool
    """Pushes go to disk: the database is away, or what is there is being stored."""
    db_healthy: bool
    messages: int | None
    """Null for callers with scopes, as are the other counts: they are of all queues."""
    bytes: int | None
    max_bytes: int
    oldest_seconds: float | None
    failed_files: int | None
    """Requests that could not be stored, a file each, and files with a torn or damaged end."""


class BufferRetryQuery(Request, frozen=True, kw_only=True):
    """Also what may be stored already, and would be twice then."""

    doubtful: bool = False


class BufferRetried(Wire, frozen=True, kw_only=True):
    """Messages that could not be stored and are tried again, behind those that wait."""

    messages: int
