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

FEW = ReadMaxRows(100)


def stream(dsn: str, app_id: str = "copy", queue: str = "a", **options: str) -> QueueStreamReader:
    """A reader as a new checkpoint has it."""
    given = {"dsn": dsn, "queue": queue, "txnAppId": app_id, "maxMessagesPerTrigger": "100"}
    return QueueStreamReader(source_options({**given, **options}, {}), StructType())


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

    with pytest.raises(errors.DataLost, match="were removed"):
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
    with pytest.raises(errors.InvalidOption, match="made anew"):
        beginning(stream(dsn))
    beginning(stream(dsn, app_id="another"))
