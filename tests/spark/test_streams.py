"""Streams of one application begin at one place and make the same batches: no session is needed."""

# pyright: basic

from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from queen import errors
from queen.spark import reader
from queen.spark.options import source_options
from queen.spark.reader import QueueStreamReader
from queen.spark.segments import SegmentRange
from tests.spark import filling
from tests.spark.databases import migrated
from tests.support.postgres import Postgres

FEW = ReadMaxRows(100)


def stream(dsn: str, app_id: str = "copy", queue: str = "a", **options: str) -> QueueStreamReader:
    """A reader as a new checkpoint has it."""
    given = {"dsn": dsn, "queue": queue, "txnAppId": app_id, "maxMessagesPerTrigger": "100"}
    return QueueStreamReader(source_options({**given, **options}, {}), StructType())


def unnamed(dsn: str, **options: str) -> QueueStreamReader:
    """One that nothing but its checkpoint remembers."""
    given = {"dsn": dsn, "queue": "a", "maxMessagesPerTrigger": "1000", **options}
    return QueueStreamReader(source_options(given, {}), StructType())


def beginning(reader: QueueStreamReader) -> int:
    """Where it begins."""
    try:
        return reader.initialOffset()["xid"]
    finally:
        reader.stop()


def batches(reader: QueueStreamReader) -> list[int]:
    """Where its batches begin and end."""
    offset = reader.initialOffset()
    found = [offset["xid"]]
    while (end := reader.latestOffset(offset, FEW)) != offset:
        offset = end
        found.append(offset["xid"])
    reader.stop()
    return found


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_two_that_begin_at_once_make_the_same_batches(dsn: str, start: str) -> None:
    filling.make(dsn, "a")
    first, second = stream(dsn, startingOffset=start), stream(dsn, startingOffset=start)
    began = beginning(first)
    # It came between the two, and before the first has planned anything.
    filling.fill(dsn, "a", 480)

    assert beginning(second) == began
    planned = batches(first)
    assert len(planned) > 3
    assert batches(second) == planned


def test_one_that_lost_its_checkpoint_makes_the_same_batches_and_goes_on(dsn: str) -> None:
    filling.make(dsn, "a")
    filling.fill(dsn, "a", 480)
    planned = batches(stream(dsn))
    filling.fill(dsn, "a", 480, start=480)

    again = batches(stream(dsn, maxMessagesPerTrigger="1000"))

    assert again[: len(planned)] == planned
    assert len(again) == len(planned) + 1


@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("is_empty", [True, False], ids=["empty", "filled"])
def test_numbers_that_a_crash_gives_out_again_are_read(start: str, is_empty: bool) -> None:
    """Of transactions that left no trace on disk, as pops do: their numbers are in the horizon."""
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


def test_a_plan_that_the_database_has_not_reached_is_no_reason_to_wait(dsn: str) -> None:
    """It was restored, or renumbered: the batch would never come."""
    filling.make(dsn, "a")
    filling.fill(dsn, "a", 480)
    ours = stream(dsn)
    start = ours.initialOffset()
    ours.latestOffset(start, FEW)
    with psycopg.connect(dsn) as connection:
        connection.execute("update queen.plans set end_xid = '1000000000'")

    with pytest.raises(errors.DataLost, match="restored"):
        ours.latestOffset(start, FEW)
    ours.stop()


def test_a_stream_does_not_go_on_among_other_numbers(dsn: str) -> None:
    """After a restore into another server: its place would be another one, and nobody knew."""
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
    # Who begins now misses nothing, and goes on.
    assert len(batches(unnamed(dsn))) == 2
    assert len(batches(stream(dsn, app_id="another"))) == 2


def test_what_is_removed_while_a_batch_is_split_is_missed(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without tasks, nobody else would notice."""
    filling.make(dsn, "a")
    filling.fill(dsn, "a", 480)
    whole = reader.split

    def late(*arguments: Any, **options: Any) -> list[SegmentRange]:  # noqa: ANN401
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "select queen.cut(p.id, p.queue_id, 1000, 1000, 'age') from queen.partitions p"
            )
        return whole(*arguments, **options)

    monkeypatch.setattr(reader, "split", late)
    ours = stream(dsn)
    start = ours.initialOffset()
    end = ours.latestOffset(start, FEW)

    with pytest.raises(errors.DataLost, match="were deleted"):
        ours.partitions(start, end)
    ours.stop()


def test_an_application_reads_one_queue(dsn: str) -> None:
    """Batches of another would have the numbers of those that are published, and be passed over."""
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
