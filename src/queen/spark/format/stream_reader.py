"""Read a queue as a stream: the driver plans batches, and the tasks read."""

# pyright: basic
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from queen import errors
from queen.arrow.database import Connection, call, connect
from queen.arrow.planning import find_queue, horizon, plan_batch, split_batch, xid_at
from queen.spark.format.options import SourceOptions
from queen.spark.format.reading import (
    MARGIN,
    Part,
    bounded_range,
    check_offsets,
    check_payload,
    read_part,
)

Answer = TypeVar("Answer")


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """
    Reads a stream, in batches of everything stored between two transactions.

    Its offset is one transaction number for all partitions. It also contains the queue's id,
    because a queue may be recreated under its name, the transaction since which a deletion is a
    loss, and how often a restored database was renumbered.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        for name, value in (
            ("endingOffset", options.ending_offset),
            ("endingTimestamp", options.ending_at),
        ):
            if value is not None:
                raise errors.InvalidOption(f"{name}: remove it, because a stream does not end")
        check_payload(options, schema)
        self._options = options
        self._schema = schema
        self._target: int | None = None
        """The end of the stream for AvailableNow."""
        self._connection: Connection | None = None

    def initialOffset(self) -> dict[str, int]:
        options = self._options
        queue = self._queue()
        queue_id = queue["id"]
        now = self._ask(horizon)
        start = min(now, self._behind_last(queue_id))
        if options.starting_at is not None:
            start = min(start, self._ask(xid_at, queue_id, options.starting_at - MARGIN))
        elif not options.is_from_latest:
            rows = self._call("first_xid", queue_id)
            start = min(start, rows[0]["xid"]) if rows else start
        check_offsets(self._connected(), options, bounded_range(self._connected(), options, queue))
        if options.txn_app_id is None:
            return _offset(queue, start, now)
        # Stored before the first batch, so that two concurrent streams start at the same point.
        (row,) = self._ledger("begin_stream", options.txn_app_id, queue_id, start, now)
        if row["queue_id"] != queue_id:
            raise errors.InvalidOption(
                f"txnAppId: {options.txn_app_id} has read another queue, or {options.queue} before"
                " it was recreated or restored, so its batches would count as published already:"
                " use another txnAppId"
            )
        return _offset(queue, row["xid"], row["since"])

    def _behind_last(self, queue_id: int) -> int:
        """
        Return the number after the last stored transaction. The horizon may be ahead of it.

        After a crash, PostgreSQL reuses the numbers of transactions that wrote nothing to disk. A
        stream that started after them would miss data that is stored under them later.
        """
        rows = self._call("last_xid", queue_id)
        return rows[0]["xid"] + 1 if rows else 0

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        options, queue_id, xid = self._options, start["queue"], start["xid"]
        self._check(start)
        app_id = options.txn_app_id
        if app_id is not None:
            for row in self._ledger("find_plan", app_id, queue_id, xid):
                return self._reached(start, row["xid"])
        end = self._target or self._horizon(xid)
        is_bounded = not isinstance(limit, ReadAllAvailable)
        bounds = (options.max_messages, options.max_bytes) if is_bounded else (None, None)
        if end <= xid:
            return self._trailing(start)
        end = self._ask(plan_batch, queue_id, xid, end, *bounds)
        if end == xid:
            return self._trailing(start)
        if app_id is not None:
            end = self._ledger("remember_plan", app_id, queue_id, xid, end)[0]["xid"]
            return self._reached(start, end)
        return {**start, "xid": end}

    def _trailing(self, start: dict[str, int]) -> dict[str, int]:
        """Return the end of an empty batch, stored as any batch, or ``start`` for no batch."""
        if not self._options.has_trailing_batch:
            return start
        scope = (self._options.txn_app_id, start["queue"], start["xid"])
        for row in self._ledger("trailing_plan", *scope):
            end = self._ledger("remember_plan", *scope, row["xid"])[0]["xid"]
            return self._reached(start, end)
        return start

    def _reached(self, start: dict[str, int], end: int) -> dict[str, int]:
        """Return the end of a planned batch, or ``start`` until this replica has all of it."""
        if self._horizon(end) < end:
            return start
        return {**start, "xid": end}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ask(horizon)

    def reportLatestOffset(self) -> dict[str, int]:
        return _offset(self._queue(), self._ask(horizon), 0)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if start["xid"] >= end["xid"]:
            return []
        if self._horizon(end["xid"]) < end["xid"]:
            raise errors.DatabaseUnavailable(
                "this replica does not have all data of the batch of queue"
                f" {self._options.queue} yet: run the batch again"
            )
        queue = self._queue()
        connection = self._connected()
        whole = bounded_range(connection, self._options, queue)._replace(
            start_xid=start["xid"],
            end_xid=end["xid"],
            since_xid=start["since"] if self._options.fail_on_data_loss else 0,
        )
        parts = [Part(each) for each in split_batch(connection, whole, self._options.tasks)]
        # Only now, because tasks detect deletions from here on, but there may be no tasks.
        self._check(start)
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(self._options, self._schema, partition)

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _check(self, start: dict[str, int]) -> None:
        """Raise DataLost if the stream would miss data."""
        options = self._options
        queue = self._queue()
        if queue["id"] != start["queue"]:
            raise errors.DataLost(
                f"queue {options.queue} was deleted and recreated since this stream began: give it"
                " another checkpoint"
            )
        if queue["numbering"] != start.get("numbering", 0):
            raise errors.DataLost(
                "the database was restored into another server since this stream began, so its"
                " transaction numbers changed: give the stream another checkpoint"
            )
        if not options.fail_on_data_loss:
            return
        row = self._call("missed", start["queue"], start["xid"], start["since"])[0]
        if row["is_missed"]:
            raise errors.DataLost(
                f"messages of queue {options.queue} were deleted before this stream read them:"
                " continue without them by option failOnDataLoss=false"
            )

    def _horizon(self, xid: int) -> int:
        row = self._call("horizon")[0]
        if row["xid"] < xid and not row["is_replica"]:
            raise errors.DataLost(
                "the database is behind this stream, because it was restored from a backup: give"
                " the stream another checkpoint"
            )
        return row["xid"]

    def _queue(self) -> dict[str, Any]:
        return self._ask(find_queue, self._options.queue)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._options.dsn)
        return self._connection

    def _ask(self, question: Callable[..., Answer], *arguments: Any) -> Answer:  # noqa: ANN401
        """Run a statement. Retries once on a new connection, because a server may restart."""
        try:
            return question(self._connected(), *arguments)
        except psycopg.OperationalError:
            self.stop()
            self._connection = None
            return question(self._connected(), *arguments)

    def _call(self, name: str, *arguments: object) -> list[dict[str, Any]]:
        return self._ask(call, name, *arguments)

    def _ledger(self, name: str, *arguments: object) -> list[dict[str, Any]]:
        """Run a statement on the primary, where plans are stored."""
        if self._options.ledger_dsn == self._options.dsn:
            return self._call(name, *arguments)
        with connect(self._options.ledger_dsn) as connection:
            return call(connection, name, *arguments)


def _offset(queue: dict[str, Any], xid: int, since: int) -> dict[str, int]:
    offset = {"queue": queue["id"], "xid": xid, "since": since}
    return {**offset, "numbering": queue["numbering"]} if queue["numbering"] else offset
