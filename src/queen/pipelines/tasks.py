"""Run a function as tasks that write files, on Spark or in this process."""

# pyright: basic
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from queen import errors
from queen.lake import DataFile

_SPARK: Final = "task long, path string, day date, messages long, bytes long, misfits long"
"""The columns in which a task reports its files."""
_ARROW: Final = pa.schema(
    {
        "task": pa.int64(),
        "path": pa.string(),
        "day": pa.date32(),
        "messages": pa.int64(),
        "bytes": pa.int64(),
        "misfits": pa.int64(),
    }
)

Write = Callable[[int], Sequence[DataFile]]
"""Writes the files of one task."""


class LocalEngine:
    """Runs tasks in threads of this process, without Spark and Java."""

    def run_tasks(self, count: int, write: Write) -> list[DataFile]:
        """Run all tasks. Arrow releases the interpreter while it reads and compresses."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            # After a failure, tasks that have not started are cancelled.
            return [file for files in pool.map(write, range(count)) for file in files]


LOCAL: Final = LocalEngine()


class Spark(Protocol):
    """A Spark session, as far as tasks need it."""

    def range(self, start: int, end: int, step: int, numPartitions: int, /) -> Any: ...  # noqa: ANN401 - a DataFrame


Engine: TypeAlias = Spark | LocalEngine
"""What runs the tasks of a pipeline."""


def run_tasks(engine: Engine, count: int, write: Write) -> list[DataFile]:
    """Run ``write(0)`` to ``write(count - 1)`` as tasks. Returns files of successful attempts."""
    if isinstance(engine, LocalEngine):
        return engine.run_tasks(count, write)
    return _run_on_spark(engine, count, write)


def _run_on_spark(spark: Spark, count: int, write: Write) -> list[DataFile]:
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
    return [
        DataFile(row.path, row.day, row.messages, row.bytes, misfits=row.misfits) for row in written
    ]
