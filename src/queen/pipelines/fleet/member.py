"""One pipeline of a fleet: its schedule, its report, and its last result."""

# pyright: basic
import threading
import time
from typing import Any, Final, NamedTuple

import msgspec

from queen import errors
from queen.pipelines.fleet.declaration import Entry
from queen.pipelines.fleet.planner import Watched
from queen.pipelines.report import Report, reason

_LONGEST_SECONDS: Final = 300.0
"""The longest pause between attempts."""
_PERMANENT: Final = (errors.InvalidOption, errors.BadSettings, errors.NotFound)
"""Errors that a retry does not repair."""


class Stopped(Exception):
    """The fleet stops, so the run ends after this step. The next run continues it."""


class State(NamedTuple):
    """A pipeline, as `-o json` shows it."""

    name: str
    kind: str
    state: str
    rows: int
    lag: int | None
    error: str | None


class Member:
    """A pipeline, and when it runs next."""

    def __init__(self, entry: Entry, config: Any, name: str, report: Report) -> None:  # noqa: ANN401 - its Config
        self.entry = entry
        self.config = config
        self.name = name
        self.report = report
        self.is_polled = entry.job.kind == "archive" and config.interval_seconds > 0
        self.has_query = hasattr(config, "once")
        """It runs a streaming query, which needs its own session."""
        self.is_stream = self.has_query and not config.once
        """It runs until it is stopped, and so takes no place among concurrent runs."""
        self.is_first = True
        """Its next run needs no poll: it is new, or the last run failed."""
        self.is_running = False
        self.has_ended = False
        self.error: BaseException | None = None
        self.result: Any = None
        self.next_at = 0.0
        self._attempts = 0
        self._rows = 0
        self._commit_at = 0.0

    @property
    def archive(self) -> str:
        """The name of an archive."""
        return self.config.name or self.config.queue

    @property
    def watched(self) -> Watched:
        """The archive, for the planner."""
        may_commit = time.monotonic() >= self._commit_at
        return Watched(self.archive, self.config.commit_bytes, may_commit)

    @property
    def run_config(self) -> Any:  # noqa: ANN401 - its Config
        """The configuration of one run. A polled archive ends when it has no more messages."""
        if self.is_polled:
            return msgspec.structs.replace(self.config, interval_seconds=0)
        return self.config

    def progress(self, stopping: threading.Event) -> Any:  # noqa: ANN401 - a function, or the report of a stream
        """Return what a run reports to."""
        if self.has_query:
            return self.report

        def report(progress: Any) -> None:  # noqa: ANN401 - its own
            if stopping.is_set():
                raise Stopped
            self.report(progress, rows=self._rows + progress.rows, error=None)

        return report

    def begin(self) -> None:
        """Note that a run starts."""
        self.is_running = True
        if self.error is not None:
            self.report(state="running", error=None)

    def succeed(self, result: Any) -> None:  # noqa: ANN401 - its own
        """Schedule the next run after one that ended."""
        self.is_running = self.is_first = False
        self.error, self.result, self._attempts = None, result, 0
        self._rows += getattr(result, "rows", 0)
        now = time.monotonic()
        if self.is_polled:
            if result.rows:
                self._commit_at = now + self.config.commit_seconds
            self.next_at = now + self.config.interval_seconds
        elif self.entry.every_seconds is not None:
            self.report.idle()
            self.next_at = now + self.entry.every_seconds
        else:
            self.has_ended = True
            self.report.close()

    def fail(self, error: BaseException, retries: int) -> str:
        """Schedule the next attempt. Returns a sentence about the failure."""
        self.is_running, self.is_first = False, True
        self.error = error
        self._attempts += 1
        text = reason(error) if not isinstance(error, errors.QueenError) else error
        repeats = self.is_polled or self.is_stream or self.entry.every_seconds is not None
        if not repeats and (self._attempts > retries or isinstance(error, _PERMANENT)):
            self.has_ended = True
            self.report.close(error)
            return f"{self.name}: failed: {text}"
        seconds = min(_LONGEST_SECONDS, 2.0 ** (self._attempts - 1))
        self.next_at = time.monotonic() + seconds
        self.report.fail(error)
        return f"{self.name}: failed, next attempt in {seconds:.0f} s: {text}"

    def state(self) -> State:
        """Return the current state."""
        figures = self.report.figures
        rows = figures.rows or 0
        return State(
            self.name,
            self.entry.job.kind,
            "failed" if self.error is not None else figures.state,
            rows,
            self.report.lag.messages,
            figures.error,
        )
