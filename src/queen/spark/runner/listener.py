"""Report the progress of streaming queries, as for the other pipelines."""

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

from queen.pipelines.report import Report

_MOST_QUERIES: Final = 100
"""Maximum queries per session. Further ones are not reported."""
_LAST_SECONDS: Final = 10.0


class Listener(StreamingQueryListener):
    """
    Reports every streaming query of a session to PostgreSQL.

    Usage::

        spark.streams.addListener(Listener(dsn))
        frame.writeStream.queryName("orders-per-minute")…

    A query is reported by its name, or by its id if it has none. A pipeline that has its own
    report passes it instead of the database: ``Listener(report=report)``.
    """

    def __init__(
        self, dsn: str | None = None, *, report: Report | None = None, kind: str = "stream"
    ) -> None:
        if (dsn is None) == (report is None):
            raise ValueError("pass either a database or a report")
        self._dsn = dsn
        self._report = report
        self._kind = kind
        self._reports: dict[str, Report] = {}
        self._rows: dict[str, int] = {}
        self._dropped: dict[str, int] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether the end of a query is not reported yet."""
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
        # A report that was passed in is closed by its owner.
        if report is not None and report is not self._report:
            error = event.exception
            report.close(None if error is None else RuntimeError(error.partition("\n")[0]))


def figures_of(progress: StreamingQueryProgress) -> dict[str, Any]:
    """Return the metrics of a batch. The position is that of the slowest source."""
    offsets = [_offset(source.endOffset) for source in progress.sources]
    ours = [offset for offset in offsets if offset is not None]
    return {
        "batch_id": progress.batchId,
        "batch_millis": progress.batchDuration,
        "rows_per_second": _known(progress.processedRowsPerSecond),
        "position": min(map(_transaction, ours), default=None),
        "queue_ids": tuple(offset["queue"] for offset in ours),
    }


def dropped_in(progress: StreamingQueryProgress) -> int:
    """
    Return how many messages of a batch were too late for their window.

    Spark counts after a partial aggregation in each task, so messages of one key and window count
    as one.
    """
    return sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)


def _transaction(offset: dict[str, Any]) -> int:
    """Return the first transaction of which a stream has not read everything."""
    is_whole = offset.get("partition", 0) and not offset.get("is_split")
    return offset["xid"] + 1 if is_whole else offset["xid"]


def _offset(text: str | None) -> dict[str, int] | None:
    """Return the offset of a queue, or None for sources of other formats."""
    try:
        offset = msgspec.json.decode(text or "")
    except msgspec.DecodeError:
        return None
    is_ours = isinstance(offset, dict) and all(
        isinstance(offset.get(name), int) for name in ("queue", "xid")
    )
    return offset if is_ours else None


def _known(value: float | None) -> float | None:
    """Return None for NaN and infinity, which Spark reports for a batch that took no time."""
    return value if value is not None and 0 <= value < float("inf") else None


@contextmanager
def listening(spark: SparkSession, report: Report) -> Iterator[None]:
    """Report all streaming queries that start in the block. Nested calls register once."""
    if report.is_listening:
        yield
        return
    listener = Listener(report=report)
    spark.streams.addListener(listener)
    report.is_listening = True
    try:
        yield
        # Spark reports with a delay, and the last batch of a completed query is needed.
        deadline = time.monotonic() + _LAST_SECONDS
        while listener.is_waiting and not spark.streams.active and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        report.is_listening = False
        spark.streams.removeListener(listener)
