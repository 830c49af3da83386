"""Run a function as Spark tasks that write files."""

# pyright: basic
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from queen import errors
from queen.lake import DataFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK: Final = "task long, path string, day date, messages long, bytes long"
"""The columns in which a task reports its files."""
_ARROW: Final = pa.schema(
    {
        "task": pa.int64(),
        "path": pa.string(),
        "day": pa.date32(),
        "messages": pa.int64(),
        "bytes": pa.int64(),
    }
)


def run_tasks(
    spark: "SparkSession", count: int, write: Callable[[int], Sequence[DataFile]]
) -> list[DataFile]:
    """Run ``write(0)`` to ``write(count - 1)`` as tasks. Returns files of successful attempts."""

    def described(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                # The row without a file proves that the task has run.
                files = [{}, *map(msgspec.structs.asdict, write(number))]
                rows = [{"task": number, **file} for file in files]
                yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)

    if not count:
        return []
    # One number per partition: messages don't pass the JVM, and Spark Connect supports it too.
    rows: list[Any] = spark.range(0, count, 1, count).mapInArrow(described, _SPARK).collect()
    if sorted(row.task for row in rows if row.path is None) != list(range(count)):
        raise errors.QueenError("Spark lost or repeated the result of a task: run it again")
    written = [row for row in rows if row.path is not None]
    return [DataFile(row.path, row.day, row.messages, row.bytes) for row in written]
