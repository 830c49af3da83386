"""Read a queue as a stream: the driver plans batches, and the tasks read."""

# pyright: basic
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
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
from queen.arrow.database import Connection, Database, call
from queen.arrow.planning import find_queue, horizon, last_before, plan_batch, split_batch, xid_at
from queen.arrow.ranges import Position, SegmentRange
from queen.spark.format.options import SourceOptions
from queen.spark.format.reading import (
    MARGIN,
    Part,
    bounded_range,
    check_offsets,
    check_payload,
    read_part,
)
from queen.spark.format.stream_offset import Start, StreamOffset

_MOST_OFFSETS: Final = 10_000
"""Partitions whose first offset a stream stores."""


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream, in batches between two positions of the queue's log."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        for name, value in (
            ("endingOffset", options.ending_offset),
            ("endingTimestamp", options.ending_at),
        ):
            if value is not None:
                raise errors.InvalidOption(f"{name}: remove it, because a stream does not end")
        if options.has_lake:
            raise errors.InvalidOption(
                "tier: a stream reads the database only; read the archived messages as a batch"
            )
        check_payload(options, schema)
        self._options = options
        self._schema = schema
        self._target: int | None = None
        """The end of the stream for AvailableNow."""
        self._database = Database(options.dsn)
        self._primary = self._database
        """Where plans are stored."""
        if options.ledger_dsn != options.dsn:
            self._primary = Database(options.ledger_dsn)

    def initialOffset(self) -> dict[str, Any]:
        queue = self._database.ask(find_queue, self._options.queue)
        offset = self._database.ask(_first_offset, self._options, queue)
        app_id = self._options.txn_app_id
        if app_id is None:
            return offset.stored()
        # Stored before the first batch, so that two concurrent streams start at the same point.
        stored = msgspec.json.encode(offset).decode()
        scope = (app_id, offset.queue, offset.xid, offset.since, stored)
        (row,) = self._primary.call("begin_stream", *scope)
        if row["queue_id"] != offset.queue:
            raise errors.InvalidOption(
                f"txnAppId: {app_id} has read another queue, or {self._options.queue} before"
                " it was recreated or restored, so its batches would count as published already:"
                " use another txnAppId"
            )
        if row["start_offset"] is None:
            return _at_transaction(offset, row["xid"], since=row["since"]).stored()
        return msgspec.json.decode(row["start_offset"])

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        offset = StreamOffset.of(start)
        checked = self._checked(offset)
        if checked is None or (end := self._end(checked, limit)) is None:
            return start
        return end.stored()

    def _end(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset | None:
        """Return the end of the next batch, or None if there is none yet."""
        options = self._options
        scope = (options.txn_app_id, start.queue, *start.position, start.is_trailing)
        if options.txn_app_id is not None:
            for row in self._primary.call("find_plan", *scope):
                return self._reached(_planned(start, row))
        is_bounded = not isinstance(limit, ReadAllAvailable)
        limits = (options.max_messages, options.max_bytes) if is_bounded else (None, None)
        until = self._target or self._database.ask(horizon)
        planned = self._database.ask(plan_batch, start.queue, start.position, until, *limits)
        if planned is not None:
            end = start.moved(planned)
        elif options.has_trailing_batch and _has_read(start) and not start.is_trailing:
            end = start.trailing()
        else:
            return None
        if options.txn_app_id is None:
            return end
        stored = msgspec.json.encode(end).decode()
        (row,) = self._primary.call("remember_plan", *scope, end.xid, stored)
        return self._reached(_planned(start, row))

    def _reached(self, end: StreamOffset) -> StreamOffset | None:
        """Return the end of a planned batch, or None until this replica has all of it."""
        return end if self._has(end.position) else None

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._database.ask(horizon)

    def reportLatestOffset(self) -> dict[str, Any]:
        queue = self._database.ask(find_queue, self._options.queue)
        now = self._database.ask(horizon)
        return StreamOffset(queue=queue["id"], xid=now, since=0).stored()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = StreamOffset.of(start), StreamOffset.of(end)
        if not _is_same_start(first, last):
            # Spark repeats the first batch with a new initial offset. The stored end has the old.
            first = last.restarted()
        if first.position >= last.position:
            return []
        if not self._has(last.position):
            raise errors.DatabaseUnavailable(
                "this replica does not have all data of the batch of queue"
                f" {self._options.queue} yet: run the batch again"
            )
        parts = self._database.ask(self._split, first, last.position)
        # Only now, because tasks detect deletions from here on, but there may be no tasks.
        self._checked(first)
        return [Part(each) for each in parts]

    def _split(
        self, connection: Connection, first: StreamOffset, end: Position
    ) -> list[SegmentRange]:
        """Split a batch into parts, without messages that the stream skips at its start."""
        options, start = self._options, first.start
        queue = find_queue(connection, options.queue)
        whole = bounded_range(connection, options, queue)._replace(
            start=first.position,
            end=end,
            since_xid=first.since if options.fail_on_data_loss else 0,
            start_at=None,
            start_offsets=None,
        )
        if start is None or first.xid >= start.until:
            return split_batch(connection, whole, options.tasks)
        edge = max(first.position, min(Position(start.horizon), end))
        offsets = {int(id_): offset for id_, offset in start.offsets.items()}
        before = whole._replace(end=edge, start_at=start.at, start_offsets=start.offset_of_all)
        after = whole._replace(start=edge, start_at=start.at, start_offsets=offsets or None)
        ranges = (each for each in (before, after) if each.start < each.end)
        return [part for each in ranges for part in split_batch(connection, each, options.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(self._options, self._schema, partition)

    def stop(self) -> None:
        self._database.close()
        self._primary.close()

    def _checked(self, start: StreamOffset) -> StreamOffset | None:
        """
        Return the offset with the current server, or None if this replica is behind it.

        Raises DataLost if the stream would miss data.
        """
        options = self._options
        queue = self._database.ask(find_queue, options.queue)
        if queue["id"] != start.queue:
            raise errors.DataLost(
                f"queue {options.queue} was deleted and recreated since this stream began: give it"
                " another checkpoint"
            )
        if queue["numbering"] != start.numbering:
            raise errors.DataLost(
                "the database was restored into another server since this stream began, so its"
                " transaction numbers changed: give the stream another checkpoint"
            )
        if start.start is not None and options.partitions != start.partitions:
            raise errors.InvalidOption(
                f"partitions: this stream began with {_named(start.partitions)}, and would skip"
                " earlier messages of others: restore the option, or give the stream another"
                " checkpoint"
            )
        if not self._has(start.position):
            return None
        self._check_witness(start, queue["server"])
        if options.fail_on_data_loss:
            self._check_missed(start)
        return msgspec.structs.replace(start, server=queue["server"] or start.server)

    def _check_witness(self, start: StreamOffset, server: str | None) -> None:
        """Raise DataLost if the database lost what this stream has read."""
        if not start.stored_at:
            return
        at = (start.queue, *start.position, start.stored_at)
        (row,) = self._database.call("witness", *at)
        is_same = server is None or server == start.server
        if row["is_there"] or (is_same and row["is_removed"]):
            return
        moved = "" if is_same else f" (server {start.server}, now {server})"
        raise errors.DataLost(
            "PostgreSQL lost transactions that this stream has read, in a failover or a restore"
            f"{moved}, and reuses their numbers, so the stream would skip messages: run `queen"
            " stream rewind` on its checkpoint"
        )

    def _check_missed(self, start: StreamOffset) -> None:
        """Raise DataLost if messages were deleted that this stream has not read."""
        named = self._database.ask(_partition_ids, start.queue, self._options.partitions)
        at = (start.queue, *start.position, start.since, named)
        if self._database.call("missed", *at)[0]["is_missed"]:
            raise errors.DataLost(
                f"messages of queue {self._options.queue} were deleted before this stream read"
                " them: continue without them by option failOnDataLoss=false"
            )

    def _has(self, position: Position) -> bool:
        """Whether everything before a position is readable. False for a replica that is behind."""
        row = self._database.call("horizon")[0]
        if row["xid"] >= position.horizon:
            return True
        if row["is_replica"]:
            return False
        raise errors.DataLost(
            "the database is behind this stream, because it was restored from a backup, or failed"
            " over to a server without the last transactions: run `queen stream rewind` on the"
            " checkpoint of the stream"
        )


def _first_offset(
    connection: Connection, options: SourceOptions, queue: dict[str, Any]
) -> StreamOffset:
    """Return where a new stream starts, by its options."""
    range_ = bounded_range(connection, options, queue)
    check_offsets(connection, options, range_)
    starts = range_.start_offsets
    of_all, by_id = (starts, {}) if isinstance(starts, int) else (None, starts or {})
    arguments = (queue["id"], of_all, [*by_id], [*by_id.values()], _MOST_OFFSETS + 1)
    (row,) = call(connection, "stream_start", *arguments)
    offsets: dict[str, int] = row["offsets_beyond"] or row["offsets_named"] or {}
    if len(offsets) > _MOST_OFFSETS:
        raise errors.DatabaseUnavailable(
            f"startingOffset: a transaction that is still open began before {len(offsets) - 1} or"
            " more partitions were written: start the stream when it has ended, or at earliest"
        )
    check_past(options.starting_at, row["now"])
    last = None
    if options.starting_at is not None:
        xid = xid_at(connection, queue["id"], options.starting_at - MARGIN)
        last = last_before(connection, queue["id"], min(xid, row["horizon"]))
    elif options.is_from_latest:
        last = last_before(connection, queue["id"], row["horizon"])
        last = last if last is not None and last.position.xid else None
    # Recalled messages have the number 0. A stream from the end does not read them.
    first = 1 if options.is_from_latest else 0
    start = Start(
        until=row["until"],
        xid=first,
        offset_of_all=of_all,
        horizon=0 if of_all is None else row["horizon"],
        offsets=offsets,
        at=options.starting_at,
    )
    offset = StreamOffset(
        queue=queue["id"],
        xid=first,
        since=row["horizon"],
        numbering=queue["numbering"],
        server=queue["server"] or "",
        partitions=options.partitions,
        start=start,
    )
    if last is None:
        return offset
    offset = offset.moved(last)
    at = {"xid": offset.xid, "partition": offset.partition, "offset": offset.offset}
    start = msgspec.structs.replace(start, **at, stored_at=offset.stored_at)
    return msgspec.structs.replace(offset, start=start)


def check_past(at: datetime | None, now: datetime) -> None:
    """Raise InvalidOption for a time in the future."""
    if at is not None and at > now:
        raise errors.InvalidOption(
            f"startingTimestamp: {at.isoformat()} is in the future: use startingOffset=latest"
        )


def _planned(start: StreamOffset, row: dict[str, Any]) -> StreamOffset:
    """Return the end of a stored plan."""
    if row["end_offset"] is None:
        return _at_transaction(start, row["xid"])
    return msgspec.json.decode(row["end_offset"], type=StreamOffset)


def _at_transaction(offset: StreamOffset, xid: int, **others: int) -> StreamOffset:
    """Return an offset of an earlier version, which has only a transaction."""
    place = {"xid": xid, "partition": 0, "offset": 0, "stored_at": 0}
    return msgspec.structs.replace(offset, **place, **others, is_split=False, is_trailing=False)


def _has_read(offset: StreamOffset) -> bool:
    return offset.position != offset.restarted().position


def _is_same_start(one: StreamOffset, other: StreamOffset) -> bool:
    return one.start == other.start or one.start is None or other.start is None


def _partition_ids(
    connection: Connection, queue_id: int, names: tuple[str, ...] | None
) -> list[int] | None:
    if names is None:
        return None
    return [row["id"] for row in call(connection, "partitions_named", queue_id, sorted(names))]


def _named(partitions: tuple[str, ...] | None) -> str:
    return "all partitions" if partitions is None else ", ".join(partitions)
