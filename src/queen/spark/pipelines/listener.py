"""Streaming queries report how far they are, as the other pipelines do."""

# pyright: basic

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from queen.spark.pipelines.report import Report

_MOST_QUERIES: Final = 100
"""A session with more has the others unreported."""
_LAST_SECONDS: Final = 10.0


class Listener(StreamingQueryListener):
    """
    Tells PostgreSQL of every streaming query of a session.

    Usage::

        spark.streams.addListener(Listener(dsn))
        frame.writeStream.queryName("orders-per-minute")…

    A query goes by its name, or by its id where it has none. A pipeline that has a report of its
    own gives it instead of the database: ``Listener(report=report)``.
    """

    def __init__(
        self, dsn: str | None = None, *, report: Report | None = None, kind: str = "stream"
    ) -> None:
        if (dsn is None) == (report is None):
            raise ValueError("either a database or a report")
        self._dsn = dsn
        self._report = report
        self._kind = kind
        self._reports: dict[str, Report] = {}
        self._rows: dict[str, int] = {}
        self._dropped: dict[str, int] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether the end of a query is still to be told."""
        return bool(self._reports)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        run_id = str(event.runId)
        if self._report is not None:
            self._reports[run_id] = self._report
        elif self._dsn is not None and len(self._reports) < _MOST_QUERIES:
            name = event.name or str(event.id)
            self._reports[run_id] = Report(self._dsn, name=name, kind=self._kind)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        run_id = str(progress.runId)
        if (report := self._reports.get(run_id)) is None:
            return
        self._rows[run_id] = self._rows.get(run_id, 0) + progress.numInputRows
        self._dropped[run_id] = self._dropped.get(run_id, 0) + dropped_in(progress)
        late = {"dropped": self._dropped[run_id]} if progress.stateOperators else {}
        report(figures_of(progress), rows=self._rows[run_id], **late)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        if (report := self._reports.get(str(event.runId))) is not None:
            report.idle()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._rows.pop(str(event.runId), None)
        self._dropped.pop(str(event.runId), None)
        report = self._reports.pop(str(event.runId), None)
        # One that was given is its giver's to close.
        if report is not None and report is not self._report:
            error = event.exception
            report.close(None if error is None else RuntimeError(error.partition("\n")[0]))


def figures_of(progress: StreamingQueryProgress) -> dict[str, Any]:
    """What a query says of a batch; the position is that of the source that is furthest behind."""
    offsets = [_offset(source.endOffset) for source in progress.sources]
    ours = [offset for offset in offsets if offset is not None]
    return {
        "batch_id": progress.batchId,
        "batch_millis": progress.batchDuration,
        "rows_per_second": _known(progress.processedRowsPerSecond),
        "position": min((offset["xid"] for offset in ours), default=None),
        "queue_ids": tuple(offset["queue"] for offset in ours),
    }


def dropped_in(progress: StreamingQueryProgress) -> int:
    """
    How much of a batch came too late for its window.

    Spark counts it after a first summing up in each task: messages of one key and window are one.
    """
    return sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)


def _offset(text: str | None) -> dict[str, int] | None:
    """The offset of a queue; None for sources that are not ours, whatever theirs look like."""
    try:
        offset = msgspec.json.decode(text or "")
    except msgspec.DecodeError:
        return None
    is_ours = isinstance(offset, dict) and all(
        isinstance(offset.get(name), int) for name in ("queue", "xid")
    )
    return offset if is_ours else None


def _known(value: float | None) -> float | None:
    """Spark says NaN and infinity of a batch that took no time."""
    return value if value is not None and 0 <= value < float("inf") else None


@contextmanager
def listening(spark: SparkSession, report: Report) -> Iterator[None]:
    """Let a report hear of all streaming queries that start meanwhile; once, whoever asks."""
    if report.is_listening:
        yield
        return
    listener = Listener(report=report)
    spark.streams.addListener(listener)
    report.is_listening = True
    try:
        yield
        # Spark tells later than it does; of a query that ended well its last batch is wanted.
        deadline = time.monotonic() + _LAST_SECONDS
        while listener.is_waiting and not spark.streams.active and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        report.is_listening = False
        spark.streams.removeListener(listener)
