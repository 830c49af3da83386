"""
A source and sink that fail as a test tells them to, and say what they have seen.

The test and the processes of Spark share a folder. A file ``staged.1.hold`` there lets whoever
comes to the step ``staged`` of batch 1 wait until the file is gone; ``staged.1.raise`` lets it
fail; ``staged.1.0.hold`` is for task 0 alone. All are for first attempts. ``events`` has a line a
step.

Steps: ``planned`` (the end of a batch is chosen, and Spark has not written it down; counted from 1
in each driver), ``writing`` (a task begins), ``staged`` (it has put down its rows), ``publishing``
(all tasks are done), ``published`` (the driver has moved them to the log; Spark has not written it
down). Of an archive, whose batches are counted from 0 in each driver: ``writing`` and ``wrote``. Of
a rollup: the name of the statement that a task reads by (of batch 0), and with the seconds of the
grain as batch ``storing`` and ``stored``.
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

from queen.spark.lakes import DataFile
from queen.spark.options import SinkOptions, SourceOptions, sink_options as read_sink_options
from queen.spark.reader import Part, QueueStreamReader, split
from queen.spark.source import QueenDataSource
from queen.spark.writer import QueueStreamWriter, QueueWriter, Written

HOLD_SECONDS = 280

Write = Callable[[int], Sequence[DataFile]]
RunTasks = Callable[[SparkSession, int, Write], list[DataFile]]
Batches = Iterable[pa.RecordBatch]
Read = Callable[[str, str, Sequence[str], Sequence[tuple[object, ...]], Batches], Batches]
Store = Callable[[str, int, Batches], Batches]


class Injected(Exception):
    """What a test asked for."""


class Faults:
    """A folder of instructions; the test uses it as well."""

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
        """Whether somebody has come there and waits, or waited."""
        return (self.folder / f"{step}.here").exists()

    def events(self, step: str | None = None, batch: int | None = None) -> list[dict[str, Any]]:
        """What has happened, in order."""
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
        """Of the processes of Spark: say so, and do as told."""
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
    """Our source and sink with option ``faults``: the folder."""

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
    """The same in place of ours, for pipelines, which name their format themselves."""

    class Source(FaultySource):
        def __init__(self, options: dict[str, str]) -> None:
            super().__init__({**options, "faults": str(folder)})

        @classmethod
        def name(cls) -> str:
            return "queen"

    return Source


class FaultyStreamReader(QueueStreamReader):
    """Has a step, and as many tasks for few messages as are allowed."""

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
            for part in split(self._connected(), each.range, self._options.tasks or 16)
        ]


class FaultyStreamWriter(QueueStreamWriter):
    """Has steps around what it does."""

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
    """The same of single writes, whose number is their version."""

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
    """The tasks of an archive with steps around what each writes."""
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
    """What a task of a rollup reads, with a step before."""

    def reached(
        dsn: str,
        name: str,
        columns: Sequence[str],
        arguments: Sequence[tuple[object, ...]],
        batches: Batches,
    ) -> Batches:
        faults.reach(name, 0)
        yield from read(dsn, name, columns, arguments, batches)

    return reached


def faulty_store(store: Store, faults: Faults) -> Store:
    """What a task of a rollup writes, with steps around."""

    def reached(dsn: str, grain: int, batches: Batches) -> Batches:
        faults.reach("storing", grain)
        answers = list(store(dsn, grain, batches))
        faults.reach("stored", grain, answers=len(answers))
        yield from answers

    return reached
