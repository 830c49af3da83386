"""
Copy the log of a queue to a lake, exactly once.

A batch is first planned in the ledger. Tasks read its segments and write files that are not
referenced yet. One commit adds them to the lake, together with the batch number. Then the ledger
marks the batch as archived, and retention may delete its messages. After a crash, or if two
pipelines run concurrently, the next one repeats the planned batch unless the lake contains it.
"""

# pyright: basic
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from queen import errors
from queen.arrow.planning import horizon, plan_batch, split_batch
from queen.arrow.ranges import Position, SegmentRange
from queen.arrow.reading import read_range
from queen.lake import Batch, DataFile, Lake, open_lake
from queen.lake.day_files import DayFiles
from queen.lake.ledger import Ledger, Plan
from queen.lake.storage import normal
from queen.redacted import redacted
from queen.spark.runner.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JOBS: Final = 3
"""Attempts per Spark job, because local mode does not retry tasks."""

Step = Literal["planned", "written", "committed", "archived", "idle"]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The queue to archive, and the lake."""

    dsn: str
    """URL of the database. Default: DATABASE_URL."""
    queue: str
    """Queue to archive."""
    location: str
    """A directory, or a URI such as s3://bucket/orders. It becomes the table's location."""
    format: Literal["iceberg", "delta", "parquet"] = "iceberg"
    """Format of the lake."""
    name: str = ""
    """Name of the archive. Default: the name of the queue."""
    tasks: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    """Number of tasks per batch. Default: by its size."""
    max_messages: Annotated[int, msgspec.Meta(ge=1)] = 5_000_000
    """Messages per batch, approximately."""
    max_bytes: Annotated[int, msgspec.Meta(ge=1)] = 4 * 2**30
    """Payload bytes per batch, approximately."""
    interval_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0
    """Seconds between polls for new messages. 0 ends after the messages that exist at the start."""

    def __repr__(self) -> str:
        return redacted(self)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an archive after each step."""

    step: Step
    state: Literal["running", "idle"] = "running"
    queue_ids: tuple[int, ...]
    position: int
    batch_id: int
    batch_millis: int = 0
    rows_per_second: float = 0
    rows: int = 0
    """In this run."""
    files: int = 0
    bytes: int = 0


Report = Callable[[Progress], object]


def run(spark: "SparkSession", config: Config, *, report: Report | None = None) -> Progress:
    """Archive existing messages, or poll for new ones forever. Returns the progress."""
    location = normal(config.location)
    name = config.name or config.queue
    with Ledger(config.dsn) as ledger:
        # The hold must exist before a batch is planned and before the lake is created.
        queue_id = ledger.open(name, config.queue, config.format, location)
        with open_lake(
            config.dsn, name=name, format=config.format, location=location, make=True
        ) as lake:
            archive = _Archive(spark, config, queue_id, ledger, lake, report or (lambda _: None))
            end_xid = None if config.interval_seconds else ledger.ask(horizon)
            while True:
                if archive.advance(end_xid):
                    continue
                progress = archive.say("idle")
                if not config.interval_seconds:
                    return progress
                time.sleep(config.interval_seconds)


class _Archive:
    """One run of an archive."""

    def __init__(
        self,
        spark: "SparkSession",
        config: Config,
        queue_id: int,
        ledger: Ledger,
        lake: Lake,
        report: Report,
    ) -> None:
        self._spark = spark
        self._config = config
        self._queue_id = queue_id
        self._ledger = ledger
        self._lake = lake
        self._report = report
        self._position = self._batch = self._rows = self._files = self._bytes = 0
        self._began_at = time.monotonic()

    def advance(self, end_xid: int | None) -> bool:
        """Archive the next batch. Returns False if there is none before ``end_xid``."""
        self._began_at = time.monotonic()
        plan = self._plan(end_xid)
        if plan is None:
            return False
        self.say("planned")
        try:
            batch = self._carry(plan)
        except errors.LakeDiverged:
            if self._ledger.find(self._lake.name)["batch"] < plan.batch:
                raise
            return True  # Another driver has committed this batch and the next one.
        self._ledger.archive(self._lake.name, batch)
        self._position, self._batch = plan.end_xid, plan.batch
        self._rows += batch.messages
        self._files += batch.files
        self._bytes += batch.bytes
        self.say("archived", rows=batch.messages)
        return True

    def say(self, step: Step, *, rows: int = 0) -> Progress:
        seconds = time.monotonic() - self._began_at
        progress = Progress(
            step=step,
            state="idle" if step == "idle" else "running",
            queue_ids=(self._queue_id,),
            position=self._position,
            batch_id=self._batch,
            batch_millis=int(seconds * 1000),
            rows_per_second=rows / seconds,
            rows=self._rows,
            files=self._files,
            bytes=self._bytes,
        )
        self._report(progress)
        return progress

    def _plan(self, end_xid: int | None) -> Plan | None:
        """Return the batch that is already planned, or plan the next one."""
        archive = self._ledger.find(self._lake.name)
        if archive["queue_id"] != self._queue_id:
            raise errors.QueueNotFound(f"queue {self._config.queue} was deleted")
        self._position, self._batch = archive["xid"], archive["batch"]
        if archive["planned_batch"] is not None:
            return Plan(*(archive[name] for name in ("planned_batch", *Plan._fields[1:])))
        config = self._config
        until = self._ledger.ask(horizon)
        if end_xid is not None:
            until = min(until, end_xid)
        scope = (self._queue_id, Position(archive["xid"]), until)
        limits = (config.max_messages, config.max_bytes)
        end = self._ledger.ask(
            lambda connection: plan_batch(connection, *scope, *limits, is_whole=True)
        )
        if end is None:
            return None
        plan = self._ledger.plan(self._lake.name, end.position.horizon)
        if plan is None:
            raise errors.QueueNotFound(f"queue {config.queue} was deleted")
        return plan

    def _carry(self, plan: Plan) -> Batch:
        """Write a batch to the lake, unless it is there."""
        if there := self._lake.find(plan.batch, plan.token):
            return there
        files = self._write(plan)
        self.say("written")
        batch = self._lake.commit(Batch.of(plan.batch, plan.token, files), files)
        self.say("committed")
        return batch

    def _write(self, plan: Plan) -> list[DataFile]:
        bounds = Position(plan.start_xid), Position(plan.end_xid)
        whole = SegmentRange(self._config.queue, self._queue_id, *bounds)
        ranges = self._ledger.ask(split_batch, whole, self._config.tasks)
        names = [f"{plan.batch:010d}-{number:05d}" for number in range(len(ranges))]
        dsn, folder = self._config.dsn, self._lake.folder

        def write(number: int) -> list[DataFile]:
            with DayFiles(folder, names[number]) as files:
                for batch in read_range(dsn, ranges[number]):
                    files.write(batch)
            return files.closed

        for job in range(1, _JOBS + 1):
            try:
                return run_tasks(self._spark, len(ranges), write)
            except Exception:
                if job == _JOBS:
                    raise
                self._ledger.ask(horizon)  # Waits until PostgreSQL is available again.
        raise AssertionError
