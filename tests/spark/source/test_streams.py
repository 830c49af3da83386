"""Streams of one application begin at one position and plan the same batches, without a session."""

# pyright: basic

from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from queen import errors
from queen.arrow.ranges import Position, SegmentRange
from queen.spark.format import stream_reader
from queen.spark.format.options import source_options
from queen.spark.format.stream_offset import StreamOffset
from queen.spark.format.stream_reader import QueueStreamReader
from tests.spark import filling
from tests.spark.databases import migrated
from tests.support.postgres import Postgres

FEW = ReadMaxRows(100)


def stream(dsn: str, app_id: str = "copy", queue: str = "a", **options: str) -> QueueStreamReader:
    """A reader with a new checkpoint."""
    given = {"dsn": dsn, "queue": queue, "txnAppId": app_id, "maxMessagesPerTrigger": "100"}
    return QueueStreamReader(source_options({**given, **options}, {}), StructType())


def unnamed(dsn: str, **options: str) -> QueueStreamReader:
    """A reader without a name, whose state is only in its checkpoint."""
    given = {"dsn": dsn, "queue": "a", "maxMessagesPerTrigger": "1000", **options}
    return QueueStreamReader(source_options(given, {}), StructType())


def beginning(reader: QueueStreamReader) -> Position:
    """Its first position."""
    try:
        return StreamOffset.of(reader.initialOffset()).position
    finally:
        reader.stop()


def batches(reader: QueueStreamReader) -> list[Position]:
    """The ends of its batches, after its first position."""
    offset = reader.initialOffset()
    found = [StreamOffset.of(offset).position]
    while (end := reader.latestOffset(offset, FEW)) != offset:
        offset = end
        found.append(StreamOffset.of(offset).position)
    reader.stop()
    return found


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_two_streams_that_begin_together_plan_the_same_batches(dsn: str, start: str) -> None:
    filling.make(dsn, "a")
    first, second = stream(dsn, startingOffset=start), stream(dsn, startingOffset=start)
    began = beginning(first)
    # Pushed between the two, before the first has planned a batch.
    filling.fill(dsn, "a", 480)

    assert beginning(second) == began
    planned = batches(first)
    assert len(planned) > 3
    assert batches(second) == planned


def test_a_stream_without_its_checkpoint_plans_the_same_batches_and_continues(dsn: str) -> None:
    filling.make(dsn, "a")
    filling.fill(dsn, "a", 480)
    planned = batches(stream(dsn))
    filling.fill(dsn, "a", 480, start=480)

    again = batches(stream(dsn, maxMessagesPerTrigger="1000"))

    assert again[: len(planned)] == planned
    assert len(again) == len(planned) + 1


@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("is_empty", [True, False], ids=["empty", "filled"])
def test_transaction_ids_that_are_reused_after_a_crash_are_read(start: str, is_empty: bool) -> None:
    """
    Transactions without a trace on disk, such as pops, had used these IDs, and the horizon covers
    them.
    """
    with Postgres({"wal_writer_delay": "10s"}) as server:
        dsn = migrated(server)
        filling.make(dsn, "a")
        if not is_empty:
            filling.fill(dsn, "a", 160)
        with psycopg.connect(dsn) as connection:
            for _ in range(200):
                connection.execute("select pg_current_xact_id()")
                connection.rollback()
        ours = unnamed(dsn, startingOffset=start)
        offset = ours.initialOffset()
        while (end := ours.latestOffset(offset, FEW)) != offset:
            offset = end
        ours.stop()
        server.kill()
        server.start()

        filling.fill(dsn, "a", 160, start=160)

        again = unnamed(dsn)
        end = again.latestOffset(offset, ReadMaxRows(1_000))
        parts = again.partitions(offset, end)
        again.stop()
        assert sum(each.num_rows for part in parts for each in again.read(part)) == 160


def test_a_stream_does_not_wait_for_a_plan_beyond_the_current_transaction_id(dsn: str) -> None:
    """The database was restored or renumbered, so it would wait forever."""
    filling.make(dsn, "a")
    filling.fill(dsn, "a", 480)
    ours = stream(dsn)
    start = ours.initialOffset()
    ours.latestOffset(start, FEW)
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "update queen.plans set end_offset = end_offset || '{\"xid\": 1000000000}'"
        )

    with pytest.raises(errors.DataLost, match="restored"):
        ours.latestOffset(start, FEW)
    ours.stop()


def test_a_stream_does_not_continue_with_other_transaction_ids(dsn: str) -> None:
    """After a restore into another server, its position would silently be another one."""
    filling.make(dsn, "a")
    filling.fill(dsn, "a", 480)
    both = unnamed(dsn), stream(dsn)
    offsets = [each.initialOffset() for each in both]
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "select queen.cut(p.id, p.queue_id, 30, 1000, 'age') from queen.partitions p"
        )
        for table in ("segments set xid", "removals set by_xid"):
            connection.execute(f"update queen.{table} = '1000000000'".encode())
        (is_renumbered,) = connection.execute("select queen.renumber()").fetchone() or (False,)
    assert is_renumbered

    for ours, offset in zip(both, offsets, strict=True):
        with pytest.raises(errors.DataLost, match="transaction numbers changed"):
            ours.latestOffset(offset, FEW)
        ours.stop()
    with pytest.raises(errors.InvalidOption, match="restored"):
        beginning(stream(dsn))
    # A new stream misses no message, and continues.
    assert len(batches(unnamed(dsn))) == 2
    assert batches(stream(dsn, app_id="another"))[-1] == batches(unnamed(dsn))[-1]


def test_messages_removed_while_a_batch_is_split_are_missed(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without tasks, no other check would notice."""
    filling.make(dsn, "a")
    filling.fill(dsn, "a", 480)
    whole = stream_reader.split_batch

    def late(*arguments: Any, **options: Any) -> list[SegmentRange]:  # noqa: ANN401
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "select queen.cut(p.id, p.queue_id, 1000, 1000, 'age') from queen.partitions p"
            )
        return whole(*arguments, **options)

    monkeypatch.setattr(stream_reader, "split_batch", late)
    ours = stream(dsn)
    start = ours.initialOffset()
    end = ours.latestOffset(start, FEW)

    with pytest.raises(errors.DataLost, match="were deleted"):
        ours.partitions(start, end)
    ours.stop()


def test_an_application_reads_one_queue(dsn: str) -> None:
    """Batches of another queue would have the numbers of published ones, and be skipped."""
    filling.make(dsn, "a")
    filling.make(dsn, "b")
    beginning(stream(dsn))

    with pytest.raises(errors.InvalidOption, match="txnAppId"):
        beginning(stream(dsn, queue="b"))
    with psycopg.connect(dsn) as connection:
        connection.execute("select queen.delete_queue('a')")
    filling.make(dsn, "a")
    with pytest.raises(errors.InvalidOption, match="recreated"):
        beginning(stream(dsn))
    beginning(stream(dsn, app_id="another"))
