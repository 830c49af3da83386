"""
A source and sink with injected faults, which log their steps.

The test and the processes of Spark share a directory. The file ``staged.1.hold`` there makes a
process wait in the step ``staged`` of batch 1 until the file is removed. ``staged.1.raise`` makes
it fail. ``staged.1.0.hold`` applies only to task 0. All apply only to first attempts. ``events``
has one line per step.

Steps of streams:

- ``planned``: the end of a batch is chosen, before Spark records it. Counted from 1 in each driver.
- ``writing``: a task begins.
- ``staged``: a task has staged its rows.
- ``publishing``: all tasks are done.
- ``published``: the driver has moved the rows to the log, before Spark records it.

Steps of an archive: ``writing`` and ``wrote``, with batches counted from 0 in each driver.

Steps of a rollup: the name of the statement with which a task reads (batch 0), and ``storing`` and
``stored`` (the seconds of the grain as the batch).
"""

# pyright: basic
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from queen.arrow.planning import split_batch
from queen.lake import DataFile
from queen.spark.format.options import SinkOptions, SourceOptions, sink_options as read_sink_options
from queen.spark.format.reading import Part
from queen.spark.format.sink import QueueStreamWriter, QueueWriter, Written
from queen.spark.format.source import QueenDataSource
from queen.spark.format.stream_reader import QueueStreamReader

HOLD_SECONDS = 280

Write = Callable[[int], Sequence[DataFile]]
RunTasks = Callable[[SparkSession, int, Write], list[DataFile]]
Batches = Iterable[pa.RecordBatch]
Read = Callable[[Any, str, Sequence[str], Sequence[tuple[object, ...]], Batches], Batches]
Store = Callable[[str, int, Batches], Batches]


class Injected(Exception):
    """An injected failure."""


class Faults:
    """A directory of instructions, which tests and Spark processes share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def hold(self, step: str) -> None:
        (self.folder / f"{step}.hold").touch()

    def fail(self, step: str) -> None:
        (self.folder / f"{step}.raise").touch()

    def release(self, step: str) -> None:
        (self.folder / f"{step}.hold").unlink()

    def heal(self, step: str) -> None:
        (self.folder / f"{step}.raise").unlink()

    def is_held(self, step: str) -> bool:
        """True if a process has reached the step and waits there, or waited."""
        return (self.folder / f"{step}.here").exists()

    def events(self, step: str | None = None, batch: int | None = None) -> list[dict[str, Any]]:
        """The logged steps, in order."""
        if not (self.folder / "events").exists():
            return []
        lines = (self.folder / "events").read_text().splitlines()
        return [
            event
            for event in map(json.loads, lines)
            if (step is None or event["step"] == step)
            and (batch is None or event["batch"] == batch)
        ]

    def reach(self, step: str, batch: int, **facts: int) -> None:
        """In Spark's processes: log the step, and follow its instructions."""
        task = TaskContext.get()
        attempt = task.attemptNumber() if task else 0
        keys = [f"{step}.{batch}"]
        if task:
            facts |= {"task": task.partitionId()}
            keys.append(f"{step}.{batch}.{task.partitionId()}")
        event = {"step": step, "batch": batch, "attempt": attempt, "pid": os.getpid(), **facts}
        with (self.folder / "events").open("a") as file:
            file.write(json.dumps(event) + "\n")
        for key in keys if attempt == 0 else []:
            if (self.folder / f"{key}.raise").exists():
                raise Injected(f"{key} was to fail")
            self._wait(key)

    def _wait(self, key: str) -> None:
        hold = self.folder / f"{key}.hold"
        if not hold.exists():
            return
        (self.folder / f"{key}.here").touch()
        deadline = time.monotonic() + HOLD_SECONDS
        while hold.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody has released {key}")
            time.sleep(0.02)


class FaultySource(QueenDataSource):
    """Queen's source and sink with the option ``faults``, which is the directory."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._faults = Faults(Path(self.options.pop("faults")))

    @classmethod
    def name(cls) -> str:
        return "queen_faulty"

    def streamReader(self, schema: StructType) -> "FaultyStreamReader":
        return FaultyStreamReader(self._source_options(), schema, self._faults)

    def writer(self, schema: StructType, overwrite: bool) -> "FaultyWriter":
        options = read_sink_options(self.options, os.environ, is_stream=False)
        return FaultyWriter(options, schema, overwrite=overwrite, faults=self._faults)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "FaultyStreamWriter":
        del overwrite
        options = read_sink_options(self.options, os.environ, is_stream=True)
        return FaultyStreamWriter(options, schema, self._faults)


def faulty_queen(folder: Path) -> type[QueenDataSource]:
    """The same under Queen's format name, for pipelines, which set the format themselves."""

    class Source(FaultySource):
        def __init__(self, options: dict[str, str]) -> None:
            super().__init__({**options, "faults": str(folder)})

        @classmethod
        def name(cls) -> str:
            return "queen"

    return Source


class FaultyStreamReader(QueueStreamReader):
    """Adds a step, and uses as many tasks as possible for few messages."""

    def __init__(self, options: SourceOptions, schema: StructType, faults: Faults) -> None:
        super().__init__(options, schema)
        self._faults = faults
        self._plans = 0

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        end = super().latestOffset(start, limit)
        if end != start:
            self._plans += 1
            self._faults.reach("planned", self._plans, start=start["xid"], end=end["xid"])
        return end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        whole = super().partitions(start, end)
        return [
            Part(part)
            for each in whole
            if isinstance(each, Part)
            for part in self._database.ask(split_batch, each.range, self._options.tasks or 16)
        ]


class FaultyStreamWriter(QueueStreamWriter):
    """Adds steps around each operation."""

    def __init__(self, options: SinkOptions, schema: StructType, faults: Faults) -> None:
        super().__init__(options, schema)
        self._faults = faults

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = TaskContext.get()
        assert task is not None
        batch = int(task.getLocalProperty("streaming.sql.batchId") or -1)
        self._faults.reach("writing", batch)
        written = super().write(iterator)
        self._faults.reach("staged", batch, entries=written.entries, messages=written.messages)
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        entries = sum(each.entries for each in messages if isinstance(each, Written))
        self._faults.reach("publishing", batchId, entries=entries)
        super().commit(messages, batchId)
        self._faults.reach("published", batchId, entries=entries)


class FaultyWriter(QueueWriter):
    """The same for batch writes, whose number is their version."""

    def __init__(
        self, options: SinkOptions, schema: StructType, *, overwrite: bool, faults: Faults
    ) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._faults = faults

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        version = self._options.txn_version or 0
        self._faults.reach("writing", version)
        written = super().write(iterator)
        self._faults.reach("staged", version, entries=written.entries, messages=written.messages)
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        version = self._options.txn_version or 0
        entries = sum(each.entries for each in messages if isinstance(each, Written))
        self._faults.reach("publishing", version, entries=entries)
        super().commit(messages)
        self._faults.reach("published", version, entries=entries)


def faulty_run_tasks(run_tasks: RunTasks, faults: Faults) -> RunTasks:
    """The tasks of an archive with steps around each write."""
    batches = count()

    def run(spark: SparkSession, tasks: int, write: Write) -> list[DataFile]:
        batch = next(batches)

        def written(number: int) -> Sequence[DataFile]:
            faults.reach("writing", batch)
            files = write(number)
            faults.reach("wrote", batch, files=len(files))
            return files

        return run_tasks(spark, tasks, written)

    return run


def faulty_read(read: Read, faults: Faults) -> Read:
    """The reads of a rollup's task, with a step before each."""

    def reached(
        source: Any,  # noqa: ANN401 - of the rollup
        name: str,
        columns: Sequence[str],
        arguments: Sequence[tuple[object, ...]],
        batches: Batches,
    ) -> Batches:
        faults.reach(name, 0)
        yield from read(source, name, columns, arguments, batches)

    return reached


def faulty_store(store: Store, faults: Faults) -> Store:
    """The writes of a rollup's task, with steps around each."""

    def reached(dsn: str, grain: int, batches: Batches) -> Batches:
        faults.reach("storing", grain)
        answers = list(store(dsn, grain, batches))
        faults.reach("stored", grain, answers=len(answers))
        yield from answers

    return reached
