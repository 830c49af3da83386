"""Report the progress of a pipeline to PostgreSQL, for the server, the dashboard and alerts."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Self, cast
from uuid import uuid4

import msgspec

from queen import errors
from queen.arrow.database import Connection, call, connect
from queen.arrow.holders import Holders
from queen.pipelines.report_writer import ReportWriter
from queen.wire.resources import Pipeline
from queen.wire.resources.pipelines import STALE_SECONDS

_MOST_SEGMENTS: Final = 10_000
_MOST_TEXT: Final = 2_000
_MOST_DETAIL: Final = 8_000
_CALLING: Final = "An error occurred while calling "
_RAISED: Final = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+(?P<error>[\w.]+(?:: .*)?)$",
    re.MULTILINE,
)
"""The last line of a Python traceback, which Spark quotes between its own."""
_SECRET: Final = re.compile(
    r"(?<=://)[^/@\s]*@|password\s*=\s*('([^'\\]|\\.)*'?|[^\s&]+)", re.IGNORECASE
)


class Figures(msgspec.Struct, kw_only=True):
    """The metrics of a run. None is unknown."""

    state: str = "running"
    position: int | None = None
    """Everything that lower transactions stored is processed."""
    batch_id: int | None = None
    batch_millis: int | None = None
    rows_per_second: float | None = None
    rows: int | None = None
    """In this run."""
    queue_ids: tuple[int, ...] = ()
    """Ids of the source queues, if their names are unknown."""
    held_back_by: str | None = None
    """The open transaction that newer messages wait for."""
    error: str | None = None


class Lag(NamedTuple):
    """The messages after a position. None is unknown."""

    position: int | None = None
    messages: int | None = None
    seconds: float | None = None


_NAMES: Final = frozenset(Figures.__struct_fields__)


class Report:
    """
    The public state of one pipeline run.

    A thread writes the latest metrics, so reporting costs no time, and a database that is slow,
    unavailable or read-only never stops a pipeline. These rows are for people. The ledgers contain
    the authoritative progress.

    Usage::

        with Report(dsn, name="orders-archive", kind="archive", queues=["orders"]) as report:
            run(spark, config, report=report)  # Calls report(metrics) repeatedly.
    """

    def __init__(
        self,
        dsn: str,
        *,
        name: str,
        kind: str,
        queues: Iterable[str] = (),
        target: str | None = None,
        ui_url: str | None = None,
        writer: ReportWriter | None = None,
    ) -> None:
        """Begin a run. Reports that share a writer share its thread and its connection."""
        self.name = name
        self.kind = kind
        self.queues = tuple(queues)
        self.target = None if target is None else without_secrets(target)
        self.ui_url = ui_url
        self.figures = Figures()
        self.held_back_by: str | None = None
        """The open transaction that newer messages wait for, also in a run that has ended."""
        self._holders = Holders()
        self._lag = Lag()
        self.is_listening = False
        """Streaming queries of the session report to this object."""
        self.watch: Callable[[], None] | None = None
        """Called after each update, for progress displays."""
        self._detail: dict[str, Any] = {}
        self.run_id = str(uuid4())
        self._has_begun = False
        self._is_closed = False
        self._lock = threading.Lock()
        self._writer = writer or ReportWriter(dsn)
        self._has_own_writer = writer is None
        self._writer.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        is_failure = error is not None and not isinstance(error, KeyboardInterrupt | SystemExit)
        self.close(error if is_failure else None)

    def __call__(self, progress: object = None, /, **figures: object) -> None:
        """
        Update the metrics of the run.

        Fields of ``progress``, a struct or a mapping, update the metric of the same name. All
        others are shown unchanged.
        """
        changes = {**_plain(progress), **figures}
        with self._lock:
            for name, value in changes.items():
                if name in _NAMES:
                    setattr(self.figures, name, value)
                else:
                    self._detail[name] = value
            if "state" not in changes:
                self.figures.state = "running"
        self.refresh()
        if self.watch is not None:
            self.watch()

    @property
    def lag(self) -> Lag:
        """The last known lag, or an unknown one if the position has changed since."""
        return self._lag if self._lag.position == self.figures.position else Lag()

    @property
    def is_idle(self) -> bool:
        """Whether the run waits for messages."""
        return self.figures.state == "idle"

    @property
    def detail(self) -> Mapping[str, Any]:
        """Other values of the run."""
        return self._detail

    def idle(self) -> None:
        """Mark the run as idle."""
        self.figures.state = "idle"
        self.refresh()

    def refresh(self) -> None:
        """Write the row again soon, because the lag may have changed."""
        self._writer.notify(self)

    def fail(self, error: BaseException) -> None:
        """Mark the run as failed, with the error. A later report continues it."""
        with self._lock:
            self.figures.state, self.figures.error = "failed", error_text(error)
        self.refresh()

    def close(self, error: BaseException | None = None) -> None:
        """End the run, with or without an error. Waits for the last row, for a limited time."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self.figures.state = "stopped" if error is None else "failed"
            if error is not None:
                self.figures.error = error_text(error)
        self._writer.remove(self)
        if self._has_own_writer:
            self._writer.close()

    def write(self, connection: Connection) -> bool:
        """Write the row. Returns False if another run has replaced this one."""
        if not self._has_begun:
            call(
                connection, "begin_pipeline",
                *(self.name, self.run_id, self.kind, [*self.queues], self.target, self.ui_url),
            )  # fmt: skip
            self._has_begun = True
        with self._lock:
            figures = msgspec.structs.replace(self.figures)
            detail = _bounded(self._detail)
        lag: dict[str, Any] = {"queues": [], "messages": None, "seconds": None}
        if figures.position is not None:
            (lag,) = call(
                connection, "pipeline_lag",
                *([*self.queues], [*figures.queue_ids], figures.position, _MOST_SEGMENTS),
            )  # fmt: skip
        self._lag = Lag(figures.position, lag["messages"], lag["seconds"])
        self.held_back_by = figures.held_back_by or self._find_holder(connection, figures)
        if self.held_back_by is not None and figures.state == "idle":
            figures.state = "running"  # It is not idle: it waits.
        rows = call(
            connection, "report_pipeline",
            *(self.name, self.run_id, figures.state, lag["queues"] or [*self.queues]),
            *(figures.position, lag["messages"], lag["seconds"], figures.batch_id),
            *(figures.batch_millis, figures.rows_per_second, figures.rows, detail),
            None if figures.error is None else without_secrets(figures.error)[:_MOST_TEXT],
            self.held_back_by,
        )  # fmt: skip
        return bool(rows)

    def _find_holder(self, connection: Connection, figures: Figures) -> str | None:
        if figures.position is None or not (self.queues or figures.queue_ids):
            return None
        wait = self._holders.find(connection, figures.position, self.queues, figures.queue_ids)
        return wait.by if wait is not None and wait.is_long else None


def reason(error: BaseException) -> errors.QueenError | str:
    """
    Return the cause of a failure without stack traces: a Queen error if Spark's text contains one.

    Spark passes errors of a source or a sink, which run in their own processes, only as text.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    for line in reversed(lines):
        name, _, text = line.removeprefix("queen.errors.").partition(": ")
        kind = getattr(errors, name, None) if line.startswith("queen.errors.") else None
        if isinstance(kind, type) and issubclass(kind, errors.QueenError):
            return kind(text)
    if raised := _RAISED.findall(str(error)):
        return without_secrets(raised[-1])
    # Java's message follows the name of the failed call.
    messages = [line.removeprefix(": ") for line in lines if line and not line.startswith(_CALLING)]
    return without_secrets(messages[0]) if messages else type(error).__name__


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun: 1 file, 2,000 files."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def reports(dsn: str, *, limit: int) -> list[Pipeline]:
    """Read the reports of pipelines, by name, from the database."""
    with connect(dsn) as connection:
        rows = call(connection, "list_pipelines", "", limit, STALE_SECONDS, None)
    return [Pipeline(**row) for row in rows]


def without_secrets(text: str) -> str:
    """Remove passwords, because an error or a location may contain a DSN."""
    return _SECRET.sub("***@", text)


def error_text(error: BaseException) -> str:
    """Return the error with its class. Spark may fail to load the text of some from Java."""
    with contextlib.suppress(Exception):
        found = reason(error)
        known = found if isinstance(found, errors.QueenError) else error
        return without_secrets(f"{type(known).__name__}: {found}")
    return type(error).__name__


def _plain(progress: object) -> Mapping[str, Any]:
    """Return the fields of a struct or a mapping, otherwise none."""
    if isinstance(progress, msgspec.Struct):
        return msgspec.structs.asdict(progress)
    return cast("Mapping[str, Any]", progress) if isinstance(progress, Mapping) else {}


def _bounded(detail: Mapping[str, Any]) -> str | None:
    """Return JSON, or None if it would be too large."""
    if not detail:
        return None
    text = msgspec.json.encode(detail, enc_hook=str).decode()
    return text if len(text) <= _MOST_DETAIL else None
