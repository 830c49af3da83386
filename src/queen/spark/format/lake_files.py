"""Read the messages of a lake as a DataFrame. Tasks read its files."""

# pyright: basic, reportAttributeAccessIssue=false
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from queen.arrow.columns import COLUMNS, spark_schema
from queen.lake.lake import DataFile

_ROWS: Final = 20_000
_MOST_TASKS: Final = 1_000


def frame(
    spark: SparkSession,
    files: Sequence[DataFile],
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    columns: Sequence[str] = COLUMNS,
) -> DataFrame:
    """
    Return the messages of these files in a time range.

    Spark's own Parquet reader would need a jar for each object store. Arrow includes them.
    """
    schema = spark_schema(columns)
    paths = [file.path for file in files if _has(file, start, end)]
    if not paths:
        return spark.createDataFrame([], schema)
    wanted = _filter(start, end)

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (each for batch in numbers for each in batch.column(0).to_pylist()):
            system, path = fs.FileSystem.from_uri(paths[number])
            yield from ds.dataset(path, filesystem=system, format="parquet").to_batches(
                columns=list(columns), filter=wanted, batch_size=_ROWS, batch_readahead=2
            )

    tasks = min(len(paths), _MOST_TASKS)
    return spark.range(0, len(paths), 1, tasks).mapInArrow(read, schema)


def _has(file: DataFile, start: datetime | None, end: datetime | None) -> bool:
    """Whether the file's day is in the time range."""
    return (start is None or file.day >= start.astimezone(UTC).date()) and (
        end is None or file.day <= end.astimezone(UTC).date()
    )


def _filter(start: datetime | None, end: datetime | None) -> ds.Expression | None:
    instant = pa.timestamp("us", "UTC")
    bounds = [
        *([] if start is None else [ds.field("createdAt") >= pa.scalar(start, instant)]),
        *([] if end is None else [ds.field("createdAt") < pa.scalar(end, instant)]),
    ]
    return None if not bounds else bounds[0] if len(bounds) == 1 else bounds[0] & bounds[1]
