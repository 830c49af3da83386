"""Write the rows of pipelines to PostgreSQL in a thread, on one connection."""

import contextlib
import threading
import time
from typing import Final, Protocol

import psycopg

from queen import errors
from queen.arrow.database import Connection, call, connect

BEAT_SECONDS: Final = 10.0
"""Interval of rows while the progress does not change."""
_LEAST_SECONDS: Final = 2.0
"""Minimum time between two rows of a pipeline."""
_CLOSE_SECONDS: Final = 15.0
_UNAVAILABLE: Final = (psycopg.Error, errors.QueenError, OSError)


class Row(Protocol):
    """The report of a pipeline, as far as the writer needs it."""

    name: str
    run_id: str

    @property
    def is_idle(self) -> bool: ...

    def write(self, connection: Connection) -> bool:
        """Write the row. Returns False if another run has replaced this one."""
        ...


class ReportWriter:
    """
    A thread that writes the latest row of each report.

    A row that can't be written is dropped, except the last one, which is retried for a limited
    time. Rows of idle pipelines only get a new timestamp, all of them in one statement.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Connection | None = None
        self._reports: dict[Row, float] = {}
        """Reports with the time from which on their next row may be written."""
        self._news: set[Row] = set()
        self._ended: set[Row] = set()
        self._beat_at = time.monotonic() + BEAT_SECONDS
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_on, name="queen-report", daemon=True)
        self._thread.start()

    def add(self, report: Row) -> None:
        """Write the rows of a report from now on."""
        with self._changed:
            self._reports[report] = 0.0
        self.notify(report)

    def notify(self, report: Row) -> None:
        """Write the row of a report soon."""
        with self._changed:
            if report in self._reports:
                self._news.add(report)
                self._changed.notify_all()

    def remove(self, *reports: Row) -> None:
        """Write the last row of these reports. Waits for it, for a limited time."""
        with self._changed:
            ours = {each for each in reports if each in self._reports}
            self._news |= ours
            self._ended |= ours
            self._reports.update(dict.fromkeys(ours, 0.0))
            self._changed.notify_all()
            self._changed.wait_for(lambda: not ours & self._ended, _CLOSE_SECONDS)
            for report in ours:
                self._forget(report)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(_LEAST_SECONDS)

    def _write_on(self) -> None:
        while self._wait():
            for report, is_last in self._take_news():
                is_written = self._try(report)
                with self._changed:
                    if is_last and is_written is None:
                        self._news.add(report)
                    elif is_last or is_written is False:  # Or another run has its name.
                        self._forget(report)
                        self._changed.notify_all()
            if time.monotonic() >= self._beat_at:
                self._beat()
        self._hang_up()

    def _wait(self) -> bool:
        """Wait until a row is due. Returns False at the end."""
        with self._changed:
            while not self._is_closed and not self._due():
                self._changed.wait(min([self._beat_at, *self._times()]) - time.monotonic())
            return not self._is_closed

    def _times(self) -> list[float]:
        return [self._reports[each] for each in self._news]

    def _due(self) -> bool:
        return time.monotonic() >= min([self._beat_at, *self._times()])

    def _take_news(self) -> list[tuple[Row, bool]]:
        """Return the reports whose row may be written now, and whether it is the last one."""
        with self._changed:
            now = time.monotonic()
            due = [each for each in self._news if self._reports[each] <= now]
            for report in due:
                self._news.discard(report)
                self._reports[report] = now + _LEAST_SECONDS
            # Before the row is read, because a report may end while an earlier row is written.
            return [(each, each in self._ended) for each in due]

    def _try(self, report: Row) -> bool | None:
        """Write a row. Returns None if that failed."""
        try:
            return report.write(self._connected())
        except _UNAVAILABLE:
            # Not logged, because `stale` shows a missing row.
            self._hang_up()
            return None

    def _beat(self) -> None:
        """Renew idle rows, and write the rows of other pipelines again."""
        with self._changed:
            self._beat_at = time.monotonic() + BEAT_SECONDS
            shared = len(self._reports) > 1
            idle = [each for each in self._reports if shared and each.is_idle]
            self._news |= self._reports.keys() - set(idle)
        if idle:
            with contextlib.suppress(*_UNAVAILABLE):
                names, runs = [each.name for each in idle], [each.run_id for each in idle]
                call(self._connected(), "touch_pipelines", names, runs)
                return
            self._hang_up()

    def _forget(self, report: Row) -> None:
        self._reports.pop(report, None)
        self._news.discard(report)
        self._ended.discard(report)

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = connect(self._dsn)
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
