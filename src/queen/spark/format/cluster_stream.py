"""Read a queue of several databases as a stream, also while its slots move between them."""

# pyright: basic
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

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
from queen.arrow.births import BornPart, End, Limits, Planner, split
from queen.arrow.databases import Databases, Member, QueueOfAll, Slots
from queen.spark.format.cluster_offset import ClusterOffset
from queen.spark.format.cluster_reader import ClusterPart, bounded, read_cluster_part
from queen.spark.format.options import SourceOptions
from queen.spark.format.reading import check_payload
from queen.spark.format.stream_offset import Start, StreamOffset
from queen.spark.format.stream_reader import check_past

_Empty = dict[str, tuple[int, int, int]]
"""By database: a session, a position, and the transaction up to which no message was born since."""


class ClusterStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream, in batches between two transactions of each database."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        for name, value in (
            ("endingOffset", options.ending_offset),
            ("endingTimestamp", options.ending_at),
        ):
            if value is not None:
                raise errors.InvalidOption(f"{name}: remove it, because a stream does not end")
        if options.starting_offset is not None:
            raise errors.InvalidOption(
                "startingOffset: with several databases, a stream starts at earliest, at latest, or"
                " at a startingTimestamp"
            )
        check_payload(options, schema)
        self._options = options
        self._schema = schema
        self._databases = Databases(options.databases)
        self._target: dict[str, int] | None = None
        """The end of the stream in each database for AvailableNow."""
        self._empty: _Empty = {}
        """Otherwise each plan scans the copies that a database has got since its last message."""

    def initialOffset(self) -> dict[str, Any]:
        queue = self._databases.find(self._options.queue)
        return self._databases.unmoved(queue.slot, partial(self._first, queue)).stored()

    def _first(self, queue: QueueOfAll, slots: Slots) -> ClusterOffset:
        starts = {
            name: self._first_in(each, queue, slots)
            for name, each in self._databases.state(queue.slot).members.items()
        }
        return ClusterOffset(queue=queue.id, databases=starts)

    def _first_in(self, member: Member, queue: QueueOfAll, slots: Slots) -> StreamOffset:
        """Return where a new stream starts among the messages that were born in a database."""
        options = self._options
        xid, at = member.horizon, options.starting_at
        if at is not None:
            check_past(at, member.now)
            rows = self._births("first_birth", member, queue.id, slots, xid, at)
            xid = min((row["xid"] for row in rows if row["xid"] is not None), default=xid)
        elif not options.is_from_latest:
            # Recalled messages have the number 0. Those that come later are not read again.
            xid = 0 if self._births("last_birth", member, queue.id, slots, 1) else 1
        rows = self._births("last_birth", member, queue.id, slots, xid)
        last = max((End(*row.values()) for row in rows), default=None)
        if last is None:
            # No transaction has a lower number than 3.
            place = Start(until=member.until, xid=min(xid, 1), at=at)
        else:
            place = Start(member.until, *last, at=at)
        return StreamOffset(
            queue=queue.id,
            xid=place.xid,
            partition=place.partition,
            offset=place.offset,
            stored_at=place.stored_at,
            since=member.horizon,
            numbering=member.numbering,
            server=member.server,
            partitions=options.partitions,
            start=place,
        )

    def _births(
        self, statement: str, member: Member, queue_id: int, slots: Slots, *arguments: object
    ) -> list[dict[str, Any]]:
        """Run a statement about the messages that were born in a database, wherever they are."""
        scope = (queue_id, member.birthplace, *arguments)
        return [
            row
            for place in sorted({place for place, _ in slots.values()})
            for row in self._databases.call(place, statement, *scope)
        ]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        offset = self._offset(start)
        is_bounded = not isinstance(limit, ReadAllAvailable)
        options = self._options
        limits = Limits(options.max_messages, options.max_bytes) if is_bounded else Limits()
        queue = self._databases.find(options.queue)
        plan = partial(self._moved, queue, offset, limits)
        # Only the result of a plan during which no slot has moved counts.
        moved, self._empty = self._databases.unmoved(queue.slot, plan)
        return start if moved is None else moved.stored()

    def _moved(
        self, queue: QueueOfAll, offset: ClusterOffset, limits: Limits, slots: Slots
    ) -> tuple[ClusterOffset | None, _Empty]:
        """Return the end of the next batch, if there is any, and where no message is."""
        sessions = self._databases.sessions()
        state = self._databases.state(queue.slot)
        members = state.members
        self._check(offset, queue, members, slots)
        if offset.is_of_one and any(each.target == self._former for each in state.moves):
            raise errors.InvalidOption(
                f"databases: this stream has read {self._former} with dsn, also messages that had"
                " moved there, and would read them again: give it another checkpoint"
            )
        horizons = {name: each.horizon for name, each in members.items()} | (self._target or {})
        starts = {
            name: self._start(name, offset.position(name), horizons[name]) for name in members
        }
        planner = Planner(self._databases, queue.id, slots, state)
        ends = planner.plan(starts, horizons, limits)
        empty = {
            name: (sessions.get(name, 0), offset.position(name), planner.covered[name])
            for name in members.keys() - ends.keys()
        }
        return (offset.moved(ends, members) if ends else None), empty

    def _start(self, name: str, position: int, horizon: int) -> int:
        """Return where to search for messages after a position."""
        session, known, empty = self._empty.get(name, (-1, 0, 0))
        # After a crash, PostgreSQL may reuse the numbers of transactions that left no trace.
        is_known = session == self._databases.sessions().get(name, 0) and known == position
        return max(position, min(empty, horizon)) if is_known else position

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        slot = self._databases.find(self._options.queue).slot
        members = self._databases.state(slot).members
        self._target = {name: each.horizon for name, each in members.items()}

    def reportLatestOffset(self) -> dict[str, Any]:
        queue = self._databases.find(self._options.queue)
        latest = {
            name: StreamOffset(queue=queue.id, xid=each.horizon, since=0)
            for name, each in self._databases.state(queue.slot).members.items()
        }
        return ClusterOffset(queue=queue.id, databases=latest).stored()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = self._offset(start), self._offset(end)
        if not first.is_of_one and any(
            first.starts.get(name) != each for name, each in last.starts.items()
        ):
            # Spark repeats the first batch with a new initial offset. The stored end has the old.
            first = last.restarted()
        queue = self._databases.find(self._options.queue)
        parts = self._databases.unmoved(queue.slot, partial(self._split, queue, first, last))
        return [ClusterPart(each) for each in parts]

    def _split(
        self, queue: QueueOfAll, first: ClusterOffset, last: ClusterOffset, slots: Slots
    ) -> list[BornPart]:
        options, databases = self._options, self._databases
        members = databases.state(queue.slot).members
        births = first.births(last, members)
        since: tuple[int, ...] = ()
        if options.fail_on_data_loss:
            since = tuple(
                0 if (each := first.databases.get(name)) is None else each.since for name in members
            )
        at = next((each.at for each in first.starts.values()), None)
        whole = bounded(databases, options, queue)._replace(start_at=at)
        parts = split(databases, slots, BornPart(whole, "", {}, births, since), options.tasks)
        # Only now, because tasks detect deletions from here on, but there may be no tasks.
        self._check(first, queue, members, slots)
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_cluster_part(self._options, self._schema, partition)

    def stop(self) -> None:
        self._databases.close()

    def _offset(self, stored: dict[str, Any]) -> ClusterOffset:
        return ClusterOffset.of(stored, self._former)

    @property
    def _former(self) -> str:
        """The only database that the stream has read, if it began with one: the first one."""
        numbers = self._databases.numbers
        return min(numbers, key=numbers.__getitem__)

    def _check(
        self,
        offset: ClusterOffset,
        queue: QueueOfAll,
        members: dict[str, Member],
        slots: Slots,
    ) -> None:
        """Raise DataLost if the stream would miss data."""
        if queue.id != offset.queue:
            raise errors.DataLost(
                f"queue {self._options.queue} was deleted and recreated since this stream began:"
                " give it another checkpoint"
            )
        for name, each in offset.databases.items():
            if each.start is not None and each.partitions != self._options.partitions:
                raise errors.InvalidOption(
                    "partitions: this stream began with others: restore the option, or give the"
                    " stream another checkpoint"
                )
            if name in self._databases.dsns:  # Others have no transactions to lose.
                self._check_database(name, each, members[name], slots)
        if self._options.fail_on_data_loss:
            self._check_missed(offset, members, slots)

    def _check_database(
        self, name: str, offset: StreamOffset, member: Member, slots: Slots
    ) -> None:
        """Raise DataLost if a database lost what this stream has read."""
        if member.numbering != offset.numbering:
            raise errors.DataLost(
                f"database {name} was restored into another server since this stream began, so its"
                " transaction numbers changed: give the stream another checkpoint"
            )
        if member.horizon < offset.position.horizon and offset.stored_at:
            raise errors.DataLost(
                f"database {name} is behind this stream, because it was restored from a backup, or"
                " failed over to a server without the last transactions: give the stream another"
                " checkpoint"
            )
        if not offset.stored_at:
            return
        at = (member.birthplace, *offset.position, offset.stored_at, offset.queue)
        rows = [
            row
            for place in {place for place, _ in slots.values()}
            for row in self._databases.call(place, "witness_birth", *at)
        ]
        is_same = member.server == offset.server
        if not any(row["is_there"] or (is_same and row["is_removed"]) for row in rows):
            raise errors.DataLost(
                f"database {name} lost transactions that this stream has read, in a failover or a"
                " restore, and reuses their numbers, so the stream would skip messages: give it"
                " another checkpoint"
            )

    def _check_missed(
        self, offset: ClusterOffset, members: dict[str, Member], slots: Slots
    ) -> None:
        """Raise DataLost if messages were deleted that this stream has not read."""
        names = self._options.partitions
        ids = None
        if names is not None:
            found = self._databases.partition_ids(offset.queue, names)
            ids = [each for listed in found.values() for each in listed]
        scope = (
            offset.queue,
            [each.birthplace for each in members.values()],
            [offset.position(name) for name in members],
            [offset.databases[name].since if name in offset.databases else 0 for name in members],
            ids,
        )
        for place in {place for place, _ in slots.values()}:
            if self._databases.call(place, "missed_births", *scope)[0]["is_missed"]:
                raise errors.DataLost(
                    f"messages of queue {self._options.queue} were deleted before this stream read"
                    " them: continue without them by option failOnDataLoss=false"
                )
