"""Files are chosen by the time range of a reader."""

# pyright: basic
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from queen.lake import Batch
from queen.lake.reading import ALWAYS, Reader, TimeRange
from queen.lake.records import DataFile
from queen.spark.format.lake_files import frame
from tests.spark.lakes.test_lakes import make_lake, write

NOON = datetime(2026, 11, 14, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        ("2026-11-18T00:30:00+02:00", None, [17, 18, 19]),
        ("2026-11-17T23:30:00-05:00", None, [18, 19]),
        (None, "2026-11-17T20:00:00-05:00", [17, 18]),
        (None, "2026-11-18T00:30:00+02:00", [17]),
        ("2026-11-18T00:00:00+00:00", "2026-11-18T12:00:00+00:00", [18]),
    ],
)
def test_days_are_those_of_utc(start: str | None, end: str | None, days: list[int]) -> None:
    bounds = [None if each is None else datetime.fromisoformat(each) for each in (start, end)]
    during = TimeRange(*bounds)

    assert [day for day in (17, 18, 19) if during.has_day(date(2026, 11, day))] == days
    assert during.has_day(None)


class CountingReader(Reader):
    """Leaves a file in a directory for each file that it opens."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        super().__init__()
        self._reader = reader
        self._folder = folder

    def read(
        self, file: DataFile, columns: Sequence[str], rows: int, during: TimeRange = ALWAYS
    ) -> Iterator[pa.RecordBatch]:
        (self._folder / uuid4().hex).touch()
        return self._reader.read(file, columns, rows, during)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "format",
    ["delta", "iceberg", "parquet"],
)
def test_pieces_of_a_day_open_only_files_that_overlap(
    spark: SparkSession, dsn: str, tmp_path: Path, format: str
) -> None:
    files, pieces, messages = 12, 6, 100
    opened = tmp_path / "opened"
    opened.mkdir()
    with make_lake(dsn, tmp_path / "lake", format) as lake:
        for number in range(files):
            begin = NOON + timedelta(seconds=number * messages, microseconds=1)
            new = write(lake, f"{number}", number * messages, messages, begin=begin)
            lake.commit(Batch.of(number + 1, 7, new), new)
        table = lake.snapshot()
    reader = CountingReader(table.reader, opened)
    table = msgspec.structs.replace(table, reader=reader)
    seconds = files * messages // pieces
    bounds = [NOON + timedelta(seconds=number * seconds + 50) for number in range(-1, pieces + 1)]

    found: list[int] = []
    for start, end in pairwise(bounds):
        rows = frame(spark, table, TimeRange(start, end), ["offset"]).collect()
        found += sorted(row.offset for row in rows)

    assert found == list(range(files * messages))
    assert len(list(opened.iterdir())) <= files + pieces
